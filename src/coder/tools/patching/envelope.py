"""The `*** Begin Patch` format: add, delete, update and move, places given by context alone."""

from __future__ import annotations

import re

from coder.tools.patching.formats import BadPatch, FilePatch, Hunk

_HEADER = re.compile(r"^\*\*\* *(Add|Delete|Update) File *: *(.+?)(?: \*\*\*)?\s*$", re.IGNORECASE)
_MOVE = re.compile(r"^\s*\*\*\* *Move to *: *(.+?)(?: \*\*\*)?\s*$", re.IGNORECASE)
_BEGIN = re.compile(r"^\s*\*\*\* *Begin Patch", re.IGNORECASE)
_END = re.compile(r"^\*\*\* *End Patch", re.IGNORECASE)
_NUMBERS = re.compile(r"^-(\d+)(?:,\d+)? \+\d+(?:,\d+)?(?: @@ ?(.*))?$")
MOST_FAULTS = 20


def looks_like_envelope(lines: list[str]) -> bool:
    """What comes first decides: what a hunk of a unified diff quotes is not followed."""
    for at, line in enumerate(lines):
        if _BEGIN.match(line) or _HEADER.match(line.lstrip()):
            return True
        names = line.startswith("--- ") and "".join(lines[at + 1 : at + 2]).startswith("+++ ")
        if names or line.startswith("diff --git "):
            return False
    return False


def parse_envelope(lines: list[str]) -> list[FilePatch]:
    """The files of an envelope. All that is wrong with any of them is said at once."""
    first = next((n for n, line in enumerate(lines) if _BEGIN.match(line)), -1) + 1
    lines = _unpadded(lines, first)
    files: list[FilePatch] = []
    faults: list[str] = []
    at = first
    while at < len(lines):
        line = lines[at]
        if _END.match(line):
            break
        header = _HEADER.match(line)
        if header is None:
            if line.strip() and not line.strip().startswith("```"):
                faults.append(f"line {at + 1} of the patch stands under no file: {line[:80]!r}")
            at += 1
            continue
        file = FilePatch(header[1].lower(), header[2])
        start, at = at + 1, _section_end(lines, at + 1)
        try:
            _section(lines[start:at], start, file)
        except BadPatch as bad:
            faults.append(str(bad))
        files.append(file)
    if faults:
        raise BadPatch("\n".join(faults[:MOST_FAULTS]))
    return files


def _unpadded(lines: list[str], first: int) -> list[str]:
    """The lines with the markers and headers at their beginning.

    How far they are moved in is told by the first header: with another padding such a line is text of a file
    that shows patches, and must not be obeyed.
    """
    header = next((line for line in lines[first:] if _HEADER.match(line.lstrip())), "")
    padding = header[: len(header) - len(header.lstrip())]
    out = list(lines)
    for number, line in enumerate(lines[first:], first):
        bare = line[len(padding) :] if line.startswith(padding) else line
        if _HEADER.match(bare) or _END.match(bare):
            out[number] = bare
    last = max((n for n, line in enumerate(out) if line.strip() and line.strip() != "```"), default=0)
    if out and _END.match(out[last].lstrip()):  # at the very end it can be nothing else
        out[last] = out[last].lstrip()
    return out


def _section_end(lines: list[str], at: int) -> int:
    while at < len(lines) and not (_HEADER.match(lines[at]) or _END.match(lines[at])):
        at += 1
    return at


def _section(body: list[str], at: int, file: FilePatch) -> None:
    """Read the body of one file, which begins at line `at`."""
    while body and not body[-1].strip() and not body[-1].startswith((" ", "+", "-")):
        body.pop()  # blank lines before the next header
    if file.operation == "add":
        file.hunks = [Hunk([("+", line[1:] if line.startswith("+") else line) for line in body])]
    elif file.operation == "update":
        _update(body, at, file)


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
