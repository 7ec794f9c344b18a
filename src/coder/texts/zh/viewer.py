"""Texts of the page of `coder view` and of exported files, in Chinese."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "viewer.approval": "批准 {tool} {subject}：{answer}（{who}）",
    "viewer.asked": "请求批准：{tool} {subject}",
    "viewer.beside": "并排",
    "viewer.by_person": "由本人回答",
    "viewer.by_policy": "未询问：{why}",
    "viewer.check": "检查 {command}：{state}",
    "viewer.check_skipped": "没有运行检查",
    "viewer.compaction": "历史已总结：{before} → {after} 个 token",
    "viewer.denied": "已拒绝",
    "viewer.end": "{status} · {n} 步 · {tokens} 个 token",
    "viewer.failed": "失败",
    "viewer.image": "图片 {name}（{width}×{height}）",
    "viewer.job": "任务 {job} {state}：{command}",
    "viewer.loop": "检测到循环",
    "viewer.more": "还有 {n} 个字符",
    "viewer.note": "给模型的提示（{reason}）",
    "viewer.output": "输出，{n} 行",
    "viewer.page.choose": "请选择一个会话，或按 / 搜索。",
    "viewer.page.close": "关闭",
    "viewer.page.everywhere": "所有项目",
    "viewer.page.failed": "服务器没有回答；coder view 还在运行吗？",
    "viewer.page.file": "依次列出其改动",
    "viewer.page.files": "改动的文件",
    "viewer.page.filter": "筛选",
    "viewer.page.follow": "跟随",
    "viewer.page.help": "按键",
    "viewer.page.keys": (
        "/      搜索\n"
        "j k    下一轮、上一轮\n"
        "[ ]    回放后退、前进一个事件\n"
        "t      展开或折叠全部思考\n"
        "l      跟随正在运行的会话\n"
        "m      会话列表\n"
        "d      深色或浅色\n"
        "x      关闭最后一栏\n"
        "?      本说明"
    ),
    "viewer.page.no_token": "此地址需要 coder view 打印的令牌；请重新打开那个地址。",
    "viewer.page.nothing": "没有找到会话。",
    "viewer.page.replay": "回放",
    "viewer.page.search": "搜索说过、运行过和输出过的一切",
    "viewer.page.sessions": "会话",
    "viewer.page.theme": "深色或浅色",
    "viewer.page.turns": "轮次",
    "viewer.plot": "每轮的 token 与费用",
    "viewer.port_taken": "端口 {port} 无法使用：{why}。请用 --port 换一个，或不指定。",
    "viewer.redo": "重做了第 {turn} 轮的文件改动：{paths}",
    "viewer.routing": "模型：{model}",
    "viewer.serving": ("会话在 {url}\n地址中含有秘密令牌；得到它的人可以读取你的会话。按 Ctrl+C 结束。"),
    "viewer.session": "会话 {id} · {when} · {model} · {cwd}",
    "viewer.session_end": "离开会话 · {when}",
    "viewer.summary": "{n} 轮 · 发送 {prompt} 个 token，其中缓存 {cached}，接收 {completion}",
    "viewer.thinking": "思考",
    "viewer.turn": "第 {n} 轮",
    "viewer.turns": "{n} 轮",
    "viewer.rewind": "对话退回到第 {turn} 回合之前",
    "viewer.rewind_back": "撤回了该次退回",
    "viewer.undo": "撤销了第 {turn} 轮的文件改动：{paths}",
    "viewer.review_redo": "恢复了上次撤回的部分",
    "viewer.review_undo": "撤回了部分改动：{hunks}",
}
