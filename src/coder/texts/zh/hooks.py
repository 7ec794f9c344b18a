"""Hooks, in Chinese."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "hooks.asks": "钩子要求你确认：{reason}",
    "hooks.bad_matcher": "其 matcher 不是正则表达式，因此对每个工具都会运行",
    "hooks.compaction_blocked": "被钩子阻止：{reason}",
    "hooks.failed": "钩子 `{command}`（{event}）没有给出答复，已跳过：{why}",
    "hooks.last_run": "上次运行 {at}，{outcome}，{ms} 毫秒",
    "hooks.never_run": "尚未运行",
    "hooks.none": "没有钩子。钩子写在 {file} 的 `hooks` 一节；示例见 docs/hooks.md。",
    "hooks.prompt_blocked": "钩子没有放行这条消息：{reason}",
    "hooks.refused": "被钩子拒绝：{reason}",
    "hooks.stopped": "钩子停止了本回合：{reason}",
    "hooks.untrusted": "未运行：尚未信任此项目（`coder trust`）",
}
