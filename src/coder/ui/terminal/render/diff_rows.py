"""Renders unified diffs: line numbers, syntax colours, tinted lines, changed words marked.

For results, approvals, `/diff` and the pager. Every character of a changed or context line is shown; the
format's own lines (`---`, `@@`) become headings and line numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

import msgspec

from coder.policy.visible import MARK
from coder.ui.terminal.render.event_lines import change_size
from coder.ui.terminal.render.highlight import code_lines, state_before
from coder.ui.terminal.render.theme import tinted_row
from coder.ui.terminal.render.width import TAB, Line, Span, cut_spans, line_width

MINUS = "−"
_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@ ?(.*)")
_GIT_LINES = re.compile(r"(diff --git |index [0-9a-f]+\.\.|(new|deleted) file mode |(old|new) mode )")
_INVISIBLE = re.compile(MARK)
_BLANK_LINES = re.compile(r"⏎×(\d+)")  # that were counted, see `policy.visible`
_WORDS = re.compile(r"\w+|\s+|[^\w\s]+")
_LANGUAGES = {
    "py": "python",
    "pyi": "python",
    "yml": "yaml",
    "h": "c",
    "hpp": "cpp",
    "cc": "cpp",
    "rs": "rust",
    "mjs": "js",
    "cjs": "js",
    "kt": "kotlin",
    "htm": "html",
    "md": "markdown",
    "txt": "",
    "lock": "",
}
_ROLES = {"+": "added", "-": "removed", " ": ""}
_MAX_HIGHLIGHTED = 2000  # lines of a hunk; longer ones are shown without syntax colours
_MAX_PAIRS = 64  # pairs of lines compared for their changed words in one change
_MAX_COMPARED = 400  # characters of a line compared by words
_MIN_SIMILARITY = 0.5  # ratio from which a line counts as a change of another


class _Row(msgspec.Struct):
    """A line of a hunk: `sign` is `+`, `-` or a blank."""

    sign: str
    number: int
    text: str
    spans: Line = []


class _File(msgspec.Struct):
    """The diff of one file: rows of hunks, and other lines unchanged."""

    old: str = ""
    new: str = ""
    items: list[_Row | str] = []
    broken: bool = False  # a separator precedes the next hunk

    @property
    def path(self) -> str:
        return self.old if self.new == "/dev/null" else self.new

    def count(self, sign: str) -> int:
        return sum(isinstance(item, _Row) and item.sign == sign for item in self.items)


def diff_lines(text: str, width: int = 0, *, heads: bool = True) -> list[Line]:
    """All rows, with a margin of two columns. `heads`: show the heading of a single file."""
    margin: Line = [("", "  ")]
    blocks = diff_blocks(text, width, (margin, margin), heads=heads)
    return [row for rows in blocks for row in rows]


def diff_blocks(text: str, width: int, lead: tuple[Line, Line], *, heads: bool = True) -> list[list[Line]]:
    """The rows of each line, cut at `width` if given. `lead`: prefixes of a line's first row and of its
    others."""
    files = _parsed(text.removesuffix("\n").split("\n"))
    blocks: list[list[Line]] = []
    for file in files:
        if file.path and (heads or sum(bool(other.path) for other in files) > 1):
            blocks.append([[*lead[0], *_head(file)]])
        numbers = len(str(max((i.number for i in file.items if isinstance(i, _Row)), default=0)))
        for item in file.items:
            if isinstance(item, _Row):
                blocks.append(_rows(item, numbers, width, lead))
            else:
                blocks.append(_cut([("dim", item)], width, lead, []))
    return blocks


def _head(file: _File) -> Line:
    return [("strong", file.path), *change_size(file.count("+"), file.count("-"))]


def _rows(row: _Row, numbers: int, width: int, lead: tuple[Line, Line]) -> list[Line]:
    role = _ROLES[row.sign]
    sign = {"+": ("good", "+ "), "-": ("bad", f"{MINUS} "), " ": ("", "  ")}[row.sign]
    gutter: Line = [(f"dim {role}", f"{row.number:>{numbers}} "), (f"{sign[0]} {role}", sign[1])]
    spans = [(f"{style} {role}" if role not in style else style, text) for style, text in row.spans]
    spans = [(style.replace("comment", "tinted_comment") if role else style, text) for style, text in spans]
    rows = _cut([*gutter, *spans], width, lead, [(f"dim {role}", " " * (numbers + 3))])
    return [tinted_row(line, role, width) for line in rows] if role else rows


def _cut(line: Line, width: int, lead: tuple[Line, Line], margin: Line) -> list[Line]:
    if not width:
        return [[*lead[0], *line]]
    room = max(1, width - line_width(lead[0]))
    first, *others = cut_spans(line, room, max(1, room - line_width(margin)))
    return [[*lead[0], *first], *([*lead[1], *margin, *other] for other in others)]


# parsing


def _parsed(lines: Sequence[str]) -> list[_File]:
    files = [_File()]
    at = 0
    while at < len(lines):
        line = lines[at]
        following = lines[at + 1] if at + 1 < len(lines) else ""
        if line.startswith("--- ") and following.startswith("+++ "):
            files.append(_File(_name(line, "a/"), _name(following, "b/")))
            at += 2
        elif found := _HUNK.fullmatch(line):
            at = _hunk(files[-1], found, lines, at + 1)
        else:
            if not _GIT_LINES.match(line):
                files[-1].items.append(line)
            at += 1
    return [file for file in files if file.items or file.path]


def _name(line: str, prefix: str) -> str:
    return line[4:].split("\t")[0].removeprefix(prefix)


def _hunk(file: _File, found: re.Match[str], lines: Sequence[str], at: int) -> int:
    """Read one hunk's lines; the position after it. Counts find the end: a removed `--` line looks like a
    heading."""
    old, new = int(found[1]), int(found[3])
    left = [int(found[2] or 1), int(found[4] or 1)]
    if file.broken:
        file.items.append(f"⋯ {found[5]}".rstrip())
    file.broken = True
    rows: list[_Row] = []
    while at < len(lines) and max(left) > 0:
        sign, text = lines[at][:1] or " ", lines[at][1:]
        if sign not in _ROLES:
            blank = _BLANK_LINES.fullmatch(lines[at])
            if sign != "\\" and not blank:
                break
            file.items.append(lines[at])
            skipped = int(blank[1]) if blank else 0
            old, new, left = old + skipped, new + skipped, [n - skipped for n in left]
        else:
            rows.append(_Row(sign, old if sign == "-" else new, text.replace("\t", TAB)))
            file.items.append(rows[-1])
            old, new = old + (sign != "+"), new + (sign != "-")
            left = [left[0] - (sign != "+"), left[1] - (sign != "-")]
        at += 1
    _colour(rows, file.path)
    return at


# colours


def _colour(rows: list[_Row], path: str) -> None:
    """Syntax colours, separately for the old and the new text, and marks on changed words."""
    name = path.rpartition("/")[2].rpartition(".")[2].lower() if "." in path else ""
    language = _LANGUAGES.get(name, name) if len(rows) <= _MAX_HIGHLIGHTED else ""
    for hidden in "+-":
        side = [row for row in rows if row.sign != hidden]
        code = [row.text for row in side]
        lines, _ = code_lines(code, language, state_before(code, language))
        for row, spans in zip(side, lines, strict=True):
            same = "".join(text for _, text in spans) == row.text
            row.spans = spans if same else [("", row.text)]
    for row in rows:
        if not row.text.isascii() and _INVISIBLE.search(row.text):
            row.spans = _marked(row.spans, [found.span() for found in _INVISIBLE.finditer(row.text)], "note")
    for removed, added in _changes(rows):
        for old, new in _pairs(removed, added):
            _mark_words(old, new)


def _changes(rows: list[_Row]) -> Iterator[tuple[list[_Row], list[_Row]]]:
    """Removed lines and the added ones right below them."""
    removed: list[_Row] = []
    added: list[_Row] = []
    for row in [*rows, _Row(" ", 0, "")]:
        if row.sign == "+":
            added.append(row)
        elif row.sign == "-" and not added:
            removed.append(row)
        else:
            if removed and added:
                yield removed, added
            removed, added = [row] if row.sign == "-" else [], []


def _pairs(removed: list[_Row], added: list[_Row]) -> Iterator[tuple[_Row, _Row]]:
    """Each removed line with its changed version, in order."""
    if len(removed) * len(added) > _MAX_PAIRS:
        return
    start = 0
    for old in removed:
        ratios = [(_similarity(old.text, new.text), -at) for at, new in enumerate(added) if at >= start]
        best, at = max(ratios, default=(0.0, 0))
        if best >= _MIN_SIMILARITY:
            start = 1 - at
            yield old, added[-at]


def _similarity(old: str, new: str) -> float:
    if max(len(old), len(new)) > _MAX_COMPARED or not old.strip() or not new.strip():
        return 0.0

    return SequenceMatcher(
        None, _WORDS.findall(old.strip()), _WORDS.findall(new.strip()), autojunk=False
    ).ratio()


def _mark_words(old: _Row, new: _Row) -> None:
    before, after = _WORDS.findall(old.text), _WORDS.findall(new.text)
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    changes = [codes for codes in matcher.get_opcodes() if codes[0] != "equal"]
    old.spans = _marked(old.spans, [_range(before, a, b) for _, a, b, _, _ in changes], "removed_word")
    new.spans = _marked(new.spans, [_range(after, c, d) for _, _, _, c, d in changes], "added_word")


def _range(words: list[str], start: int, stop: int) -> tuple[int, int]:
    begin = sum(map(len, words[:start]))
    return begin, begin + sum(map(len, words[start:stop]))


def _marked(spans: Line, ranges: list[tuple[int, int]], role: str) -> Line:
    """The spans, split so that the characters in `ranges` have the role too."""
    inside = {at for start, stop in ranges for at in range(start, stop)}
    out: list[Span] = []
    at = 0
    for style, text in spans:
        for char in text:
            wanted = f"{style} {role}" if at in inside else style
            if out and out[-1][0] == wanted:
                out[-1] = (wanted, out[-1][1] + char)
            else:
                out.append((wanted, char))
            at += 1
    return out
