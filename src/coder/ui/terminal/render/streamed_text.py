"""Streaming renderer: commits each row to scrollback once it is final; the rest of the unfinished block is
the live tail."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from coder.ui.terminal.render.markdown import BlockState, continue_row, hold_last_row
from coder.ui.terminal.render.markdown_blocks import Block, Splitter, stable_prefix
from coder.ui.terminal.render.width import Line, wrap

Paint = Callable[[Block, int, BlockState], tuple[list[Line], BlockState]]
_HEADING_CHARS = 100
_SENTENCE_ENDS = (". ", "? ", "! ", ": ", "。", "？", "！", "，")
_REPEATED = ("quote", "mark")  # styles of prefixes repeated on every row


def thought_rows(block: Block, width: int, carried: BlockState) -> tuple[list[Line], BlockState]:
    """The model's reasoning, dim and without markdown."""
    first, *others = block.text.rstrip("\n").split("\n")
    rows = continue_row(
        [("dim", first)] if first else [], width, carried if not block.opens else BlockState()
    )
    rows = rows or [[]]
    for line in others:
        rows += wrap([("dim", line)] if line else [], width)
    if not block.closes and block.kind != "fence" and not block.text.endswith("\n"):
        return hold_last_row(rows, block, carried)
    if block.text.endswith("\n\n") and block.text.strip():
        rows.append([])
    return rows, BlockState()


class StreamedText:
    """Renders one stream of text. A returned row is final.

    Progress within the unfinished block is counted in non-blank characters ("ink"), not in rows, so that
    after a resize the remainder is wrapped at the new width.
    """

    def __init__(self, paint: Paint) -> None:
        self._paint = paint
        self._splitter = Splitter()
        self._carried = BlockState()
        self._ink = 0  # ink of the tail that is in scrollback
        self._read = 0  # the same in source characters: the tail may already contain the next block's start
        self._blank = False  # a blank row is deferred until more text follows
        self._tail: tuple[Block, int, list[Line]] | None = None  # cache: block, width, rows
        self.started = False

    def feed(self, text: str, width: int) -> list[Line]:
        """The rows of blocks completed by `text`."""
        return self._finished(self._splitter.feed(text), width)

    def finish(self, width: int) -> list[Line]:
        rows = self._finished(self._splitter.finish(), width)
        rows += self._defer_blank_rows(self._left_open(width))
        self._carried, self._blank = BlockState(), False
        return rows

    def live(self, width: int) -> list[Line]:
        """The rows of the tail that are not yet in scrollback."""
        rows = _without(self._painted(width), self._ink)
        while rows and not rows[-1]:
            rows.pop()
        return [[], *rows] if self._blank and rows else rows

    def settle(self, width: int) -> list[Line]:
        """Take the rows at the top of the tail that later text cannot change."""
        tail = self._splitter.tail
        if tail is None or tail.kind in ("table", "fence") or len(self._painted(width)) < 2:
            return []
        if not self._ink and _may_be_heading(tail):
            return []
        at = _stable(tail.text)
        if not at:
            return []
        rows, _ = self._paint(_part(tail, at), width, self._begun(tail))
        out = _without(rows, self._ink)
        if not out:
            return []
        flushed = self._flushed(tail, width)
        self._ink += sum(map(_ink_of, out))
        self._read = at
        return self._defer_blank_rows([*flushed, *out])

    # painting

    def _painted(self, width: int) -> list[Line]:
        """All rows of the tail, starting with the open row of an earlier part."""
        tail = self._splitter.tail
        if tail is None:
            return self._left_open(width)
        if self._tail is None or self._tail[0] != tail or self._tail[1] != width:
            rows, after = self._paint(tail, width, self._begun(tail))
            rows = [*(self._left_open(width) if tail.opens else []), *rows, *_open_row(after, width)]
            self._tail = tail, width, rows
        return self._tail[2]

    def _finished(self, blocks: list[Block], width: int) -> list[Line]:
        out: list[Line] = []
        for block in _joined(blocks):
            out += self._defer_blank_rows(self._flushed(block, width))
            rows, self._carried = self._paint(block, width, self._carried)
            out += self._defer_blank_rows(_without(rows, self._ink))
            beyond = not block.closes or self._read > len(block.text)
            self._ink = max(0, self._ink - sum(map(_ink_of, rows))) if beyond else 0
            self._read, self._tail = max(0, self._read - len(block.text)), None
        return out

    def _begun(self, block: Block) -> BlockState:
        return BlockState() if block.opens and self._carried.row else self._carried

    def _flushed(self, block: Block, width: int) -> list[Line]:
        """The open row, if the block does not continue it."""
        if not block.opens or not self._carried.row:
            return []
        rows = self._left_open(width)
        self._carried, self._tail = BlockState(), None
        return rows

    def _left_open(self, width: int) -> list[Line]:
        return _open_row(self._carried, width)

    def _defer_blank_rows(self, rows: list[Line]) -> list[Line]:
        """Defer trailing blank rows until something follows; drop leading ones."""
        out: list[Line] = [[]] if self._blank and any(rows) and self.started else []
        self._blank = self._blank and not out
        rows = list(rows)
        while rows and not rows[-1]:
            rows.pop()
            self._blank = True
        self.started = self.started or bool(rows)
        self._blank = self._blank and self.started
        return out + rows


def _open_row(carried: BlockState, width: int) -> list[Line]:
    return continue_row([], width, carried) if carried.row else []


def _stable(text: str) -> int:
    """The length of the prefix that later text cannot change. A first line with bars may become a table
    head."""
    first, _, others = text.partition("\n")
    if "|" in first and not others:
        return 0
    at = stable_prefix(text)
    line = text.rfind("\n", 0, at) + 1
    # `-` alone below a text makes it a setext heading, unless words follow.
    return at if any(map(str.isalpha, text[line:at])) else line


def _may_be_heading(tail: Block) -> bool:
    """Whether a line below could still make this a setext heading; headings are one short sentence."""
    line = tail.text.rstrip("\n")
    if not tail.opens or tail.kind != "prose" or "\n" in line or len(line) > _HEADING_CHARS:
        return False
    return not any(end in line for end in _SENTENCE_ENDS)


def _part(tail: Block, at: int) -> Block:
    return msgspec.structs.replace(tail, text=tail.text[:at])


def _joined(blocks: list[Block]) -> list[Block]:
    """Merge neighbouring parts of a fence, to highlight them in one pass."""
    out: list[Block] = []
    for block in blocks:
        last = out[-1] if out else None
        if last is not None and last.kind == block.kind == "fence" and not (block.opens or last.closes):
            out[-1] = msgspec.structs.replace(last, text=last.text + block.text, closes=block.closes)
        else:
            out.append(block)
    return out


def _ink_of(row: Line) -> int:
    """The number of non-blank characters. A blank row counts as 1, as there are equally many at every width;
    a heading's mark alone on a row does not."""
    ink = sum(len("".join(_own(*span).split())) for span in row if span[0] not in _REPEATED)
    return ink or int(not any(style == "heading" for style, _ in row))


def _own(style: str, text: str) -> str:
    """Without heading marks: committed text may become a setext heading by the line below it."""
    return text.lstrip("# ") if style == "heading" else text


def _without(rows: list[Line], ink: int) -> list[Line]:
    """The rows without their first `ink` non-blank characters."""
    if not ink:
        return list(rows)
    for at, row in enumerate(rows):
        size = _ink_of(row)
        if size > ink:
            return [_cut_row(row, ink), *rows[at + 1 :]]
        ink -= size
        if not ink:
            return rows[at + 1 :]
    return []


def _cut_row(row: Line, ink: int) -> Line:
    out: Line = []
    for style, text in row:
        kept = text
        if style not in _REPEATED and not (not out and text.isspace()):
            kept = _own(style, kept) if ink else kept
            while ink and kept:
                ink -= not kept[0].isspace()
                kept = kept[1:] if ink else kept[1:].lstrip()
        if kept:
            out.append((style, kept))
    return out
