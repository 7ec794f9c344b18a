"""Streaming parser (a state machine) for the ReAct XML dialect.

`<thought>` is reasoning, `<action tool="…">` a call, `<final>` the answer; untagged text is the answer if
there is neither action nor final. An action that is only spoken of (in inline code, a comment, a quotation,
after words that decline it) is text. The result does not depend on how the text is chunked.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence

import msgspec
from msgspec.structs import replace

from coder.models.arguments import FILTERED_FAULT, call_ready
from coder.models.model import FILTERED, CallReady, Chunk, ReasoningDelta, Restarted, TextDelta
from coder.models.quotation import FAULT, is_quoted, is_spoken_of
from coder.models.react.elements import entry_arguments, wrapped_body
from coder.protocol.messages import Message, ToolSpec, tool_call

_ENTITIES = {"&quot;": '"', "&apos;": "'", "&#39;": "'", "&lt;": "<", "&gt;": ">", "&amp;": "&"}


Action = tuple[str, str, dict[str, str]]  # the tool, the body, and the other attributes

_ACTION_ATTRIBUTE = re.compile(r"([\w:-]+)\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"']+))")


def attributes_of(text: str) -> tuple[str, dict[str, str]]:
    """The tool that an `<action …>` names, and its other attributes."""
    found = {
        key.lower(): double or single or bare for key, double, single, bare in _ACTION_ATTRIBUTE.findall(text)
    }
    tool = found.pop("tool", "") or found.pop("name", "")
    return tool.strip(), found


def react_call(call_id: str, action: Action, tools: Sequence[ToolSpec], finish_reason: str) -> CallReady:
    """The body may be a JSON object, elements or attributes named as the parameters, or plain text for the
    only required parameter."""
    tool, body, attributes = action
    body = body.strip()
    if body.startswith("<![CDATA[") and body.endswith("]]>"):
        body = body[9:-3].strip()
    spec = next((spec for spec in tools if spec.name.lower() == tool.lower()), None)
    if body.startswith("<"):
        body = wrapped_body(body)
    if not body and spec is not None:
        known = spec.function.parameters.get("properties", {})
        given = {key: value for key, value in attributes.items() if key in known}
        body = msgspec.json.encode(given).decode("utf-8")
    if body.startswith(("{", "```")) or not body:
        return _json_call(call_id, tool, body, finish_reason)
    if body.startswith("<") and (elements := entry_arguments(body, spec)):
        return CallReady(call=tool_call(call_id, tool, msgspec.json.encode(elements).decode("utf-8")))
    parameter = _only_required(spec) if spec is not None else ""
    if finish_reason == "length" or not parameter:
        return _without_object(call_id, tool, body, finish_reason)
    arguments = msgspec.json.encode({parameter: _unquoted(body)}).decode("utf-8")
    return CallReady(call=tool_call(call_id, tool, arguments))


def _json_call(call_id: str, tool: str, body: str, finish_reason: str) -> CallReady:
    ready = call_ready(call_id, tool, body, finish_reason)
    if ready.fault and "&quot;" in body:
        # Decode entities only if the body is no JSON otherwise: then they cannot be meant literally.
        plain = body
        for entity, character in _ENTITIES.items():
            plain = plain.replace(entity, character)
        again = call_ready(call_id, tool, plain, finish_reason)
        return ready if again.fault else again
    return ready


def _without_object(call_id: str, tool: str, body: str, finish_reason: str) -> CallReady:
    if finish_reason == "length":
        fault = (
            f"The action `{tool}` was cut off by the output limit, so it was not run. Send it again, shorter."
        )
    else:
        fault = f"The body of <action tool={tool!r}> must be one JSON object with the tool's parameters."
    return CallReady(call=tool_call(call_id, tool, body), fault=fault)


def _only_required(spec: ToolSpec) -> str:
    """The only required parameter, if it is a string."""
    required = spec.function.parameters.get("required") or []
    if len(required) != 1:
        return ""
    properties = spec.function.parameters.get("properties") or {}
    kind = (properties.get(required[0]) or {}).get("type", "string")
    return str(required[0]) if kind == "string" else ""


def _unquoted(body: str) -> str:
    """Decode a body that is a JSON string."""
    if body.startswith('"'):
        try:
            return msgspec.json.decode(body, type=str)
        except (msgspec.DecodeError, UnicodeError):
            return body
    return body


_THOUGHT = r"<(?P<thought>thought|thinking|think)\s{0,8}>"
_FINAL = r"<(?P<final>final)\s{0,8}>"
# Attributes in any order, quoted or not, one of them `tool` or `name`; may be self-closing.
_ATTRIBUTE = r"\s{1,8}[\w:-]{1,40}\s{0,8}=\s{0,8}(?:\"[^\"<>]{0,200}\"|'[^'<>]{0,200}'|[^\s\"'<>/=]{1,100})"
_ACTION = rf"<action(?P<action>(?:{_ATTRIBUTE}){{1,8}})\s{{0,8}}(?P<empty>/)?\s{{0,8}}>"
_OBSERVATION = r"<(?P<observation>observation)(?:\s[^<>]{0,100})?>"

_OPENERS = re.compile("|".join([_THOUGHT, _FINAL, _ACTION, _OBSERVATION]), re.IGNORECASE)
_OPENERS_WITHOUT_TOOLS = re.compile("|".join([_THOUGHT, _FINAL]), re.IGNORECASE)
_IN_THOUGHT = re.compile(
    "|".join([r"</(?P<close>thought|thinking|think)\s{0,8}>", _FINAL, _ACTION]), re.IGNORECASE
)
_IN_ACTION = re.compile(
    "|".join([r"</(?P<close>action)\s{0,8}>", _FINAL, _ACTION, _OBSERVATION]), re.IGNORECASE
)
_END_OF_FINAL = re.compile(r"</final\s{0,8}>", re.IGNORECASE)
_FENCE = re.compile(r"^ {0,3}(```|~~~)", re.MULTILINE)
_JSON_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_FENCE_BEFORE_TAG = re.compile(r"\s*```\w*\s*\Z")

_TAG_STARTS = (
    *("<thought", "<thinking", "<think", "<final", "<action", "<observation"),
    *("</thought", "</thinking", "</think", "</final", "</action"),
)
_UNFINISHED_TAG = re.compile(
    r"</?(?:thought|thinking|think|final|action|observation)\s*|<(?:action|observation)\s[^<>]*"
)
_TAG_LIMIT = 600  # maximum length of a tag
_HELD_LIMIT = 400  # characters of untagged text after which it is emitted as the answer
_CONTEXT = 2_000  # characters before a tag that tell what is meant by it


class ReactParser:
    """`feed` text, then `finish`. `cut`: the model began to invent what follows; the rest is ignored."""

    def __init__(
        self, tools: Sequence[ToolSpec], read: Sequence[Message] = (), *, one_action: bool = False
    ) -> None:
        """`read`: what the model may be quoting. `one_action`: what follows the first is invented."""
        self._one_action = one_action
        self._tools = tools
        self._read = read
        self._openers = _OPENERS if tools else _OPENERS_WITHOUT_TOOLS
        self.cut = False
        self._mode: Callable[[], bool] = self._outside
        self._buffer = ""
        self._out: list[Chunk] = []
        self._held = ""  # untagged text of unknown meaning
        self._showing = False  # untagged text is emitted as the answer
        self._preamble = ""
        self._reasoning: list[str] = []
        self._shown: list[str] = []
        self._context = ""  # the end of the text before the buffer, since the last tag
        self._begun = False  # the current element has emitted something
        self._final: list[str] = []
        self._tool = ""
        self._scanned = 0  # the prefix of an action's body known not to contain its end
        self._attributes: dict[str, str] = {}
        self._actions: list[Action] = []
        self._tag = ""  # of the current action
        self._written: list[str] = []  # each action as the model wrote it

    def feed(self, text: str) -> list[Chunk]:
        self._buffer += text
        while self._mode():
            pass
        out, self._out = self._out, []
        return out

    def finish(self, reason: str) -> list[Chunk]:
        """The rest of the text, and the calls if there is no `<final>`."""
        rest, self._buffer = self._buffer, ""
        mode = self._mode
        if mode == self._in_final:
            self._show_final(_END_OF_FINAL.split(rest)[0] if _only_closed(rest) else rest, last=True)
        elif mode == self._in_thought:
            self._think(rest, last=True)
        elif mode == self._in_action:
            self._add_action(_unclosed_body(rest))
        elif mode == self._outside:
            self._untagged(rest)
        if mode != self._after_final and mode != self._in_final:
            self._conclude(reason)
        out, self._out = self._out, []
        return out

    def _conclude(self, reason: str) -> None:
        if not self._actions:
            self._text(self._held if self._showing else self._held.strip())
            return
        before = _FENCE_BEFORE_TAG.sub("", self._preamble).strip()
        after = self._held.strip().removeprefix("```").strip()
        if before:
            self._text(before)
        if after:
            self._reason(after)
        for at, (action, written) in enumerate(zip(self._actions, self._written, strict=True)):
            last = at == len(self._actions) - 1
            call_id = f"call_{os.urandom(9).hex()}"
            ready = react_call(call_id, action, self._tools, reason if last else "")
            if reason.lower() in FILTERED:
                ready = replace(ready, fault=FILTERED_FAULT)
            self._out.append(replace(ready, fault=FAULT) if is_quoted(written, self._read) else ready)

    def _add_action(self, body: str) -> None:
        self._actions.append((self._tool, body, self._attributes))
        self._written.append(self._tag + body)

    # outside any tag

    def _outside(self) -> bool:
        tag = self._openers.search(self._buffer)
        if tag is None:
            safe = len(self._buffer) - _possible_tag(self._buffer)
            self._untagged(self._buffer[:safe])
            self._buffer = self._buffer[safe:]
            return False
        before, self._buffer = self._buffer[: tag.start()], self._buffer[tag.end() :]
        self._untagged(before)
        self._open(tag)
        return True

    def _open(self, tag: re.Match[str]) -> None:
        names = tag.groupdict()
        if names.get("action") and _is_text(self._context):
            self._untagged(tag.group())
            return
        self._context, self._begun = "", False
        if self._actions and (self._one_action or names.get("observation")):
            self.cut = True
            self._mode = self._ignored
        elif names.get("final"):
            self._begin_final()
        elif names.get("thought"):
            self._mode = self._in_thought
        elif names.get("observation") or not (named := attributes_of(str(names["action"])))[0]:
            self._untagged(tag.group())
        else:
            if not self._actions and not self._showing:
                self._preamble, self._held = self._held, ""
            self._tool, self._attributes = named
            self._tag = tag.group()
            self._mode = self._in_action
            self._scanned = 0
            if names["empty"]:
                self._add_action("")
                self._mode = self._outside

    def _untagged(self, text: str) -> None:
        self._context = (self._context + text)[-_CONTEXT:]
        self._held = (self._held + text) if self._held or self._showing else text.lstrip()
        if not self._actions and (self._showing or len(self._held) > _HELD_LIMIT):
            self._showing = True
            text, self._held = self._held, ""
            self._text(text)

    def _ignored(self) -> bool:
        self._buffer = ""
        return False

    # elements

    def _in_thought(self) -> bool:
        tag = self._tag_within(_IN_THOUGHT, lambda before: True)
        if tag is None:
            self._think(self._take_safe())
            return False
        before, self._buffer = self._buffer[: tag.start()], self._buffer[tag.start() :]
        self._think(before, last=True)
        self._context = ""
        self._mode = self._outside
        if tag.group("close"):
            self._buffer = self._buffer[len(tag.group()) :]
        return True

    def _in_action(self) -> bool:
        tag = self._tag_within(_IN_ACTION, _is_json_object)
        if tag is None:
            self._scanned = max(0, len(self._buffer) - _TAG_LIMIT)
            return False
        self._add_action(self._buffer[: tag.start()])
        self._buffer = self._buffer[tag.end() if tag.group("close") else tag.start() :]
        self._mode = self._outside
        return True

    def _tag_within(self, tags: re.Pattern[str], may_open: Callable[[str], bool]) -> re.Match[str] | None:
        """The tag that ends the current element: its closing tag, or if that is missing, an opening tag on a
        line of its own. Tags inside a JSON string do not count."""
        action = self._mode == self._in_action
        json = action and self._buffer[:_TAG_LIMIT].lstrip().startswith("{")
        for tag in tags.finditer(self._buffer, self._scanned if action else 0):
            before = self._buffer[: tag.start()]
            if json and '"' in _JSON_STRING.sub("", before):
                continue
            if tag.group("close"):
                return tag
            context = self._context + before
            if context.rpartition("\n")[2].strip() or not may_open(before):
                continue
            if action or not tag.group("action") or not is_spoken_of(context, asking=False):
                return tag
        return None

    def _take_safe(self) -> str:
        """Take the prefix of the buffer that cannot be part of a tag or of white space before one."""
        safe = len(self._buffer) - _possible_tag(self._buffer)
        safe = len(self._buffer[:safe].rstrip())
        text, self._buffer = self._buffer[:safe], self._buffer[safe:]
        self._context = (self._context + text)[-_CONTEXT:]
        return text

    def _think(self, text: str, *, last: bool = False) -> None:
        text = self._trimmed(text, last)
        if text:
            if not self._begun and self._reasoning:
                text = "\n" + text
            self._begun = True
            self._reason(text)

    def _trimmed(self, text: str, last: bool) -> str:
        text = text if self._begun else text.lstrip()
        return text.rstrip() if last else text

    # the answer

    def _begin_final(self) -> None:
        """`<final>` overrides everything before it; an answer already emitted is retracted."""
        outside = "".join([*self._shown, self._preamble, self._held]).strip()
        if self._showing:
            self._out.append(Restarted())
            outside = "\n".join([*self._reasoning, outside])
            self._reasoning = []
        if outside:
            self._reason(("\n" if self._reasoning else "") + outside)
        self._mode = self._in_final

    def _in_final(self) -> bool:
        for end in _END_OF_FINAL.finditer(self._buffer):
            before, after = self._buffer[: end.start()], self._buffer[end.end() :]
            so_far = "".join(self._final) + before
            if so_far.endswith("`") and not so_far.endswith("```"):
                continue  # `</final>` quoted in a sentence
            if not _in_fence(so_far):
                self._show_final(before, last=True)
                self._mode = self._after_final
                return True
            if not after.strip():
                self._show_final(before.rstrip())
                self._buffer = self._buffer[len(before.rstrip()) :]
                return False  # perhaps an unclosed fence: decided at the end of the stream
        self._show_final(self._take_safe())
        return False

    def _after_final(self) -> bool:
        return self._ignored()

    def _show_final(self, text: str, *, last: bool = False) -> None:
        text = self._trimmed(text, last)
        if text:
            self._begun = True
            self._final.append(text)
            self._out.append(TextDelta(text))

    def _text(self, text: str) -> None:
        if text:
            self._shown.append(text)
            self._out.append(TextDelta(text))

    def _reason(self, text: str) -> None:
        self._reasoning.append(text)
        self._out.append(ReasoningDelta(text))


def _is_text(before: str) -> bool:
    """Whether an action after this text is only spoken of."""
    line = before.rpartition("\n")[2].replace("```", "")
    return line.count("`") % 2 == 1 or is_spoken_of(before)


def _possible_tag(text: str) -> int:
    """The length of the suffix that may be an incomplete tag."""
    at = text.rfind("<", max(0, len(text) - _TAG_LIMIT))
    if at < 0 or ">" in text[at:]:
        return 0
    start = text[at:].lower()
    may_be = any(name.startswith(start) for name in _TAG_STARTS) or _UNFINISHED_TAG.fullmatch(start)
    return len(text) - at if may_be else 0


def _in_fence(text: str) -> bool:
    marker = ""
    for fence in _FENCE.finditer(text):
        if not marker:
            marker = fence.group(1)
        elif marker == fence.group(1):
            marker = ""
    return bool(marker)


def _only_closed(rest: str) -> bool:
    parts = _END_OF_FINAL.split(rest)
    return len(parts) > 1 and not "".join(parts[1:]).strip()


def _unclosed_body(rest: str) -> str:
    """The body of an action without a closing tag, or whose closing tag seemed to be inside a JSON string."""
    body = re.split(r"</action\s*>", rest, maxsplit=1, flags=re.IGNORECASE)[0]
    torn = _possible_tag(body)
    return body[:-torn] if torn and body[-torn:].startswith("</") else body


def _is_json_object(text: str) -> bool:
    try:
        return isinstance(msgspec.json.decode(text), dict)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return False
