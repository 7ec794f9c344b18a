"""What the tests of the REPL in a terminal share."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from pty_kit import SECONDS, Terminal

from kit.driving import Project

SIZES = pytest.mark.parametrize(
    ("columns", "rows"), [(80, 24), (40, 10), (200, 50)], ids=["80x24", "40x10", "200x50"]
)

WRITE = {"calls": [{"name": "write", "arguments": {"path": "new.txt", "content": "hello\n"}}]}


def many(count: int) -> str:
    return " ".join(f"word{at}" for at in range(count))


class Gate:
    """A turn of the script that is answered when the test says so."""

    def __init__(self, turn: dict[str, Any]) -> None:
        self._turn = turn
        self._opened = threading.Event()

    def __call__(self, _request: Any) -> dict[str, Any]:
        self._opened.wait(SECONDS)
        return self._turn

    def open(self) -> None:
        self._opened.set()


def squeezed(text: str) -> str:
    """Without white space: where a row was broken does not matter then."""
    return "".join(text.split())


def says(terminal: Terminal, text: str) -> bool:
    return squeezed(text) in squeezed(terminal.text)


def cancelled_line(terminal: Terminal) -> str:
    """The newest line that begins with `Cancelled` (已取消), with the rows it was broken into."""
    lines = terminal.text.split("\n")
    at = max(at for at, line in enumerate(lines) if line.startswith(("Cancelled", "已取消")))
    rows = []
    for line in lines[at:]:
        if not line.strip() or line.startswith(("context: ", "上下文：")):
            break
        rows.append(line)
    return " ".join(rows)


def checked_by(project: Project, body: str) -> None:
    """A project that is verified with a script of ours: `./gradlew test` needs nothing installed."""
    project.write("gradlew", f"#!/bin/sh\n{body}\n").chmod(0o755)
