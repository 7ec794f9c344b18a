"""Makes docs/demo.svg: the real `coder`, run in a terminal against the scripted model of `coder demo`.

    ./dev record            writes docs/demo.svg
    ./dev record FILE       writes it elsewhere

The session is played for real (engine, tools, sandbox); only what differs from run
to run (times, token counts) is set to fixed figures, so that a picture changes only where coder does.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import tempfile
import termios
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyte

from coder.cli.demo import environment, lay_out
from coder.cli.demo_script import QUESTION, SCRIPT
from coder.models.scripted import ScriptedServer
from coder.ui.terminal.render.width import char_width
from terminal_svg import Cell, Style, picture

COLUMNS, ROWS = 100, 30
FLAGS = ("--mode", "auto-edit")
SECONDS = 100.0
TARGET = Path(__file__).parent / "demo.svg"
TITLE = "coder"
DESCRIPTION = (
    "A session of coder in a terminal: the question why the tests fail, the model's thinking, files read, "
    "the failing test, a patch shown as a diff, the answer, the verification that passes."
)
# The model of the tour runs the tests a second time by itself; here the verification does, after the answer.
ANSWER = (
    "The tests failed because `total` looped over `prices[1:]` and so left out the first price.\n\n"
    "- **Fix:** it loops over all prices; nothing else has changed.\n"
)
STORY = [SCRIPT[0], SCRIPT[1], {"text": ANSWER}]
# What is different in every run, and what stands there instead.
FIXED = (
    (r"\bin \d+\.\d{3}s\b", "in 0.001s"),
    (r"· \d+(\.\d+)? ?m?s\b(?=\s*$)", "· 0.1s"),
    (r"\b\d{8}-\d{6}-[0-9a-f]{6}\b", "20260101-120000-c0ffee"),
    (r"\b\d{4}-\d\d-\d\d \d\d:\d\d\b", "2026-01-01 12:00"),
    (r"context: \d+ tokens", "context: 2140 tokens"),
    (r"^[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏] ", "⠸ "),
    (r"· \d+s · ~?[\d.k]+ tokens", "· 3s · ~70 tokens"),
    (r"/\S*/basket\b", "~/basket"),
)


class Paper(pyte.Screen):
    """A screen that keeps what scrolls off its top, with its colours, and knows faint text."""

    def __init__(self, columns: int, lines: int) -> None:
        self.scrolled: list[list[Cell]] = []
        super().__init__(columns, lines)

    def index(self) -> None:
        if self.cursor.y == self.lines - 1 and self.margins is None:
            self.scrolled.append(self.row(0))
        super().index()

    def select_graphic_rendition(self, *attrs: int, **more: Any) -> None:
        """pyte has no word for faint; nothing here blinks, so that word is used for it."""
        super().select_graphic_rendition(*attrs, **more)
        while 38 in attrs or 48 in attrs:  # a 2 in a colour is not faint
            at = min(attrs.index(code) for code in (38, 48) if code in attrs)
            attrs = (*attrs[:at], *attrs[at + (5 if attrs[at + 1 : at + 2] == (2,) else 3) :])
        if 2 in attrs:
            self.cursor.attrs = self.cursor.attrs._replace(blink=True)
        elif 22 in attrs:
            self.cursor.attrs = self.cursor.attrs._replace(blink=False)

    def row(self, number: int) -> list[Cell]:
        cells = []
        line = self.buffer[number]
        for column in range(self.columns):
            char = line[column]
            if char.data:  # the second half of a wide character has none
                cells.append(Cell(char.data, max(1, char_width(char.data[0])), _style(char)))
        return cells

    def rows(self) -> list[list[Cell]]:
        return [*self.scrolled, *(self.row(number) for number in range(self.lines))]


def _style(char: Any) -> Style:
    return Style(
        char.fg,
        char.bg,
        char.bold,
        char.italics,
        char.underscore,
        char.strikethrough,
        char.blink,
        char.reverse,
    )


class Session(NamedTuple):
    """A running `coder` and its screen."""

    pid: int
    fd: int
    paper: Paper
    stream: pyte.ByteStream

    def text(self) -> str:
        return "\n".join("".join(cell.text for cell in row).rstrip() for row in self.paper.rows())

    def until(self, what: str | Callable[[str], bool]) -> None:
        deadline = time.monotonic() + SECONDS
        while not (what in self.text() if isinstance(what, str) else what(self.text())):
            if time.monotonic() > deadline:
                raise SystemExit(f"record: this never came: {what}\n{self.text()}")
            if select.select([self.fd], [], [], 0.05)[0]:
                self.stream.feed(os.read(self.fd, 65536))

    def type(self, text: str) -> None:
        os.write(self.fd, text.encode("utf-8"))


def start(
    folder: Path,
    environ: dict[str, str],
    flags: Sequence[str] = FLAGS,
    columns: int = COLUMNS,
    rows: int = ROWS,
) -> Session:
    paper = Paper(columns, rows)
    pid, fd = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.execve(sys.executable, [sys.executable, "-m", "coder", "--lang", "en", *flags], environ)  # noqa: S606 - ourselves
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    return Session(pid, fd, paper, pyte.ByteStream(paper))


def play(folder: Path) -> list[list[Cell]]:
    """The whole story, to the prompt after it."""
    lay_out(folder)
    (folder / ".coder" / "config.json").unlink()
    with ScriptedServer(STORY, model="scripted") as server:
        environ = environment(folder, server.url)
        environ |= {
            "HOME": str(folder.parent),  # so that the prompt says ~/basket, however long the path is
            "PATH": f"{environ['PATH']}:{Path(sys.executable).parent}",  # pytest is there
            "TERM": "xterm-256color",
            "COLORFGBG": "15;0",
            "COLORTERM": "truecolor",
        }
        environ.pop("NO_COLOR", None)
        session = start(folder, environ)
        try:
            _converse(session)
        finally:
            os.kill(session.pid, signal.SIGKILL)
            os.waitpid(session.pid, 0)
            os.close(session.fd)
    return session.paper.rows()


def _converse(session: Session) -> None:
    session.until(at_prompt)
    session.type(QUESTION)
    session.until(QUESTION)
    session.type("\r")
    session.until(lambda text: "nothing else has changed" in text and "Verified" in text and at_prompt(text))


def at_prompt(text: str) -> bool:
    return bool(
        re.search(r"context: \d+ tokens · model: \S+[^\n]*\n\[[\w-]+\] [^\n]*> ?$", text.rstrip("\n "))
    )


def fixed(rows: Sequence[list[Cell]]) -> list[list[Cell]]:
    """The same rows with the figures that differ from run to run replaced; blank ones at the end are gone."""
    kept = [_fixed(row) for row in rows]
    while kept and not "".join(cell.text for cell in kept[-1]).strip():
        kept.pop()
    return kept


def _fixed(row: list[Cell]) -> list[Cell]:
    text = "".join(cell.text for cell in row)
    for pattern, instead in FIXED:
        for found in reversed(list(re.finditer(pattern, text))):
            style = row[found.start()].style
            row = [*row[: found.start()], *(Cell(char, 1, style) for char in instead), *row[found.end() :]]
            text = text[: found.start()] + instead + text[found.end() :]
    return row


def main() -> None:
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else TARGET
    with tempfile.TemporaryDirectory(prefix="coder-record-") as place:
        folder = Path(place) / "basket"
        folder.mkdir()
        rows = fixed(play(folder))
    target.write_text(picture(rows, COLUMNS, TITLE, DESCRIPTION), encoding="utf-8")
    sys.stdout.write(f"{target}: {len(rows)} rows\n")


if __name__ == "__main__":
    main()
