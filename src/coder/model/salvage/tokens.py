"""How open models write calls between special tokens, where a server passes them on as text.

gpt-oss (harmony): `<|channel|>commentary to=functions.read <|constrain|>json<|message|>{…}<|call|>`;
Kimi K2: `<|tool_call_begin|>functions.read:0<|tool_call_argument_begin|>{…}<|tool_call_end|>`;
DeepSeek V3.1: `<｜tool▁call▁begin｜>read<｜tool▁sep｜>{…}<｜tool▁call▁end｜>`, V3 with a fence around it;
GLM: `<tool_call>read<arg_key>path</arg_key><arg_value>a</arg_value></tool_call>`.
DeepSeek from V3.2 on (`｜DSML｜`) and MiniMax (`minimax:`) put a mark before the names of XML elements.
"""

from __future__ import annotations

import re
from typing import Final

_BAR: Final = "[|｜]"
_GAP: Final = "[▁_ ]"
MARK: Final = rf"(?:{_BAR}DSML{_BAR}|minimax:)?"
# What stands in a text for nothing else, so that a call may follow a sentence on its line.
SPECIAL: Final = re.compile(rf"<(?:{_BAR}|minimax:)")
MAY_BE_SPECIAL: Final = re.compile(rf"<(?:{_BAR}|\Z)")

_SECTION: Final = rf"tool{_GAP}calls?(?:{_GAP}section)?{_GAP}"
BEGIN: Final = re.compile(rf"(?:<{_BAR}{_SECTION}begin{_BAR}>\s*)+")
END: Final = re.compile(rf"\s*(?:```\s*)?(?:<{_BAR}{_SECTION}end{_BAR}>\s*)*")
HEAD: Final = re.compile(
    rf"(?:function\s*<{_BAR}tool{_GAP}sep{_BAR}>)?\s*(?:functions\.)?([\w./-]{{1,100}})(?::\d+)?\s*"
    rf"(?:<{_BAR}tool{_GAP}(?:sep|call{_GAP}argument{_GAP}begin){_BAR}>\s*)?(?:```(?:json)?\s*)?(?=\{{)"
)
HARMONY: Final = re.compile(
    r"(?=<\|)(?:<\|start\|>assistant)?(?:<\|channel\|>\w{1,20})? ?\s*to=(?:functions\.)?([\w./-]{1,100})\s*"
    r"(?:<\|channel\|>\w{1,20})?\s*(?:<\|constrain\|>)?\s*(?:json|code)?\s*<\|message\|>\s*(?=\{)"
)
HARMONY_END: Final = re.compile(r"\s*(?:<\|(?:call|end)\|>)?")
HARMONY_BEGINS: Final = re.compile(
    r"(?=<\|)(?:<\|start\|>assistant)?(?:<\|channel\|>(?:commentary|analysis))?\s*to=[^{}\n]{0,200}\Z"
)
KEYED: Final = re.compile(r"\s*([\w./-]{1,100})\s*(?=<arg_key>|</tool_call>)")
KEY: Final = re.compile(
    r"\s*<arg_key>\s*([^<>]{1,100}?)\s*</arg_key>\s*<arg_value>(.*?)</arg_value>"
    r"(?=\s*(?:<arg_key>|</tool_call>|\Z))",
    re.DOTALL,
)
MINIMAX_END: Final = "[e~["
OPENERS: Final = (
    *("<|channel|>commentary to=", "<|channel|>analysis to=", "<|start|>assistant to="),
    *("<|start|>assistant<|channel|>commentary to=", "<|start|>assistant<|channel|>analysis to="),
    *("<|tool_calls_section_begin|>", "<|tool_call_section_begin|>", "<|tool_call_begin|>"),
    *("<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<|tool▁calls▁begin|>", "<|tool▁call▁begin|>"),
    *("<｜dsml｜", "<|dsml|", "<minimax:tool_call"),
)


def tool_named(text: str) -> str:
    """The tool that the call at the beginning of a text names, complete or not; empty if there is none."""
    if harmony := HARMONY.match(text):
        return harmony[1]
    begin = BEGIN.match(text)
    head = HEAD.match(text, begin.end()) if begin else KEYED.match(text.removeprefix("<tool_call>"))
    return head[1] if head else ""
