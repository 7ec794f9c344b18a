"""Parses tool arguments as a JSON object, repairing it where that is unambiguous.

Otherwise the model gets an error that says what to send; nothing is guessed.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import msgspec

from coder.models.json_repair import NotReadable, read_lenient
from coder.models.model import FILTERED, CallReady
from coder.protocol.messages import tool_call

if TYPE_CHECKING:
    from coder.models.json_repair import NotReadable

FILTERED_FAULT = "The call was not run: the provider's content filter stopped the answer that it is part of."
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
_MAX_NESTING = 3  # levels of JSON encoded inside a JSON string
_NEAR = 24
_MOST_CHARACTERS = 64  # of a name or an id
_SHORT = 9
_READ_ONLY = frozenset(
    (
        *(
            "read",
            "readfile",
            "view",
            "viewfile",
            "openfile",
            "cat",
            "list",
            "ls",
            "listdir",
            "listdirectory",
        ),
        *("listfiles", "glob", "findfiles", "grep", "grepsearch", "searchfilecontent", "ripgrep", "todoread"),
        "skill",
    )
)


def call_ready(call_id: str, name: str, text: str, finish_reason: str) -> CallReady:
    """The call with parsed arguments, or with a fault and the model's original text."""
    arguments, fault = read_arguments(text, name, finish_reason)
    if finish_reason.lower() in FILTERED:
        fault = FILTERED_FAULT
    return CallReady(call=tool_call(call_id, name, text if fault else arguments), fault=fault)


def read_arguments(text: str, name: str, finish_reason: str = "") -> tuple[str, str]:
    """(JSON text of an object, fault); the fault is empty on success."""
    for _ in range(_MAX_NESTING):
        text = text.strip().removeprefix("\ufeff")
        if not text or text == "null":
            return "{}", ""
        try:
            value = msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError, UnicodeError):
            return _repair(text, name, finish_reason)
        if isinstance(value, dict):
            return text, ""
        if not isinstance(value, str) or not value.lstrip().startswith(("{", '"')):
            return "", _fault(name, f"they are {_kind(value)}, not an object")
        text = value
    return "", _fault(name, "they are a string inside a string")


def _repair(text: str, name: str, finish_reason: str) -> tuple[str, str]:
    if finish_reason == "length":
        return "", (
            f"The call of `{name}` was cut off by the output limit before its arguments were complete, "
            "so it was not run. Send it again with less content, for example in several smaller calls."
        )

    body = _strip_fence(text)
    try:
        value, end = read_lenient(body, open_number=_is_read_only(name))
        value = _single_value(value, body, end)
        if isinstance(value, str):
            return read_arguments(value, name, finish_reason)
        if not isinstance(value, dict):
            return "", _fault(name, f"they are {_kind(value)}, not an object")
        return msgspec.json.encode(value).decode("utf-8"), ""
    except NotReadable as wrong:
        return "", _fault(name, _where(wrong, body))
    except (ValueError, OverflowError, RecursionError):
        return "", _fault(name, "a value in them cannot be represented")


def _is_read_only(name: str) -> bool:
    """Whether the tool, by its name here or in other agents, is read-only: a truncated number does no
    harm."""
    letters = "".join(char for char in name.lower() if "a" <= char <= "z")
    return letters.removesuffix("tool") in _READ_ONLY


def _strip_fence(text: str) -> str:
    if not (text.startswith("```") and text.endswith("```") and len(text) > 6):
        return text
    inner = text[3:-3]
    language = inner[
        : len(inner) - len(inner.lstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ5"))
    ]
    return inner[len(language) :].strip()


def _single_value(value: Any, body: str, end: int) -> Any:
    """The value of a text in which an empty or identical object may precede it."""
    while end < len(body):
        following, after = read_lenient(body, end)
        if not isinstance(following, dict) or (value not in ({}, following)):
            raise NotReadable("something follows the first object", end)
        value, end = following, after
    return value


def _where(wrong: NotReadable, body: str) -> str:
    if wrong.at_end:
        return f"{wrong.what}; the text ends after {len(body)} characters"
    near = body[max(0, wrong.at - _NEAR) : wrong.at + _NEAR]
    return f"{wrong.what} at character {wrong.at + 1}, near {near!r}"


def _fault(name: str, what: str) -> str:
    return (
        f"The arguments of `{name}` are not usable: {what}. The call was not run. Send it again with "
        'one JSON object, keys and texts in double quotes; inside a text write \\" for a quote and \\n for '
        "a new line."
    )


def _kind(value: Any) -> str:
    if isinstance(value, list):
        return "a list"
    if isinstance(value, str):
        return "a text"
    return "a number" if isinstance(value, int | float) and not isinstance(value, bool) else "a single word"


def object_text(arguments: str) -> str:
    """Arguments as the text of a JSON object, since servers parse them: the model's own, repaired, or wrapped
    as a string."""
    try:
        msgspec.json.decode(arguments, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return _repaired(arguments)
    return arguments


def _repaired(arguments: str) -> str:
    with contextlib.suppress(NotReadable, ValueError, OverflowError, RecursionError):
        value, end = read_lenient(arguments, open_number=True)
        if isinstance(value, dict) and end == len(arguments):
            return msgspec.json.encode(value).decode("utf-8")
    return msgspec.json.encode({"unreadable_arguments": arguments}).decode("utf-8")


def plain_name(name: str) -> str:
    """A tool's name in the characters that every API takes; a foreign or made-up one may have others."""
    return "".join(c if c in _PLAIN else "_" for c in name[:_MOST_CHARACTERS])


def plain_id(call_id: str) -> str:
    """A call's id as every API takes it. What cannot stay as it is stays different from all others."""
    if 0 < len(call_id) <= _MOST_CHARACTERS and _PLAIN.issuperset(call_id):
        return call_id
    return short_id(call_id)


def short_id(call_id: str) -> str:
    """Nine letters and digits, the form that Mistral demands; an id that has it is left alone."""
    if len(call_id) == _SHORT and call_id.isascii() and call_id.isalnum():
        return call_id
    from hashlib import sha256

    return sha256(call_id.encode("utf-8", "replace")).hexdigest()[:_SHORT]
