"""Streaming parser that splits markdown into final blocks.

A block ends at a blank line or where another kind begins. Unbounded blocks are emitted in parts: code by
line, tables once their columns are known, prose after a number of characters. The cuts depend on the text
alone, not on its chunks.
"""

from __future__ import annotations

import re
from typing import Literal

import msgspec

Kind = Literal["prose", "item", "fence", "table"]
Open = list[tuple[str, int]]  # delimiters and their offsets
Closed = list[tuple[int, int]]

TABLE_LINES = 40  # from which a table's columns are worked out
PROSE_CHARS = 800
SHAPED_CHARS = 4000  # for quotes and indented blocks: later parts lose their markup

_FENCE = re.compile(r"^(\s*)(`{3,}|~{3,})[ \t]*([^`\n]*)\n?$")
_ITEM = re.compile(r"^\s*(?:[-*+]|(\d{1,9})[.)])(?:\s|$)")
_HEADING = re.compile(r"^ {0,3}#{1,6}(?:\s|$)")
_RULER = re.compile(r"^\s*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*$")
_HR = re.compile(r"^ {0,3}(?:(?:\*\s*){3,}|(?:-\s*){3,}|(?:_\s*){3,})$")
_SHAPED = re.compile(r"^(?:>| {4}|\t)")
# The start of a line of ambiguous kind: not shown yet.
_UNCLEAR = re.compile(r"^\s*(?:[-=*+#`~|: >]+|\d{1,9}[.)]?)\s*$")
_CLEAR_BY = 60  # characters after which a line's kind is settled
_DELIMITER = re.compile(r"\\.|`+|\*+|_+|~~|\[|\]")


class Block(msgspec.Struct, frozen=True):
    """`text` is the source with following blank lines. `opens` and `closes`: this is the block's first, last
    part; `in_list`: it is nested in a list item."""

    text: str
    kind: Kind
    info: str = ""
    opens: bool = True
    closes: bool = True
    in_list: bool = False


class Splitter:
    """`feed` pieces, then `finish`. The concatenated texts of all blocks are the input."""

    def __init__(self) -> None:
        self._partial: list[str] = []  # the line that has no end yet
        self._lines: list[str] = []
        self._size = 0
        self._kind: Kind = "prose"
        self._fence = ""  # the marks that opened the fence we are in
        self._info = ""
        self._opens = True
        self._blank = False  # the last line is blank: another block follows
        self._in_list = False
        self._within = False  # the line that has no end yet began in a part that is done

    def feed(self, text: str) -> list[Block]:
        done: list[Block] = []
        *ended, rest = text.split("\n")
        for line in ended:
            self._grow(line, done)
            whole = "".join(self._partial) + "\n"
            self._partial.clear()
            self._line(whole, done)
        self._grow(rest, done)
        return done

    def finish(self) -> list[Block]:
        done: list[Block] = []
        if self._partial:
            whole = "".join(self._partial)
            self._partial.clear()
            self._line(whole, done)
        self._close(done)
        self._fence = ""
        self._in_list = self._within = False
        return done

    @property
    def tail(self) -> Block | None:
        partial = "".join(self._partial)
        kind = self._kind
        if not self._fence and not self._within:
            if _UNCLEAR.match(partial):
                partial = ""
            elif not self._lines and kind != "table":
                kind = "item" if _ITEM.match(partial) and not _HR.match(partial) else "prose"
                kind = "fence" if _FENCE.match(partial) else kind
        text = "".join(self._lines) + partial
        if not text:
            return None
        opens = self._opens or kind == "item"
        return Block(text, kind, self._info, opens=opens, closes=False, in_list=self._in_list)

    # one line after the other

    def _grow(self, piece: str, done: list[Block]) -> None:
        if not piece:
            return
        self._partial.append(piece)
        if self._blank and not self._fence and not piece.isspace():
            self._close(done)
            self._in_list = self._in_list and self._partial[0][0] == " "
        if self._lines and self._is_item_already():
            self._close(done)
        self._cut_partial(done)

    def _is_item_already(self) -> bool:
        """Whether the unfinished line certainly begins an item, so that the block above is complete."""
        if self._fence or self._within:
            return False
        start = "".join(self._partial)[:_CLEAR_BY]
        item = _ITEM.match(start)
        return item is not None and not _UNCLEAR.match(start) and self._may_begin_item(item)

    def _line(self, line: str, done: list[Block]) -> None:
        if self._fence:
            self._code_line(line, done)
            return
        if self._within:
            self._within = False
            self._add(line)
            return
        if not line.strip():
            self._add(line)
            self._blank = True
            return
        if self._blank:
            self._close(done)
        opening = _FENCE.match(line)
        if opening and not (opening[2][0] == "`" and "`" in opening[3]):
            self._close(done)
            self._begin("fence")
            self._fence, self._info = opening[2], opening[3].strip()
            self._add(line)
            self._part(done)
            return
        self._text_line(line, done)

    def _code_line(self, line: str, done: list[Block]) -> None:
        self._add(line)
        marks = line.strip()
        if marks.startswith(self._fence) and not marks.strip(self._fence[0]):
            self._fence = ""
            self._close(done)
        else:
            self._part(done)

    def _text_line(self, line: str, done: list[Block]) -> None:
        item = _ITEM.match(line)
        if _HEADING.match(line):
            self._close(done)
            self._in_list = False
            self._begin("prose")
            self._add(line)
            self._close(done)
            return
        if item and not _HR.match(line) and self._may_begin_item(item):
            self._close(done)
            self._in_list = self._in_list and line[0] == " "
            self._begin("item")
            self._in_list = True
        elif self._kind == "table":
            if "|" not in line:
                self._close(done)
                self._begin("prose")
        elif not self._lines and self._opens:
            self._in_list = self._in_list and line[0] == " "
            self._begin("prose")
        elif len(self._lines) == 1 and self._opens and "|" in self._lines[0] and _RULER.match(line):
            self._kind = "table" if self._kind == "prose" else self._kind
        self._add(line)
        if self._kind == "table" and (not self._opens or len(self._lines) > TABLE_LINES):
            self._part(done)

    def _may_begin_item(self, item: re.Match[str]) -> bool:
        """As in CommonMark, only the number 1 interrupts a paragraph ("in the year\\n1984. …")."""
        fresh = not self._lines and self._opens
        return fresh or self._kind == "item" or item[1] in (None, "1")

    def _cut_partial(self, done: list[Block]) -> None:
        """Cut overlong prose without a line break at a stable point."""
        if self._fence or self._kind == "table" or self._blank:
            return
        size = self._size + sum(map(len, self._partial))
        if size <= PROSE_CHARS:
            return
        text = "".join(self._lines) + "".join(self._partial)
        limit = SHAPED_CHARS if self._opens and _SHAPED.match(text) else PROSE_CHARS
        while len(text) > limit:
            at = stable_prefix(text[:limit]) or text.rfind(" ", 0, limit) + 1 or limit
            head, text = text[:at], text[at:]
            kind: Kind = "item" if self._opens and (self._kind == "item" or _ITEM.match(head)) else "prose"
            done.append(Block(head, kind, opens=self._opens, closes=False, in_list=self._in_list))
            self._within = head[-1] != "\n" and "\n" not in text
            self._opens, self._kind, limit = False, "prose", PROSE_CHARS
        *lines, rest = text.split("\n")
        self._lines[:] = [f"{line}\n" for line in lines]
        self._size = sum(map(len, self._lines))
        self._partial[:] = [rest]

    # the block that is growing

    def _begin(self, kind: Kind) -> None:
        self._kind, self._opens, self._info, self._blank = kind, True, "", False

    def _add(self, line: str) -> None:
        self._lines.append(line)
        self._size += len(line)

    def _part(self, done: list[Block]) -> None:
        text = "".join(self._lines)
        done.append(
            Block(text, self._kind, self._info, opens=self._opens, closes=False, in_list=self._in_list)
        )
        self._lines.clear()
        self._size, self._opens = 0, False

    def _close(self, done: list[Block]) -> None:
        if self._lines:
            text = "".join(self._lines)
            done.append(
                Block(text, self._kind, self._info, opens=self._opens, closes=True, in_list=self._in_list)
            )
        self._lines.clear()
        self._size, self._opens, self._blank = 0, True, False
        self._kind, self._info, self._within = "prose", "", False


def stable_prefix(text: str) -> int:
    """The longest prefix between words with no inline construct open: later text cannot change its
    rendering."""
    closed: Closed = []
    at = _first_open(text, closed)
    while at > 0:
        inside = next((start for start, end in closed if start < at < end), None)
        if inside is not None:
            at = inside
        elif _between_words(text, at):
            break
        else:
            at -= 1
    return at


def _between_words(text: str, at: int) -> bool:
    before = text[at - 1]
    return before.isspace() or (ord(before) >= 0x2E80 and before.isprintable())


def _first_open(text: str, closed: Closed) -> int:
    """The start of the first inline construct still open at the end; closed ones are added to `closed`."""
    open_marks: Open = []
    at = 0
    while (found := _DELIMITER.search(text, at)) is not None:
        mark, start, at = found[0], found.start(), found.end()
        if mark[0] == "\\":
            continue
        if mark[0] == "`":
            closing = re.compile(f"(?<!`){mark}(?!`)").search(text, at)
            if closing is None:
                open_marks.append((mark, start))
                break
            at = closing.end()
            closed.append((start, at))
        elif mark == "[":
            open_marks.append((mark, start))
        elif mark == "]":
            at = _after_link(text, at, open_marks, closed)
        else:
            _emphasis(text, mark, start, at, open_marks, closed)
    return min((start for _, start in open_marks), default=len(text))


def _after_link(text: str, at: int, open_marks: Open, closed: Closed) -> int:
    """After `]`: the end of the link's URL, which may not have arrived yet."""
    opened = next((i for i in range(len(open_marks) - 1, -1, -1) if open_marks[i][0] == "["), None)
    if opened is None or at == len(text):
        return at
    if text[at] == "(":
        end = text.find(")", at)
        if end < 0:
            return len(text)
        at = end + 1
    closed.append((open_marks[opened][1], at))
    del open_marks[opened:]
    return at


def _emphasis(text: str, mark: str, start: int, end: int, open_marks: Open, closed: Closed) -> None:
    before = text[start - 1] if start else " "
    after = text[end] if end < len(text) else "\0"
    if mark[0] == "_" and before.isalnum() and after.isalnum():
        return
    opened = next((i for i in range(len(open_marks) - 1, -1, -1) if open_marks[i][0] == mark), None)
    if opened is not None and not before.isspace() and end < len(text):  # at the end the run may still grow
        closed.append((open_marks[opened][1], end))
        del open_marks[opened:]
    elif not after.isspace():
        open_marks.append((mark, start))
