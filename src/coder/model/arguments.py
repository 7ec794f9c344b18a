"""Tool arguments: the JSON text of an object, repaired where that is unambiguous.

Where it is not, the model is told what was wrong and what to send; nothing is guessed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from coder.model.base import CallReady
from coder.protocol.messages import tool_call

if TYPE_CHECKING:
    from coder.model.json_repair import NotReadable

_WRAPPINGS = 3  # how often a JSON object may be found quoted inside a JSON string
_NEAR = 24
_LOOKING = frozenset(
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
    """A whole call, or one with a fault; a faulty one keeps the text as the model wrote it."""
    arguments, fault = read_arguments(text, name, finish_reason)
    return CallReady(call=tool_call(call_id, name, text if fault else arguments), fault=fault)


def read_arguments(text: str, name: str, finish_reason: str = "") -> tuple[str, str]:
    """The arguments as JSON text of an object, and the fault (empty where there is none)."""
    for _ in range(_WRAPPINGS):
        text = text.strip().removeprefix("\ufeff")
        if not text or text == "null":
            return "{}", ""
        try:
            value = msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError, UnicodeError):
            return _repaired(text, name, finish_reason)
        if isinstance(value, dict):
            return text, ""
        if not isinstance(value, str) or not value.lstrip().startswith(("{", '"')):
            return "", _fault(name, f"they are {_kind(value)}, not an object")
        text = value
    return "", _fault(name, "they are a string inside a string")


def _repaired(text: str, name: str, finish_reason: str) -> tuple[str, str]:
    if finish_reason == "length":
        return "", (
            f"The call of `{name}` was cut off by the output limit before its arguments were complete, "
            "so it was not run. Send it again with less content, for example in several smaller calls."
        )
    from coder.model.json_repair import NotReadable, read_lenient  # the rare path

    body = _unfenced(text)
    try:
        value, end = read_lenient(body, open_number=_only_looks(name))
        value = _whole(value, body, end)
        if isinstance(value, str):
            return read_arguments(value, name, finish_reason)
        if not isinstance(value, dict):
            return "", _fault(name, f"they are {_kind(value)}, not an object")
        return msgspec.json.encode(value).decode("utf-8"), ""
    except NotReadable as wrong:
        return "", _fault(name, _where(wrong, body))
    except (ValueError, OverflowError, RecursionError):
        return "", _fault(name, "a value in them cannot be represented")


def _only_looks(name: str) -> bool:
    """Whether a wrong number in the arguments does no harm: the tool, by its name here or elsewhere, shows
    something and changes nothing."""
    letters = "".join(char for char in name.lower() if "a" <= char <= "z")
    return letters.removesuffix("tool") in _LOOKING


def _unfenced(text: str) -> str:
    """Without the Markdown code fence around it."""
    if not (text.startswith("```") and text.endswith("```") and len(text) > 6):
        return text
    inner = text[3:-3]
    language = inner[
        : len(inner) - len(inner.lstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ5"))
    ]
    return inner[len(language) :].strip()


def _whole(value: Any, body: str, end: int) -> Any:
    """The one value of a text that may hold an empty, or the same, object before it."""
    from coder.model.json_repair import NotReadable, read_lenient

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
