"""撤销：恢复了什么、留下了什么及其原因，中文。"""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "undo.caches": "… 以及 {n} 个缓存文件",
    "undo.conflict": (
        "第 {turn} 回合未撤销，因为这些文件之后又有改动：\n{files}\n"
        "{again} force 可强制替换（会保留一份副本）。"
    ),
    "undo.copy": "你的版本保存在 {path}",
    "undo.cut_off": "会话中断时正在运行的命令所做的改动不在撤销范围内：{commands}",
    "undo.done": "已撤销第 {turn} 回合的文件改动：",
    "undo.doubtful": (
        "第 {turn} 回合未撤销，因为以下改动未必出自该回合：\n{files}\n"
        "{again} force 可强制撤销（会保留一份副本）。"
    ),
    "undo.failed": "撤销未能完成：{reason}",
    "undo.force_rest": "{again} force 可将未撤销的部分一并撤销（会保留一份副本）。",
    "undo.kept": "保留 {path}：其中已有其他内容",
    "undo.merged": "已从 {path} 中去除该改动，并保留了后来的修改",
    "undo.more": "… 另有 {n} 项",
    "undo.no_change": "没有文件需要改动",
    "undo.no_turn": "第 {turn} 回合没有可撤销的文件改动。有改动的回合：{turns}",
    "undo.nothing": "本会话没有可撤销的内容。",
    "undo.nothing_left": "第 {turn} 回合的文件改动已没有可撤销的部分。",
    "undo.own_commands": "你自己运行的命令所做的改动不在撤销范围内：{commands}",
    "undo.preview": "/undo 将撤销第 {turn} 回合的文件改动：",
    "undo.redo": "/redo 可恢复这些改动。",
    "undo.removed": "已删除 {path}",
    "undo.restored": "已恢复 {path}",
    "undo.shared": "未动 {path}：它改变时另一个会话的命令也在运行",
    "undo.uncovered": "未覆盖：{path}",
    "undo.unsure": "未动 {path}：它是在命令中断之后改变的，可能是你改的",
    "undo.usage": "用法：/undo [N|N..|turn N] [force]，/undo show …",
    "undo.would_doubt": (
        "/undo 将拒绝撤销第 {turn} 回合，因为以下改动未必出自该回合：\n{files}\n"
        "{again} force 会强制撤销（并保留副本）。"
    ),
    "undo.would_leave_shared": "不动 {path}：它改变时另一个会话的命令也在运行",
    "undo.would_leave_unsure": "不动 {path}：它是在命令中断之后改变的，可能是你改的",
    "undo.would_merge": "从 {path} 中去除该改动，并保留后来的修改",
    "undo.would_not": (
        "/undo 将拒绝撤销第 {turn} 回合，因为以下文件此后有改动：\n{files}\n"
        "{again} force 会强制替换（并保留副本）。"
    ),
    "undo.would_remove": "删除 {path}",
    "undo.would_restore": "恢复 {path}",
}
