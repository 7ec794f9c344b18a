"""Parses arguments written as XML elements instead of JSON."""

from __future__ import annotations

import contextlib
import re
from typing import Any

import msgspec

from coder.protocol.messages import ToolSpec

_ENTRY = re.compile(
    r"\s*<(?:[|｜]DSML[|｜])?(?:parameter|param|arg|argument)(?:\s*=\s*|\s+name\s*=\s*)"
    r"[\"']?([\w.-]{1,100})[\"']?(?:\s+string\s*=\s*[\"']?(true|false)[\"']?)?\s*>"
    r"(.*?)</(?:[|｜]DSML[|｜])?(?:parameter|param|arg|argument)\s*>\s*",
    re.DOTALL | re.IGNORECASE,
)
_ELEMENT = re.compile(r"\s*<([A-Za-z_][\w.-]{0,99})\s*>")
_WRAPPERS = ("arguments", "parameters", "args", "params", "input")


def element_arguments(body: str, spec: ToolSpec) -> dict[str, Any] | None:
    """`<path>x</path><limit>5</limit>` as arguments; None if there is other text, or an element that is no
    parameter."""
    known = {str(name).lower(): str(name) for name in spec.function.parameters.get("properties", {})}
    found: dict[str, Any] = {}
    at = 0
    while body[at:].strip():
        opener = _ELEMENT.match(body, at)
        if opener is None:
            return None
        closer = re.compile(rf"</{re.escape(opener[1])}\s*>", re.IGNORECASE)
        ends = list(closer.finditer(body, opener.end()))
        name = known.get(opener[1].lower())
        if not ends or name is None or name in found:
            return None
        # The text may contain its closing tag: take the first one that only elements follow.
        end = next((one for one in ends if _may_follow(body, one.end(), known)), None)
        if end is None:
            return None
        found[name] = unwrapped(body[opener.end() : end.start()])
        at = end.end()
    return found


def _may_follow(body: str, at: int, known: dict[str, str]) -> bool:
    opener = _ELEMENT.match(body, at)
    return not body[at:].strip() or (opener is not None and opener[1].lower() in known)


def entry_arguments(body: str, spec: ToolSpec | None) -> dict[str, Any] | None:
    """`<parameter=path>x</parameter>` or `<parameter name="path">`, else elements named as the parameters."""
    found: dict[str, Any] = {}
    at = 0
    while entry := _ENTRY.match(body, at):
        found[entry[1]] = _typed(entry[3], (entry[2] or "").lower())
        at = entry.end()
    if found:
        return found if not body[at:].strip() else None
    return element_arguments(body, spec) if spec is not None else None


def _typed(text: str, is_string: str) -> Any:
    """DeepSeek's models say whether a value is a text or JSON."""
    if is_string == "true":
        return text
    if is_string == "false":
        with contextlib.suppress(msgspec.DecodeError):
            return msgspec.json.decode(text)
    return unwrapped(text)


def wrapped_body(body: str) -> str:
    """The content of `<arguments>…</arguments>` if that is all of the body; else the body."""
    opener = _ELEMENT.match(body)
    if opener is None or opener[1].lower() not in _WRAPPERS:
        return body
    closer = re.search(rf"</{opener[1]}\s*>\s*\Z", body, re.IGNORECASE)
    return body[opener.end() : closer.start()].strip() if closer else body


def unwrapped(text: str) -> str:
    """Strip CDATA, and line breaks or a space next to the tags. Code keeps its indentation, and multi-line
    text its last newline."""
    if text.strip().startswith("<![CDATA[") and text.strip().endswith("]]>"):
        return text.strip()[9:-3]
    text = re.sub(r"\A[ \t]*\r?\n", "", text)
    text = re.sub(r"\n[ \t]+\Z", "\n", text)
    if "\n" in text.rstrip():
        return text
    text = text.rstrip()
    return text.lstrip() if len(text) - len(text.lstrip()) == 1 else text
