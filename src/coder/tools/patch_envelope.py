"""The `*** Begin Patch` format: add, delete, update and move, places given by context alone."""

from __future__ import annotations

import re

from coder.tools.patch_formats import BadPatch, FilePatch, Hunk

_HEADER = re.compile(r"^\*\*\* (Add|Delete|Update) File: *(.+?)\s*$")
_MOVE = re.compile(r"^\*\*\* Move to: *(.+?)\s*$")
_NUMBERS = re.compile(r"^-(\d+)(?:,\d+)? \+\d+(?:,\d+)?(?: @@ ?(.*))?$")


def looks_like_envelope(lines: list[str]) -> bool:
    return any(line.startswith("*** Begin Patch") or _HEADER.match(line) for line in lines)


def parse_envelope(lines: list[str]) -> list[FilePatch]:
    first = next((n for n, line in enumerate(lines) if line.startswith("*** Begin Patch")), -1) + 1
    files: list[FilePatch] = []
    at = first
    while at < len(lines):
        line = lines[at]
        if line.startswith("*** End Patch"):
            break
        header = _HEADER.match(line)
        if header is None:
            if line.strip():
                raise BadPatch(f"line {at + 1} of the patch stands under no file: {line[:80]!r}")
            at += 1
            continue
        file = FilePatch(header[1].lower(), header[2])
        at = _section(lines, at + 1, file)
        files.append(file)
    return files


def _section(lines: list[str], at: int, file: FilePatch) -> int:
    """Read the body of one file; answers where the next one begins."""
    end = at
    while end < len(lines) and not (_HEADER.match(lines[end]) or lines[end].startswith("*** End Patch")):
        end += 1
    body = lines[at:end]
    while body and not body[-1].strip() and not body[-1].startswith((" ", "+", "-")):
        body.pop()  # blank lines before the next header
    if file.operation == "add":
        file.hunks = [Hunk([("+", line[1:] if line.startswith("+") else line) for line in body])]
    elif file.operation == "update":
        _update(body, at, file)
    return end


def _update(body: list[str], at: int, file: FilePatch) -> None:
    hunk = Hunk([])
    for number, line in enumerate(body, at + 1):
        move = _MOVE.match(line)
        if move and not file.hunks and not hunk.lines:
            file.move_to = move[1]
        elif line.startswith("@@"):
            hunk = _opened(hunk, line, file)
        elif line.startswith("*** End of File"):
            hunk.at_end = True
            hunk = _closed(hunk, file)
        elif line.startswith((" ", "+", "-")):
            hunk.lines.append((line[0], line[1:]))
        elif not line.strip():
            hunk.lines.append((" ", line))
        elif not line.startswith("\\"):
            where = f"line {number} of the patch, in {file.path},"
            raise BadPatch(f"{where} begins with none of ' ', '+', '-', '@@': {line[:80]!r}")
    _closed(hunk, file)
    if not file.hunks and not file.move_to:
        raise BadPatch(f"the update of {file.path} has no lines to change")


def _opened(hunk: Hunk, line: str, file: FilePatch) -> Hunk:
    """The hunk that an `@@` line begins, or adds its anchor to."""
    hunk = _closed(hunk, file)
    text = line[2:].removeprefix(" ")
    numbers = _NUMBERS.match(text.strip())
    if numbers:
        hunk.start = int(numbers[1])
        text = numbers[2] or ""
    if text.endswith("@@"):
        text = text[:-2].rstrip()
    if text.strip():
        hunk.anchors.append(text)
    return hunk


def _closed(hunk: Hunk, file: FilePatch) -> Hunk:
    """File the hunk away if it has lines; answers the one to go on with."""
    if not hunk.lines:
        return hunk
    if any(sign != " " for sign, _ in hunk.lines):
        file.hunks.append(hunk)
    return Hunk([])
