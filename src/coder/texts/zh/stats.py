"""What `coder stats` says, in Chinese."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "stats.by_day": "按日期",
    "stats.by_model": "按模型",
    "stats.by_project": "按项目",
    "stats.by_tool": "按工具",
    "stats.checks": "检查：{checks}",
    "stats.head.cached": "缓存",
    "stats.head.calls": "调用",
    "stats.head.completion": "输出",
    "stats.head.cost": "费用",
    "stats.head.denied": "被拒",
    "stats.head.failed": "失败",
    "stats.head.prompt": "输入",
    "stats.head.requests": "请求",
    "stats.head.sessions": "会话",
    "stats.head.steps": "步",
    "stats.head.time": "用时",
    "stats.head.turns": "回合",
    "stats.help.all": "所有项目的会话，而不只是这个文件夹的",
    "stats.help.days": "只统计最近 N 天，含今天",
    "stats.none": "这里在这段时间内没有会话记录。",
    "stats.time": "用时",
    "stats.time.model": "等待模型",
    "stats.time.person": "等待你",
    "stats.time.tools": "运行工具",
    "stats.tokens": "token：输入 {prompt}（缓存 {share}），输出 {completion}；费用 {cost}",
    "stats.total": "会话 {sessions} 个，{turns} 回合，{steps} 步",
}
