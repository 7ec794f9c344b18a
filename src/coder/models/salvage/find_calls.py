"""Finds tool calls written into a model's text, and distinguishes them from examples.

Small and local models answer with fenced, tagged or bare JSON although they have native tools. A call counts
only if nothing follows it, little text precedes it, it begins its line or follows a colon, and it names a
tool with all its required parameters: anything less may be an example in an answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from coder.models.json_repair import NotReadable, read_lenient
from coder.models.quotation import is_spoken_of
from coder.models.react.elements import element_arguments, entry_arguments, unwrapped
from coder.protocol.messages import ToolSpec

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


# Whether a name and arguments are a valid call; with None for the arguments, whether the name is known.
IsCall = Callable[[str, Mapping[str, Any] | None], bool]
Call = tuple[str, str]  # the tool's name and its arguments as JSON text

MOST_PROSE = 800  # characters around the calls; with more it is an answer that contains JSON
_LONGEST = 400_000  # characters; longer answers are not searched

NAME_KEYS = ("name", "tool", "tool_name", "toolname", "function", "function_name", "action")
ARGUMENT_KEYS = (
    *("arguments", "parameters", "args", "params", "input", "kwargs"),
    *("tool_input", "toolinput", "action_input", "tool_args", "function_args"),
)
# Keys allowed beside name and arguments.
BESIDE = ("id", "call_id", "type", "thought", "thoughts", "reasoning", "explanation", "comment", "index")
WRAPPERS = ("tool_calls", "tool_call", "function_call", "function_calls", "calls", "actions", "tool_uses")
LANGUAGES = (
    *("", "json", "json5", "jsonc", "xml", "text", "tool", "tools", "tool_call", "tool_calls", "tool_code"),
    *("tool_use", "function", "function_call", "function_calls", "action"),
)

FENCE = re.compile(r"(`{3,}|~{3,})[ \t]*([\w+-]*)[ \t]*\n?")
WRAPPER = re.compile(
    rf"<\|?{MARK}(tool_calls?|function_calls?|tool_uses?|tool_code|tools?|function|action|call)\|?\s*>",
    re.IGNORECASE,
)
NAMED = re.compile(
    rf"<{MARK}(function|invoke|tool|tool_call|tool_use|action|call)"
    r"(?:\s*=\s*|\s+(?:name|tool)\s*=\s*)[\"']?([\w.:/-]{1,100})[\"']?\s*>",
    re.IGNORECASE,
)
TOKEN = re.compile(r"\[TOOL_CALLS\]|<\|python_tag\|>|<\|tool_calls?\|>|functools(?=\[)")
FORMS = (WRAPPER, NAMED, TOKEN, BEGIN, HARMONY)
ELEMENT = re.compile(r"<([A-Za-z_][\w.-]{0,99})>")
_NAME_THEN_OBJECT = re.compile(r"([\w.:/-]{1,100})\s*(?:\[CALL_ID\]\w{1,64})?(?:\[ARGS\])?\s*(?=\{)")
_CLOSER = re.compile(rf"</?\|?{MARK}[\w:]{{1,40}}\|?\s*>")
_BETWEEN = re.compile(r"[\s,;]*")
_END_TOKEN = re.compile(
    r"(?:<\|(?:im_end|eot_id|eom_id|endoftext|end|end_of_text|call|return|user|observation)\|>"
    r"|<｜end▁of▁sentence｜>|\[e~\[|</s>)\Z"
)
_LONGEST_TOKEN = 20  # characters
_LINE_ENDS = re.compile(r"[ \t]*\n")
_ANALYSIS = r"(?:<\|start\|>assistant)?<\|channel\|>analysis<\|message\|>"
_THINKING = re.compile(
    rf"\s*(?:<think(?:ing)?>.*?</think(?:ing)?>|{_ANALYSIS}.*?<\|end\|>)\s*", re.DOTALL | re.IGNORECASE
)
STILL_THINKING = re.compile(rf"\s*(?:<think(?:ing)?>|{_ANALYSIS})", re.IGNORECASE)
THOUGHT = re.compile(r".*?(?:</think(?:ing)?>|<\|end\|>)", re.IGNORECASE | re.DOTALL)
_OPENING = re.compile(r"```|~~~|\{|\[(?=TOOL_CALLS\]|\s*\{)|<|functools\[")
_EXAMPLE = re.compile(
    r"for example|\be\.g\.|\bexamples?\b|looks? like|(?:would|might|could) look|\bsample\b"
    r"|例如|比如|例子|示例|样例|形如|长这样",
    re.IGNORECASE,
)
_ASKS_TO_SEE = re.compile(
    r"\b(?:show|give|print|what (?:is|are)|example|sample|format|syntax)\b.{0,60}"
    r"\b(?:tool|function)[ _-]?calls?\b"
    r"|\b(?:tool|function)[ _-]?calls?\b.{0,40}\b(?:looks?|example|sample|format|syntax)\b"
    r"|(?:工具|函数)调用.{0,20}(?:样|格式|例|什么)|(?:什么|示例|展示|举例|写出|给.{0,4}看).{0,20}(?:工具|函数)调用",
    re.IGNORECASE | re.DOTALL,
)


class Found(msgspec.Struct, frozen=True):
    """`start`: the offset of the first call; `blocks`: the text of the calls."""

    start: int
    calls: list[Call]
    blocks: list[str]


def asks_to_see_calls(text: str) -> bool:
    """Whether the person asks what calls look like: then JSON in the answer is no call."""
    return _ASKS_TO_SEE.search(text) is not None


def find_calls(text: str, tools: Sequence[ToolSpec], is_call: IsCall) -> Found | None:
    """The calls at the end of an answer; None if there are none or it is ambiguous."""
    end = _end_of(text)
    if end > _LONGEST:
        return None
    reader = Blocks(text[:end], tools, is_call)
    thinking = _THINKING.match(text)
    if thinking is None and STILL_THINKING.match(text):
        return None
    at = prose_from = thinking.end() if thinking else 0
    start = -1
    calls: list[Call] = []
    blocks: list[str] = []
    prose = ""
    while opening := _OPENING.search(reader.text, at):
        if opening.start() - prose_from + len(prose) > MOST_PROSE:
            return None
        before = reader.text[prose_from : opening.start()]
        special = SPECIAL.match(reader.text, opening.start()) is not None
        block = reader.block(opening.start()) if _may_begin(before, special) else None
        if block is None:
            at = _past(reader.text, opening.start())
            continue
        if is_spoken_of(before):
            return None
        prose += before
        start = opening.start() if start < 0 else start
        calls += block[0]
        blocks.append(FENCE.sub("", reader.text[opening.start() : block[1]], count=1))
        at = prose_from = block[1]
    if not calls or prose_from < end or _EXAMPLE.search(prose[-200:]):
        return None
    return Found(start, calls, blocks)


def _end_of(text: str) -> int:
    """Where the text ends without blanks and the tokens that end an answer."""
    end = len(text)
    while True:
        while end and text[end - 1].isspace():
            end -= 1
        token = _END_TOKEN.search(text, max(0, end - _LONGEST_TOKEN), end)
        if token is None:
            return end
        end = token.start()


def find_unrun(text: str, tools: Sequence[ToolSpec], is_call: IsCall) -> tuple[str, str] | None:
    """The tool and the text of the first tagged call on lines of its own, in an answer of which none was
    taken. One in a code fence may be an example."""
    reader = Blocks(text, tools, is_call)
    at = 0
    while len(text) <= _LONGEST and (opening := _OPENING.search(text, at)):
        start = opening.start()
        tagged = any(form.match(text, start) for form in FORMS)
        alone = tagged and not text[text.rfind("\n", 0, start) + 1 : start].strip()
        block = reader.block(start) if alone else None
        if block and _LINE_ENDS.match(text, block[1]) and not _is_example(text[:start]):
            return block[0][0][0], text[start : block[1]]
        at = _past(text, start)
    return None


def _may_begin(before: str, special: bool) -> bool:
    """Whether a call may follow this text: not in a sentence, a list, a table or a quotation. Models put
    their `special` tokens right behind a sentence."""
    line = THOUGHT.sub("", before.rpartition("\n")[2]).strip(" \t,;*_")
    ends = (":", "：", ".", "!", "?", "。", "！", "？") if special else (":", "：")
    return not line or line.endswith(ends)


def _is_example(before: str) -> bool:
    return _EXAMPLE.search(before[-200:]) is not None or is_spoken_of(before)


def _past(text: str, at: int) -> int:
    """Skip what is no call: a fenced block as a whole."""
    fence = FENCE.match(text, at)
    if fence is None:
        return at + 1
    closing = text.find("\n" + fence[1], fence.end() - 1)
    return closing + 1 + len(fence[1]) if closing >= 0 else len(text)


class Blocks:
    """Parses blocks that consist of calls only."""

    def __init__(self, text: str, tools: Sequence[ToolSpec], is_call: IsCall) -> None:
        self.text = text
        self._tools = {spec.name: spec for spec in tools}
        self._is_call = is_call

    def block(self, at: int, depth: int = 0) -> tuple[list[Call], int] | None:
        """The calls of the block at offset `at`, and its end."""
        if depth > 3:
            return None
        for read in (
            *(self._fenced, self._named, self._keyed, self._wrapped, self._behind_token, self._bare),
            *(self._harmony, self._between_tokens, self._element),
        ):
            if (block := read(at, depth)) is not None:
                return block
        return None

    def _inside(self, at: int, depth: int) -> tuple[list[Call], int]:
        """All consecutive blocks."""
        calls: list[Call] = []
        while True:
            at = self._between(at)
            block = self.block(at, depth + 1)
            if block is None:
                return calls, at
            calls += block[0]
            at = block[1]

    def _between(self, at: int) -> int:
        between = _BETWEEN.match(self.text, at)
        return between.end() if between else at

    def _fenced(self, at: int, depth: int) -> tuple[list[Call], int] | None:
        fence = FENCE.match(self.text, at)
        if fence is None or fence[2].lower() not in LANGUAGES:
            return None
        calls, end = self._inside(fence.end(), depth)
        if not calls:
            return None
        if self.text.startswith(fence[1], end):
            return calls, end + len(fence[1])
        return (calls, end) if end == len(self.text) else None

    def _wrapped(self, at: int, depth: int) -> tuple[list[Call], int] | None:
        opener = WRAPPER.match(self.text, at)
        if opener is None:
            return None
        calls, end = self._inside(opener.end(), depth)
        return (calls, self._closed(end)) if calls else None

    def _closed(self, at: int) -> int:
        """Skip the closing tag, which models omit or misspell."""
        closer = _CLOSER.match(self.text, self._between(at))
        if closer is None or not (closer[0].startswith("</") or WRAPPER.match(closer[0])):
            return at
        return closer.end()

    def _named(self, at: int, depth: int) -> tuple[list[Call], int] | None:
        """`<function=read>{…}</function>`, also with the arguments as elements."""
        opener = NAMED.match(self.text, at)
        if opener is None:
            return None
        name, inside = opener[2], self._between(opener.end())
        if self.text.startswith("{", inside):
            value = self._value(inside)
            if value is None or not isinstance(value[0], dict) or not self._is_call(name, value[0]):
                return None
            return [(name, _json(value[0]))], self._closed(value[1])
        closer = re.compile(rf"</{MARK}{opener[1]}\s*>", re.IGNORECASE).search(self.text, inside)
        if closer is None:
            return None
        arguments = entry_arguments(self.text[inside : closer.start()], self._spec(name))
        if arguments is None or not self._is_call(name, arguments):
            return None
        return [(name, _json(arguments))], closer.end()

    def _behind_token(self, at: int, depth: int) -> tuple[list[Call], int] | None:
        token = TOKEN.match(self.text, at)
        if token is None:
            return None
        inside = self._between(token.end())
        named = _NAME_THEN_OBJECT.match(self.text, inside)
        if named is None:
            calls, end = self._inside(inside, depth)
            return (calls, end) if calls else None
        value = self._value(named.end())
        if value is None or not self._is_call(named[1], value[0]):
            return None
        return [(named[1], _json(value[0]))], value[1]

    def _keyed(self, at: int, depth: int) -> tuple[list[Call], int] | None:
        """`<tool_call>read<arg_key>path</arg_key><arg_value>a</arg_value></tool_call>`"""
        opener = WRAPPER.match(self.text, at)
        head = KEYED.match(self.text, opener.end()) if opener else None
        if head is None:
            return None
        arguments, end = dict[str, Any](), head.end()
        while entry := KEY.match(self.text, end):
            arguments[entry[1]] = unwrapped(entry[2]) if entry[2].startswith("\n") else entry[2]
            end = entry.end()
        closed = self._closed(end)
        if (closed == end and self.text[end:].strip()) or not self._is_call(head[1], arguments):
            return None  # further arguments may be on their way
        return [(head[1], _json(arguments))], closed

    def _harmony(self, at: int, depth: int) -> tuple[list[Call], int] | None:
        head = HARMONY.match(self.text, at)
        return self._headed(head, HARMONY_END)

    def _between_tokens(self, at: int, depth: int) -> tuple[list[Call], int] | None:
        """One or several calls, with or without the tokens around all of them."""
        calls: list[Call] = []
        while begin := BEGIN.match(self.text, at):
            block = self._headed(HEAD.match(self.text, begin.end()), END)
            if block is None:
                return None
            calls += block[0]
            at = block[1]
        return (calls, at) if calls else None

    def _headed(self, head: re.Match[str] | None, end: re.Pattern[str]) -> tuple[list[Call], int] | None:
        """The call whose tool is in the head and whose arguments follow it as an object."""
        value = self._value(head.end()) if head else None
        if head is None or value is None or not isinstance(value[0], dict):
            return None
        if not self._is_call(head[1], value[0]):
            return None
        closing = end.match(self.text, value[1])
        return [(head[1], _json(value[0]))], closing.end() if closing else value[1]

    def _bare(self, at: int, depth: int) -> tuple[list[Call], int] | None:
        if self.text[at : at + 1] not in ("{", "["):
            return None
        value = self._value(at)
        calls = self._calls_of(value[0]) if value is not None else []
        return (calls, value[1]) if value is not None and calls else None

    def _element(self, at: int, depth: int) -> tuple[list[Call], int] | None:
        """`<read><path>x</path></read>`: the exact tool name with only its parameters inside."""
        opener = ELEMENT.match(self.text, at)
        spec = self._tools.get(opener[1]) if opener else None
        if opener is None or spec is None:
            return None
        end = self.text.find(f"</{opener[1]}>", opener.end())
        if end < 0:
            return None
        arguments = element_arguments(self.text[opener.end() : end], spec)
        if not arguments or not self._is_call(spec.name, arguments):
            return None
        return [(spec.name, _json(arguments))], end + len(opener[1]) + 3

    # values

    def _spec(self, name: str) -> ToolSpec | None:
        return self._tools.get(name) or self._tools.get(name.lower())

    def _value(self, at: int) -> tuple[Any, int] | None:
        try:
            value, end = read_lenient(self.text, at)
        except (NotReadable, ValueError, OverflowError, RecursionError):
            return None
        return value, end

    def _calls_of(self, value: Any) -> list[Call]:
        """The calls in a value; none if any part of it is something else."""
        if isinstance(value, list):
            each = [self._calls_of(one) for one in value]
            return [call for calls in each for call in calls] if all(each) else []
        if not isinstance(value, dict):
            return []
        keys = {str(key).lower(): key for key in value}
        for wrapper in WRAPPERS:
            if wrapper in keys and all(key == wrapper or key in BESIDE for key in keys):
                return self._calls_of(value[keys[wrapper]])
        call = self._call_of({key: value[name] for key, name in keys.items()})
        return [call] if call is not None else []

    def _call_of(self, value: dict[str, Any]) -> Call | None:
        function = value.get("function")
        if isinstance(function, dict):  # OpenAI's own shape
            return self._call_of({str(key).lower(): one for key, one in function.items()})
        name_key = next((key for key in NAME_KEYS if isinstance(value.get(key), str)), "")
        name = str(value.get(name_key, "")).removeprefix("functions.")
        if not name:
            return None
        rest = {key: one for key, one in value.items() if key != name_key and key not in BESIDE}
        arguments: Any = rest  # `{"tool": "read", "path": "x"}`
        for key in ARGUMENT_KEYS:
            if key in rest and len(rest) == 1:
                arguments = _object(rest[key])
                break
        else:
            spec = self._spec(name)
            known = spec.function.parameters.get("properties", {}) if spec is not None else {}
            # `name` and `action` are keys of ordinary data, too. Other harnesses' parameters: see `is_call`.
            if spec is None or (not name_key.startswith("tool") and any(key not in known for key in rest)):
                return None
        if not isinstance(arguments, dict) or _is_schema(arguments):
            return None
        return (name, _json(arguments)) if self._is_call(name, arguments) else None


def _object(arguments: Any) -> Any:
    """The arguments, decoded if they are JSON text."""
    if arguments is None or arguments == "":
        return {}
    if not isinstance(arguments, str):
        return arguments
    try:
        value, end = read_lenient(arguments)
    except (NotReadable, ValueError, OverflowError, RecursionError):
        return None
    return value if end == len(arguments.rstrip()) or end == len(arguments) else None


def _is_schema(arguments: Mapping[str, Any]) -> bool:
    """Whether the model recited the tool's definition."""
    return isinstance(arguments.get("properties"), dict)


def _json(arguments: Any) -> str:
    return msgspec.json.encode(arguments).decode("utf-8")
