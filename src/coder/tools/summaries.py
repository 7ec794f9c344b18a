"""The one-line summary of a look-up, from the fields that its record has: a session that is shown again says
what it said when it ran."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from coder.texts import Phrase

Fields = Mapping[str, Any]
"""The `meta` of a tool's result."""


def read_summary(fields: Fields) -> Phrase:
    first, total = fields["offset"], fields["total_lines"]
    last = first + fields["lines"] - 1
    if total == 0:
        return Phrase("tool.empty_file")
    if first == 1 and last == total:
        return Phrase("tool.all_lines", n=last)
    return Phrase("tool.lines" if total is None else "tool.lines_of", first=first, last=last, total=total)


def list_summary(fields: Fields) -> Phrase:
    return Phrase("tool.entries", n=fields["entries"])


def glob_summary(fields: Fields) -> Phrase:
    return Phrase("tool.files", n=fields["matches"])


def grep_summary(fields: Fields) -> Phrase:
    matches = fields["matches"]
    count = Phrase("tool.match_count", n=f"{matches}+" if fields["truncated"] else matches)
    return Phrase("tool.matches", count=count, files=Phrase("tool.files", n=fields["files"]))


_SUMMARIES: dict[str, tuple[Callable[[Fields], Phrase], tuple[str, ...]]] = {
    "read": (read_summary, ("offset", "lines")),
    "list": (list_summary, ("entries",)),
    "glob": (glob_summary, ("matches",)),
    "grep": (grep_summary, ("matches", "files")),
}


def recorded_summary(tool: str, fields: Fields) -> Phrase | None:
    """None: unknown, or the record has other fields, as of an image."""
    tool = "list" if tool == "read" and "entries" in fields else tool  # of a folder
    summary, needed = _SUMMARIES.get(tool, (None, ()))
    if summary is None or not all(type(fields.get(name)) is int for name in needed):
        return None
    total = fields.get("total_lines")
    return summary({"truncated": False, **fields, "total_lines": total if type(total) is int else None})
