"""Reading a patch: which format it is, and the one form that both formats come down to.

`parse` raises `BadPatch` and nothing else, whatever a model wrote.
"""

from __future__ import annotations

import re

import msgspec


class BadPatch(Exception):
    """The text is no patch that can be followed; says where and why."""


class Hunk(msgspec.Struct):
    """One place to change. `lines` are (sign, text) with sign ` `, `-` or `+`.

    `start`: the line, from 1, that the patch says it begins at. `anchors`: lines to be found before
    it, in order. `old_open`, `new_open`: the last line of that side has no newline; None: not said.
    """

    lines: list[tuple[str, str]]
    start: int | None = None
    anchors: list[str] = []
    at_end: bool = False
    old_open: bool | None = None
    new_open: bool | None = None

    @property
    def old(self) -> list[str]:
        return [text for sign, text in self.lines if sign != "+"]

    @property
    def new(self) -> list[str]:
        return [text for sign, text in self.lines if sign != "-"]


class FilePatch(msgspec.Struct):
    """What is to be done with one file."""

    operation: str  # add, delete or update
    path: str
    move_to: str = ""
    also: str = ""  # another name that the patch gives the same file
    hunks: list[Hunk] = []
    executable: bool | None = None


def parse(text: str) -> list[FilePatch]:
    """The files of a patch in either format."""
    from coder.tools.patching.envelope import looks_like_envelope, parse_envelope
    from coder.tools.patching.unified import parse_unified

    lines = patch_lines(text)
    files = parse_envelope(lines) if looks_like_envelope(lines) else parse_unified(lines)
    if not files:
        raise BadPatch(
            "no file in the patch; give a unified diff (---, +++, @@) or *** Begin Patch … *** End Patch"
        )
    for file in files:
        _without_carriage_returns(file)
    return files


def patch_lines(text: str) -> list[str]:
    """The lines, without a code fence around them. Where all lines end in `\r` alone, those are the lines."""
    lines = text.split("\n") if "\n" in text else text.split("\r")
    while lines and not lines[-1].strip():
        lines.pop()
    while lines and not lines[0].strip():
        lines.pop(0)
    if lines and re.match(r"^\s*(```|~~~)", lines[0]):
        fence = lines.pop(0).strip()[:3]
        if lines and lines[-1].strip() == fence:
            lines.pop()
    return lines


def _without_carriage_returns(file: FilePatch) -> None:
    """A patch of a CRLF file carries `\r` on every line; whether the file does is the file's matter.

    Where only some lines do, they are what the patch is about.
    """
    texts = [text for hunk in file.hunks for _, text in hunk.lines]
    if texts and all(text.endswith("\r") for text in texts):
        for hunk in file.hunks:
            hunk.lines = [(sign, text[:-1]) for sign, text in hunk.lines]
