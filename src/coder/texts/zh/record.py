"""Chinese texts about the record: where it cannot be kept, and whose it is."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "record.full": "磁盘已满",
    "record.in_use": (
        "会话 {id} 正在另一个进程中打开：请先在那里退出。若是在此终端中按 Ctrl+Z 暂停的，`fg` 可恢复。"
    ),
    "record.leads_out": (
        "不写会话记录：{directory} 经由链接指向本文件夹之外的 {real}。"
        "请删除该链接，或用 --log-dir 指定文件夹。"
    ),
    "record.no_folder": "无法在 {directory} 记录会话：{why}。请用 --log-dir 另选一个文件夹。",
    "record.no_history": "无法写入历史 {path}：{why}。",
    "record.not_written": "无法写入会话记录 {path}：{why}。此前记录的内容是安全的。",
    # whose a record is
    "record.accepted": "会话 {id}（{title}）从现在起算作你自己的。",
    "record.foreign": (
        "最新的会话 {id} 不是你用这个 coder 主目录记录的：它可能随项目而来。"
        "如果确实要用它，请用 --resume {id} 指明；如果它是你自己的：coder trust --session {id}"
    ),
    "record.foreign_about": (
        "会话 {id}（{title}）不是你用这个 coder 主目录记录的：它可能随项目而来，也可能早于用来辨认的封印。"
    ),
    "record.foreign_ask": "要相信它的内容并继续吗？",
    "record.foreign_prompt": "要相信它的内容并继续吗？[y/N] ",
    "record.left_alone": "会话 {id} 保持原样，没有继续。",
    "record.no_key": "无法在 {directory} 保存给你的记录封印用的密钥：{why}。",
    "record.words_only": (
        "会话 {id} 不是你用这个 coder 主目录记录的："
        "其中说过的话会接着用，它的系统消息和它当时等待的操作则不会。"
        "如果它是你自己的：coder trust --session {id}"
    ),
    "record.yours_already": "会话 {id} 本来就是你的。",
    "record.review_conflict": "没有撤回任何内容，因为这些文件的相同位置此后又有改动：\n{files}",
    "record.review_kept": "全部保留。",
    "record.review_needs_person": "没有改动任何内容：逐处保留或撤回需要能向人询问的终端。",
    "record.review_question": "这些改动已经完成：是则保留，否则全部撤回（/redo 可恢复）。",
    "record.review_redo": "已恢复先前撤回的部分：",
    "record.sink_failed": "历史接收器 {sink} 出错（{why}），可能缺少部分事件；记录本身是完整的。",
    "record.review_undo": "已撤回以下部分；/redo 可恢复：",
}
