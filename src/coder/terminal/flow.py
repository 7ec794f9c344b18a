"""Streamed text on its way to scrollback: complete blocks once, the unfinished one as a live tail."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from coder.terminal.blocks import Block, Splitter, stable_prefix
from coder.terminal.markdown import Carried
from coder.terminal.width import Line, wrap

Paint = Callable[[Block, int, Carried], tuple[list[Line], Carried]]


def thought_rows(block: Block, width: int, carried: Carried) -> tuple[list[Line], Carried]:
    """The model's reasoning: as it is, dim."""
    rows = [
        row
        for line in block.text.rstrip("\n").split("\n")
        for row in wrap([("dim", line)] if line else [], width)
    ]
    if block.text.endswith("\n\n") and block.text.strip():
        rows.append([])
    return rows, carried


class Flow:
    """One stream of text. Rows are handed over once and never taken back.

    The rows of a block that has been shown in part keep the width they began with: after a resize the rest
    still follows what stands in scrollback.
    """

    def __init__(self, paint: Paint) -> None:
        self._paint = paint
        self._splitter = Splitter()
        self._carried = Carried()
        self._shown = 0  # rows of the unfinished block that are in scrollback
        self._width = 0  # 0: whatever the terminal has
        self._blank = False  # a blank row is owed before the next text
        self.started = False

    def feed(self, text: str, width: int) -> list[Line]:
        """The rows that became final."""
        return self._finished(self._splitter.feed(text), width)

    def finish(self, width: int) -> list[Line]:
        rows = self._finished(self._splitter.finish(), width)
        self._carried, self._blank = Carried(), False
        return rows

    def live(self, width: int) -> list[Line]:
        """The rows of the tail that are not in scrollback."""
        tail = self._splitter.tail
        if tail is None:
            return []
        rows, _ = self._paint(tail, self._width or width, self._carried)
        rows = rows[self._shown :]
        while rows and not rows[-1]:
            rows.pop()
        return [[], *rows] if self._blank and rows else rows

    def overflow(self, live: int, limit: int, width: int) -> list[Line]:
        """Where the tail is taller than `limit` rows: those at its top that can no longer change."""
        tail = self._splitter.tail
        if live <= limit or tail is None or tail.kind == "table":
            return []
        stable = _stable(tail)
        if stable is None:
            return []
        rows, _ = self._paint(stable, self._width or width, self._carried)
        ready = len(rows) - (tail.kind != "fence")
        upto = min(ready, self._shown + live - limit // 2)
        if upto <= self._shown:
            return []
        self._width = self._width or width
        out = self._owed(rows[self._shown : upto])
        self._shown = upto
        return out

    def _finished(self, blocks: list[Block], width: int) -> list[Line]:
        out: list[Line] = []
        for block in blocks:
            rows, self._carried = self._paint(block, self._width or width, self._carried)
            out += self._owed(rows[self._shown :])
            self._shown, self._width = 0, 0
        return out

    def _owed(self, rows: list[Line]) -> list[Line]:
        """Blank rows at the end wait until something follows, so that an answer does not end with them."""
        out: list[Line] = [[]] if self._blank and any(rows) and self.started else []
        self._blank = self._blank and not out
        rows = list(rows)
        while rows and not rows[-1]:
            rows.pop()
            self._blank = True
        self.started = self.started or bool(rows)
        return out + rows


def _stable(tail: Block) -> Block | None:
    """The part of an unfinished block that what comes later cannot change."""
    at = tail.text.rfind("\n") + 1 if tail.kind == "fence" else stable_prefix(tail.text)
    return msgspec.structs.replace(tail, text=tail.text[:at]) if at else None
