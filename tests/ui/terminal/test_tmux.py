"""In a terminal that breaks rows anew when it gets narrower: no ghosts in its history, nothing lost."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kit import ScriptedServer
from kit.driving import Project

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux")


class Tmux:
    """A server of its own, with one window."""

    def __init__(self, directory: Path) -> None:
        self._socket = str(directory / "tmux")

    def __call__(self, *args: str) -> str:
        done = subprocess.run(
            ["tmux", "-S", self._socket, "-f", "/dev/null", *args], capture_output=True, check=False
        )
        return done.stdout.decode("utf-8", errors="replace")

    def text(self) -> str:
        """Scrollback and screen; rows that tmux itself has broken are joined again."""
        return self("capture-pane", "-p", "-J", "-S", "-", "-t", "t")

    def until(self, what: str | Callable[[str], bool]) -> str:
        """Wait until a text is there, or something is true of all of it."""
        deadline = time.monotonic() + 60
        while True:
            text = self.text()
            if what in text if isinstance(what, str) else what(text):
                return text
            assert time.monotonic() < deadline, f"never came: {what}\n{text}"
            time.sleep(0.05)

    def resize(self, columns: int, rows: int) -> None:
        """Resize, and wait until it was drawn on: tmux moves its rows at once and tells a while later, and
        whoever draws between the two draws on a screen of another size."""
        self("resize-window", "-t", "t", "-x", str(columns), "-y", str(rows))
        tty = os.open(
            self("display-message", "-p", "-t", "t", "#{pane_tty}").strip(), os.O_RDWR | os.O_NOCTTY
        )
        try:
            self.until(lambda _: tuple(os.get_terminal_size(tty)) == (columns, rows))
        finally:
            os.close(tty)
        drawn = self.text().count("Z")
        self("send-keys", "-t", "t", "Z")
        self.until(lambda text: text.count("Z") > drawn)
        self("send-keys", "-t", "t", "BSpace")
        self.until(lambda text: text.count("Z") == drawn)


@pytest.fixture
def tmux(tmp_path: Path) -> Iterator[Tmux]:
    server = Tmux(tmp_path)
    yield server
    server("kill-server")


def started(project: Project, tmux: Tmux, url: str) -> None:
    environ = [f"{name}={value}" for name, value in project.environ(url).items()]
    command = ["env", "-C", str(project.cwd), *environ, sys.executable, "-m", "coder"]
    tmux("new-session", "-d", "-s", "t", "-x", "80", "-y", "24", f"{shlex.join(command)}; sleep 60")
    tmux.until("[default]")


def test_a_resize_leaves_no_ghosts_of_the_live_rows(project: Project, tmux: Tmux) -> None:
    draft = [f"d{at:02d}x" for at in range(40)]
    with ScriptedServer([{"text": "answered"}]) as server:
        started(project, tmux, server.url)
        tmux("send-keys", "-t", "t", "go", "Enter")
        tmux.until("answered")
        tmux("send-keys", "-t", "t", " ".join(draft))
        tmux.until(draft[-1])
        for columns, rows in ((50, 20), (100, 30), (60, 18), (80, 24)):
            tmux.resize(columns, rows)
        text = tmux.text()
    assert sorted(re.findall(r"d\d\dx", text.replace("\n  ", ""))) == draft
    assert text.count("[default]") == 1
    assert text.count("answered") == 1


def test_resizes_in_the_middle_of_a_stream(project: Project, tmux: Tmux) -> None:
    words = [f"w{at:04d}x" for at in range(300)]
    answer = " ".join(words[:200]) + "\n\n- " + "\n- ".join(words[200:])
    with ScriptedServer([{"text": answer, "delay": 0.01}]) as server:
        started(project, tmux, server.url)
        tmux("send-keys", "-t", "t", "go", "Enter")
        for seen, columns, rows in ((40, 50, 20), (120, 100, 30), (180, 60, 20), (240, 80, 24)):
            tmux.until(words[seen])
            tmux("resize-window", "-t", "t", "-x", str(columns), "-y", str(rows))
        tmux.until(words[-1])
        tmux.until("context: ")
        tmux("send-keys", "-t", "t", "/exit", "Enter")
        tmux.until("Session recorded")
        text = tmux.text()
    assert re.findall(r"w\d{4}x", text) == words


@pytest.mark.parametrize("hasty", [False, True])
def test_rows_that_a_low_screen_pushed_off_are_erased_when_they_come_back(
    project: Project, tmux: Tmux, hasty: bool
) -> None:
    lines = [f"n{at}x" for at in range(30)]
    command = f"printf '%s\\n' {' '.join(lines)}; sleep 60"
    script = [{"calls": [{"name": "bash", "arguments": {"command": command}}]}]
    with ScriptedServer(script) as server:
        started(project, tmux, server.url)
        tmux("send-keys", "-t", "t", "/yolo", "Enter")
        tmux.until("[yolo]")
        tmux("send-keys", "-t", "t", "go", "Enter")
        before = tmux.until(f"  │ {lines[-1]}\n")
        for rows in (5, 24, 4, 6, 24):
            tmux.resize(80, rows)
            if (
                not hasty
            ):  # the tail is hidden, and the row above the prompt short, until the size has settled
                tmux.until("esc stops")
        text = tmux.until(f"  │ {lines[-1]}\n")
    head, _, _ = before.partition(f"  │ {lines[-5]}\n")
    assert text.startswith(head)  # nothing of what stood above is gone
    if not hasty:
        assert re.findall(r"^  │ (n\d+x)$", text, re.MULTILINE) == lines[-5:]
        assert text.count("esc stops") == 1


def test_the_theme_follows_a_white_pane(project: Project, tmux: Tmux) -> None:
    """From when its answer is there: nothing waits for that."""
    with ScriptedServer([{"text": f"answer {n}."} for n in range(20)]) as server:
        tmux("new-session", "-d", "-s", "first", "sleep 60")
        tmux("set-option", "-g", "window-style", "bg=#ffffff")
        started(project, tmux, server.url)
        for n in range(20):
            tmux("send-keys", "-t", "t", f"what is {n}?", "Enter")
            tmux.until(f"answer {n}.")
            coloured = tmux("capture-pane", "-e", "-p", "-S", "-", "-t", "t")
            if re.search(rf"48[;:]5[;:]254m[^\n]*what is {n}\?", coloured):
                break
        else:
            pytest.fail(f"never light\n{coloured}")
    assert "rgb:" not in coloured
