"""What a question says, and what stands around it, in Chinese."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "approval.choices": "允许吗？[y] 是 / [n] 否（可附理由）/ [a] 总是：",
    "approval.choices_narrow": "允许吗？[y] 是 / [n] 否 / [a] 总是：",
    "approval.choices_once": "允许吗？[y] 是 / [n] 否（可附理由）：",
    "approval.choices_once_narrow": "允许吗？[y] 是 / [n] 否：",
    "approval.head": "{tool} 需要你的批准：",
    "approval.hidden": "其中有 {n} 个看不见的字符，以编码标出，如 ⟨U+200B⟩。",
    "approval.long_line": "最长的一行有 {n} 个字符。",
    "approval.nobody": "{tool} 需要批准而此处无人可问，已拒绝；{flag} 可放行。",
    "approval.nobody_short": "需要批准",
    "approval.not_an_answer": "这不是有效的回答：y（是）允许，n（否）拒绝，其后可附理由。",
    "approval.not_an_answer_always": (
        "这不是有效的回答：y（是）允许，n（否）拒绝（可附理由），a（总是）今后一律允许。"
    ),
    "approval.one_part_seen": "↑ {tool}：这一行有 {n} 个字符，超出屏幕；向上滚动可读全部",
    "approval.part_seen": "↑ {tool}：共 {n} 行，屏幕上只有最后 {shown} 行；向上滚动可读其余",
    "approval.reason": "原因：{reason}",
    "approval.refused": "已被你拒绝",
    "approval.remembers": "总是：今后在此项目中 {names} 不再询问即可运行",
    "approval.runs": "连续的空白和空行以个数标出：␠ 空格，⇥ 制表符，⏎ 空行。",
    "approval.setting": "设置 approval.auto_approve_ask",
}
