"""The screen changes its size while an answer streams, in a terminal that breaks its rows anew: what was said
stands there once, and nothing of the live rows is left behind."""

from __future__ import annotations

import os
import re
import select
import signal
import threading
from pathlib import Path
from typing import Any

import pyte
import pytest
from pty_kit import SECONDS, Paper, Terminal
from test_stream_pty import long_answer

from kit import ScriptedServer
from kit.driving import Project

_A_MOMENT = 300_000  # nanoseconds: being stopped takes some, a frame takes more


class Reflowing(Paper):
    """As VTE, kitty and tmux do it: rows that were broken because they were full are one line."""

    def __init__(self, columns: int, lines: int) -> None:
        self.broken: dict[int, Any] = {}  # by identity, the rows that go on in the next one
        self.history: list[tuple[str, bool]] = []
        self._drawing = False
        super().__init__(columns, lines)

    def draw(self, data: str) -> None:
        self._drawing = True
        super().draw(data)
        self._drawing = False

    def linefeed(self) -> None:
        if self._drawing:
            self._mark(self.cursor.y)
        super().linefeed()

    def index(self) -> None:
        if self.cursor.y == self.lines - 1:
            self.history.append((self.display[0].rstrip(), id(self.buffer[0]) in self.broken))
        super().index()

    def _mark(self, y: int) -> None:
        self.broken[id(self.buffer[y])] = self.buffer[y]

    def erase_in_display(self, how: int = 0, *args: Any, **more: Any) -> None:
        super().erase_in_display(how, *args, **more)
        for y in range(self.cursor.y, self.lines):
            self.broken.pop(id(self.buffer[y]), None)

    def erase_in_line(self, how: int = 0, private: bool = False) -> None:
        super().erase_in_line(how, private)
        self.broken.pop(id(self.buffer[self.cursor.y]), None)

    def resize(self, lines: int | None = None, columns: int | None = None) -> None:
        """Only ASCII: a cell is a character."""
        lines, columns = lines or self.lines, columns or self.columns
        rows = [(self.display[y].rstrip(), id(self.buffer[y]) in self.broken) for y in range(self.lines)]
        rows = rows[: max(self.cursor.y + 1, *(y + 1 for y, (row, _) in enumerate(rows) if row), 1)]
        new: list[tuple[str, bool]] = []
        at, caret = "", 0
        for y, (row, goes_on) in enumerate(rows):
            if y == self.cursor.y:
                caret = len(new) * columns + len(at) + self.cursor.x
            at += row.ljust(self.columns) if goes_on else row
            if not goes_on:
                pieces = [at[i : i + columns] for i in range(0, len(at), columns)] or [""]
                new += [(piece, n < len(pieces) - 1) for n, piece in enumerate(pieces)]
                at = ""
        down, across = divmod(caret, columns)
        off = max(0, down - lines + 1)
        self.history += new[:off]
        self.lines, self.columns, self.margins = lines, columns, None
        self.buffer.clear()
        self.broken.clear()
        for y, (row, goes_on) in enumerate(new[off : off + lines]):
            for x, char in enumerate(row):
                self.buffer[y][x] = self.default_char._replace(data=char)
            if goes_on:
                self._mark(y)
        self.cursor.x, self.cursor.y = across, down - off
        self.dirty.update(range(lines))

    @property
    def told(self) -> str:
        """History and screen, lines that the terminal broke in one piece."""
        rows = self.history + [
            (self.display[y].rstrip(), id(self.buffer[y]) in self.broken) for y in range(self.lines)
        ]
        return "".join(row if goes_on else f"{row}\n" for row, goes_on in rows)


class Window(Terminal):
    """Resized as a person would while nothing is on its way, which no one can tell from the outside.

    Started cold: only a parent can wait until its child has stopped."""

    def __init__(self, project: Project, url: str, columns: int, rows: int, **environ: Any) -> None:
        super().__init__(project, url, columns=columns, rows=rows, cold=True, VTE_VERSION="7000", **environ)
        self.page = Reflowing(columns, rows)
        self.paper = self.page
        self._stream = pyte.ByteStream(self.page)

    def resize(self, columns: int, rows: int) -> None:
        self.until(self._stopped_between_frames)
        self.pump(0)
        self.page.resize(rows, columns)
        self._set_size(columns, rows)
        os.kill(self.pid, signal.SIGCONT)
        os.kill(self.pid, signal.SIGWINCH)

    def _stopped_between_frames(self) -> bool:
        """Asleep when looked at, and hardly run since: not in the middle of a frame for the old size."""
        self.pump(0)
        directory = Path(f"/proc/{self.pid}")
        state = (directory / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
        ran = int((directory / "schedstat").read_text(encoding="utf-8").split()[0])
        if state != "S":
            return False
        os.kill(self.pid, signal.SIGSTOP)
        os.waitpid(self.pid, os.WUNTRACED)
        # What it has written already may be half of a frame, whose other half waits for us to read.
        waiting = bool(select.select([self.fd], [], [], 0)[0])
        if (
            not waiting
            and int((directory / "schedstat").read_text(encoding="utf-8").split()[0]) - ran < _A_MOMENT
        ):
            return True
        os.kill(self.pid, signal.SIGCONT)
        return False


class PausedTurn(dict[str, Any]):
    """A turn of the script whose text stops behind `last`, until it is released."""

    def __init__(self, text: str, last: str) -> None:
        super().__init__(text=text, chunk=16, delay=0.004)
        self._left = (text.index(last) + len(last)) // 16 + 2  # the stream begins with an event without text
        self.released = threading.Event()

    def __getitem__(self, key: str) -> Any:
        if key == "delay":  # asked for before every event
            self._left -= 1
            if self._left == 0:
                self.released.wait(SECONDS)
        return super().__getitem__(key)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "sizes",
    [
        [(80, 24), (40, 10), (200, 50)],
        [(200, 50), (80, 24), (40, 10)],
        [(40, 10), (200, 50), (80, 24)],
    ],
    ids=["80-40-200", "200-80-40", "40-200-80"],
)
def test_everything_stands_there_once(project: Project, sizes: list[tuple[int, int]]) -> None:
    answer = long_answer()
    wanted = re.findall(r"w\d{4}x", answer)
    (columns, rows), *others = sizes
    # In the code, before the table: that is a live row each until it ends, and a screen of fewer rows pushes
    # live rows into the scrollback, where nobody can take them back.
    turn = PausedTurn(answer, "w0055x")
    with ScriptedServer([turn]) as server, Window(project, server.url, columns, rows) as window:
        window.until_idle()
        window.send("go")
        window.until(lambda: "w0050x" in window.page.told)
        for size in others:
            window.resize(*size)
        turn.released.set()
        window.until(lambda: wanted[-1] in window.page.told)
        window.until_idle()
        told = window.page.told
    assert re.findall(r"w\d{4}x", told) == wanted
    assert "esc stops" not in told
    assert told.count("[default]") == 1  # the prompt stays out of scrollback


def test_a_draft_is_redrawn_and_not_doubled(project: Project) -> None:
    draft = [f"d{at:02d}x" for at in range(30)]
    with ScriptedServer([{"text": "answered"}]) as server, Window(project, server.url, 80, 24) as window:
        window.until_idle()
        window.type(" ".join(draft))
        window.until(lambda: draft[-1] in window.screen)
        for columns, rows in ((40, 12), (120, 30), (60, 24)):
            written = len(window.raw)
            window.resize(columns, rows)
            window.until(lambda written=written: len(window.raw) > written)  # type: ignore[misc] # bound at once
            window.until(lambda: "".join(window.screen.split()).count(draft[-1]) == 1)
        told = "".join(window.page.told.split())
    assert re.findall(r"d\d\dx", told) == draft
    assert told.count("[default]") == 1
