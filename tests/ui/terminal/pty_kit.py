"""The real `coder` in a pseudo terminal, its screen read as a person would see it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyte

from coder.ui.terminal.render.width import char_width
from kit import ScriptedServer
from kit.driving import Project
from kit.fork_server import FORK_SERVER

SECONDS = 60.0  # a test that waits this long has failed

ENTER, ESC, CTRL_C, CTRL_D, UP, DOWN, TAB = "\r", "\x1b", "\x03", "\x04", "\x1b[A", "\x1b[B", "\t"
BACKSPACE = "\x7f"


IDLE = re.compile(
    r"(?:context: \d+ tokens · model: |上下文：\d+ 个 token · 模型：)\S+"
    r"(?: · \d+ (?:jobs?|个任务))?\n\[[\w-]+\] [^\n]*> ?$"
)


class Paper(pyte.Screen):
    """A screen that keeps the lines which scroll off its top, as terminals do."""

    def __init__(self, columns: int, lines: int) -> None:
        self.scrolled: list[str] = []
        self.titles: list[str] = []
        self.bells = 0
        self._rows: dict[int, str] = {}
        super().__init__(columns, lines)

    @property
    def rows(self) -> list[str]:
        """As `display`, without blanks at the end. Renders only what has changed: tests look often."""
        for at in self.dirty:
            self._rows[at] = self._row(at)
        self.dirty.clear()
        return [self._rows[at] for at in range(self.lines)]

    def index(self) -> None:
        if self.cursor.y == self.lines - 1 and self.margins is None:
            self.scrolled.append(self._row(0))
        super().index()

    def _row(self, at: int) -> str:
        row, wide, text = self.buffer[at], False, []
        for column in range(max(row, default=-1) + 1):
            data = row[column].data
            if not wide:
                text.append(data)
            wide = not wide and char_width(data[:1] or " ") == 2
        return "".join(text).rstrip()

    def bell(self, *_args: Any) -> None:
        self.bells += 1

    def set_title(self, param: str) -> None:
        self.titles.append(param)
        super().set_title(param)

    def resize(self, lines: int | None = None, columns: int | None = None) -> None:
        """Rows that no longer fit scroll off; a narrower screen cuts, as xterm does."""
        lines, columns = lines or self.lines, columns or self.columns
        while self.cursor.y >= lines:
            self.scrolled.append(self._row(0))
            self.cursor.y -= 1
            for row in range(self.lines):
                self.buffer[row] = self.buffer[row + 1]
            self.buffer.pop(self.lines, None)
        for cells in self.buffer.values():
            for column in [x for x in cells if x >= columns]:
                del cells[column]
        self.lines, self.columns = lines, columns
        self.cursor.x = min(self.cursor.x, columns - 1)
        self.dirty.update(range(lines))
        self.margins = None


class Terminal:
    """`with Terminal(project, url) as terminal:` — type, wait, look."""

    def __init__(
        self,
        project: Project,
        url: str = "",
        *args: str,
        columns: int = 80,
        rows: int = 24,
        term: str = "xterm-256color",
        cold: bool = False,
        typed: str = "",
        **environ: str,
    ) -> None:
        """`cold`: by a new interpreter, whose imports and whose end (as our child) the test is about.
        `typed`: before the program begins."""
        self.raw = bytearray()
        self.paper = Paper(columns, rows)
        self._stream = pyte.ByteStream(self.paper)
        self._stream.csi = {**self._stream.csi}
        self.status: int | None = None
        self.fd, slave = pty.openpty()
        self._set_size(columns, rows)
        self.type(typed)
        env = project.environ(url, TERM=term, **environ)
        self._forked = (
            None if cold else FORK_SERVER.start(list(args), env, project.cwd, (slave, slave, slave))
        )
        self.pid = self._forked.pid if self._forked else self._start_cold(slave, project.cwd, args, env)
        os.close(slave)

    def _start_cold(self, slave: int, cwd: Path, args: tuple[str, ...], env: dict[str, str]) -> int:
        pid = os.fork()
        if pid == 0:
            os.login_tty(slave)
            os.chdir(cwd)
            os.execve(sys.executable, [sys.executable, "-m", "coder", *args], env)  # noqa: S606 - it is us
        return pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, _e: object, _t: TracebackType | None) -> None:
        if kind is not None:
            sys.stderr.write(f"--- screen\n{self.text}\n---\n")
        if self.status is None and self._forked:
            self._forked.kill()
        elif self.status is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.fd)

    # acting

    def type(self, text: str) -> None:
        os.write(self.fd, text.encode("utf-8"))

    def send(self, text: str) -> None:
        """Type a line and Enter, as two things that a person does."""
        self.type(text)
        self.pump(0.02)
        self.type(ENTER)

    def paste(self, text: str) -> None:
        self.type(f"\x1b[200~{text}\x1b[201~")

    def resize(self, columns: int, rows: int) -> None:
        self.pump(0)
        self.paper.resize(rows, columns)
        self._set_size(columns, rows)
        os.kill(self.pid, signal.SIGWINCH)

    def _set_size(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    # looking

    @property
    def screen(self) -> str:
        """What is on the screen now."""
        return "\n".join(self.paper.rows).rstrip()

    @property
    def text(self) -> str:
        """Scrollback and screen."""
        return "\n".join([*self.paper.scrolled, *self.paper.rows]).rstrip()

    @property
    def prompt(self) -> str:
        """The input: the last prompt on the screen and what follows it."""
        return self.screen[self.screen.rindex("[") :] if "[" in self.screen else ""

    @property
    def caret(self) -> tuple[int, int]:
        return self.paper.cursor.x, self.paper.cursor.y

    def pump(self, seconds: float) -> bool:
        """Take in what arrives within so long; False at the end of the output."""
        until = time.monotonic() + seconds
        while True:
            ready, _, _ = select.select([self.fd], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                return True
            try:
                data = os.read(self.fd, 65536)
            except OSError:
                return False
            if not data:
                return False
            self.raw += data
            self._stream.feed(data)

    def until(self, what: str | Callable[[], bool], seconds: float = SECONDS) -> None:
        """Wait until a text is on the screen (or in scrollback), or something is true."""
        deadline = time.monotonic() + seconds

        def here() -> bool:
            return what in self.text if isinstance(what, str) else what()

        while not here():
            if time.monotonic() > deadline or not self.pump(0.02):
                if here():
                    return
                raise AssertionError(f"never came: {what}\n{self.text}")

    def until_idle(self) -> None:
        """Wait for the prompt with its context line right above it."""
        self.until(lambda: IDLE.search(self.screen) is not None)

    def until_asked(self) -> None:
        """Wait until a question has the keyboard: before that keys are the draft's, though it can be read."""
        self.until(lambda: self.screen.endswith("Allow?"))

    def until_prompt(self) -> None:
        """Wait for a prompt, in whatever front end; the directory in it may be broken at any letter."""
        self.until(lambda: "project>" in self.text.replace("\n", ""))

    def ended(self) -> int:
        """Wait for the process to end; its exit status."""
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            alive = self.pump(0.05)
            self.status = self._exit_status()
            if self.status is not None:
                self.pump(0)
                return self.status
            if not alive:
                time.sleep(0.02)
        raise AssertionError(f"still running\n{self.text}")

    def close(self) -> int:
        """Close the terminal as a window is closed; the exit status of what ran in it."""
        os.close(self.fd)
        self.fd = os.open(os.devnull, os.O_RDWR)
        while self.status is None:
            self.status = self._exit_status(None)
        return self.status

    def _exit_status(self, seconds: int | None = 0) -> int | None:
        if self._forked:
            return self._forked.poll(seconds)
        pid, status = os.waitpid(self.pid, os.WNOHANG if seconds is not None else 0)
        return os.waitstatus_to_exitcode(status) if pid else None


# what most tests want to know

ANSWERS = [{"text": f"answer{n}"} for n in range(9)]


def messages(server: ScriptedServer) -> list[str]:
    """What the person said, as it reached the model, without the engine's own notes."""
    texts = [m["content"] for m in server.chats[-1]["messages"] if m["role"] == "user"]
    return [text.split("\n\n<note>")[0] for text in texts]


def sent(server: ScriptedServer, terminal: Terminal, count: int = 1) -> str:
    terminal.until(lambda: len(server.chats) >= count)
    terminal.until_idle()
    return messages(server)[-1]
