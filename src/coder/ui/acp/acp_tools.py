"""Fields of tool call updates: kind, title, locations, content, raw values; all bounded."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from coder.base.diff import NO_NEWLINE
from coder.base.text import head_and_tail, one_line
from coder.policy.visible import visible
from coder.protocol.entries import Observation
from coder.tools.images import media_type_of
from coder.tools.patching.formats import unquoted
from coder.tools.registry import built_in, declared
from coder.tools.text.hunks import Hunk, hunks_of


class EditorHunk(msgspec.Struct):
    """`old` is None for a new file; `line` is the first changed line, from 1."""

    path: str
    old: str | None
    new: str
    line: int
    deleted: bool = False


def editor_hunks(diff: str) -> list[EditorHunk]:
    """The hunks of all files; none if the text is not a diff."""
    return [_editor_hunk(hunk) for hunk in hunks_of(diff, strict=False)]


def _editor_hunk(hunk: Hunk) -> EditorHunk:
    before, after = (unquoted(name[4:]) for name in hunk.names)
    old = new = sign = ""
    first = -1  # number of lines before the first change
    for line in hunk.body:
        if line == NO_NEWLINE:
            old = old if sign == "+" else old.removesuffix("\n")
            new = new if sign == "-" else new.removesuffix("\n")
            continue
        sign, text = line[:1], line[1:] + "\n"
        if sign not in (" ", "-", "+"):
            break
        first = new.count("\n") if first < 0 and sign != " " else first
        old += text if sign != "+" else ""
        new += text if sign != "-" else ""
    deleted = after == "/dev/null"
    name = (before if deleted else after).removeprefix("a/" if deleted else "b/")
    changed = max(1, hunk.new_start + max(0, first))
    return EditorHunk(name, None if before == "/dev/null" else old, new, changed, deleted)


Update = dict[str, Any]

_KINDS = {"looks": "read", "edits": "edit", "runs": "execute", "reaches": "fetch", "unknown": "other"}
_SHELL = ("!", "verify")  # commands not started by the model
SILENT = ("todowrite", "todoread")  # the plan shows what they do
_IN_CONTENT = ("call_id", "tool", "diff", "stdout", "stderr")
_BY_OPERATION = {"deleted": "delete", "moved": "move"}

MAX_TEXT = 16_000  # characters of an output or diff in an update; the record is complete
LIVE_TEXT = 8_000  # of a running command: the newest
_MAX_RAW = 2_000  # of one value of `rawInput`
_MAX_ITEMS = 50
_MAX_TITLE = 200
_CONTROLS = (
    r"\x1b\[[0-9;:?<=>]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\-_]|[\x00-\x08\x0b-\x1f\x7f]"
)


def tool_kind(tool: str) -> str:
    if tool in _SHELL:
        return "execute"
    known = built_in(own_name(tool))
    searches = known.kind == "looks" and known.touches == "folders"
    return known.shown_as or ("search" if searches else _KINDS[known.kind])


def own_name(tool: str) -> str:
    """Strip the agent from a subagent's call (`agent › tool`)."""
    return tool.rpartition(" › ")[2]


def tool_title(tool: str, argument: str) -> str:
    """The tool and its key argument; for a command, the command itself."""
    line = one_line(argument, _MAX_TITLE)
    if tool_kind(tool) == "execute" and line:
        fence = "`" * (_longest_run(line) + 1)
        edge = " " if "`" in line else ""
        before = "" if tool == "!" or built_in(tool).kind == "runs" else f"{tool}: "
        return f"{before}{fence}{edge}{line}{edge}{fence}"
    return visible(f"{tool} {line}".strip()).text


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)


# content


def text_block(text: str) -> Update:
    return {"type": "content", "content": {"type": "text", "text": text}}


def image_block(data: str) -> Update | None:
    """None if it is not an image: foreign records are not trusted."""
    try:
        media_type = media_type_of(b64decode(data[:32], validate=True))
    except ValueError:
        return None
    is_whole = media_type and re.fullmatch(r"[A-Za-z0-9+/]*={0,2}", data)
    return {"type": "image", "mimeType": media_type, "data": data} if is_whole else None


def fenced(text: str, language: str = "") -> str:
    fence = "`" * max(3, _longest_run(text) + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def printed(text: str) -> str:
    """Program output without control sequences; of a line overwritten by carriage returns, its last state."""
    text = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    return re.sub(_CONTROLS, "", text)


def output_block(text: str, limit: int = MAX_TEXT) -> Update:
    return text_block(fenced(head_and_tail(printed(text).strip("\n"), limit)))


def tail_block(text: str) -> Update:
    return text_block(fenced(printed(text).strip("\n")[-LIVE_TEXT:]))


def diff_content(diff: str, root: Path, limit: int | None = MAX_TEXT) -> list[Update]:
    """The blocks of a diff; as text from the first that exceeds the limit, or if it has no hunks (a binary
    file, a move)."""
    found, room = list[Update](), limit
    for hunk in editor_hunks(diff):
        size = len(hunk.new) + len(hunk.old or "")
        if room is not None and size > room:
            return [*found, text_block(fenced(head_and_tail(diff, MAX_TEXT), "diff"))]
        room = None if room is None else room - size
        path = str(root / hunk.path)
        found.append({"type": "diff", "path": path, "oldText": hunk.old, "newText": hunk.new})
    if not found and diff.strip():
        return [text_block(fenced(head_and_tail(diff, MAX_TEXT) if limit else diff, "diff"))]
    return found


def content_of(detail: str, kind: str, summary: str, root: Path) -> list[Update]:
    """A call's diff or output, else its summary."""
    if kind == "diff" and detail:
        return diff_content(detail, root)
    if detail:
        return [output_block(detail) if kind == "output" else text_block(head_and_tail(detail, MAX_TEXT))]
    return [text_block(summary)] if summary else []


# places


def locations(tool: str, args: Any, root: Path) -> list[Update]:
    """The files that a call names in its arguments."""
    if not isinstance(args, Mapping):
        return []
    named = [path for path in declared(built_in(own_name(tool)).paths, args) or () if "\0" not in path]
    places: list[Update] = [{"path": str(root / path)} for path in named[:_MAX_ITEMS]]
    offset = args.get("offset")
    if len(places) == 1 and type(offset) is int and 0 < offset < 1 << 32:  # excludes bool
        places[0]["line"] = offset
    return places


def changed_places(diff: str, root: Path) -> list[Update]:
    """The first changed line of every file."""
    first: dict[str, int] = {}
    for hunk in editor_hunks(diff):
        first.setdefault(hunk.path, hunk.line)
    return [{"path": str(root / path), "line": line} for path, line in first.items()]


def kind_after(entry: Observation) -> str | None:
    """`delete` or `move` for a patch that does only that."""
    kinds = {_BY_OPERATION.get(file.operation) for file in entry.changed_files}
    return kinds.pop() if len(kinds) == 1 else None


# raw values


def truncate_value(value: Any, depth: int = 4) -> Any:
    """Truncate long strings, lists and deep nesting."""
    if isinstance(value, str):
        return value if len(value) <= _MAX_RAW else f"{value[:_MAX_RAW]}… [{len(value) - _MAX_RAW} more]"
    if isinstance(value, Mapping):
        items = list(value.items())[:_MAX_ITEMS]
        return {str(k)[:_MAX_TITLE]: truncate_value(v, depth - 1) for k, v in items} if depth else "…"
    if isinstance(value, list | tuple):
        return [truncate_value(v, depth - 1) for v in value[:_MAX_ITEMS]] if depth else "…"
    return value


def raw_output(meta: Mapping[str, Any]) -> Update:
    """The short fields of the record: exit code, counts, paths. Output is in the content."""
    kept = {k: v for k, v in meta.items() if k not in _IN_CONTENT}
    return {
        k: v
        for k, v in kept.items()
        if v is None or isinstance(v, bool | int | float) or (isinstance(v, str) and len(v) <= _MAX_TITLE)
    }
