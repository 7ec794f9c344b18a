"""The status row of a running turn, in Chinese."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "busy.seconds": "{n} 秒",
    "busy.minutes": "{m} 分 {s} 秒",
    "busy.tokens": "{n} 个 token",
    "busy.stops": "esc 停止",
    "busy.steers": "{key} 插话",
    "busy.do.bash": "正在运行 {what}",
    "busy.do.read": "正在读取 {what}",
    "busy.do.list": "正在列出 {what}",
    "busy.do.glob": "正在查找 {what}",
    "busy.do.grep": "正在搜索 {what}",
    "busy.do.write": "正在写入 {what}",
    "busy.do.edit": "正在编辑 {what}",
    "busy.do.patch": "正在修补 {what}",
    "busy.do.fetch": "正在获取 {what}",
    "busy.do.task": "子代理：{what}",
    "busy.do.job": "后台任务：{what}",
    "busy.do.other": "正在运行 {what}",
    "busy.calling": "正在准备 {tool}",
    "busy.writing_lines": "正在写入 {what}，{n} 行",
    "busy.compacting": "正在压缩对话",
    "busy.retrying": "{n} 秒后重试",
    "busy.stopping": "正在停止 …",
    "busy.catching_up": "连接中断，正在请求余下的部分",
    "busy.loading": "正在加载模型，{percent}%",
    "busy.reading": "模型正在读取，{percent}%",
    "busy.waiting": "等待模型",
    "busy.thinking": "正在思考",
    "busy.writing": "正在回答",
}
