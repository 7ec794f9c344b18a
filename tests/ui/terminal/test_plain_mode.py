"""The plain mode, `TERM=dumb` and pipes, where a terminal has less to offer; and the language of it all."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time

import pytest
from pty_kit import CTRL_C, CTRL_D, ESC, SECONDS, UP, Terminal, messages
from repl_kit import SIZES, WRITE, Gate, cancelled_line, many, says

from kit import ScriptedServer
from kit.calls import bash_step
from kit.driving import Project, left_running

SPINNER = re.compile("[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]|waiting for the model|esc stops")


@SIZES
def test_plain_has_no_live_rows_and_does_all_the_same(project: Project, columns: int, rows: int) -> None:
    project.configure(ui={"plain": True})
    gate = Gate(bash_step("echo hello; touch made"))
    script = [gate, {"text": "para one\n\npara two", "chunk": 3}, {"text": many(900), "delay": 0.02}]
    with (
        ScriptedServer(script) as server,
        Terminal(project, server.url, columns=columns, rows=rows, NO_COLOR="1") as terminal,
    ):
        terminal.until_idle()
        terminal.send("go")
        terminal.send("queued text")
        terminal.until("takes it back): queued text")
        terminal.type(UP)
        terminal.until(lambda: terminal.screen.endswith("> queued text"))
        terminal.type("\x15")
        # A question that meets a draft takes no answer for a moment.
        terminal.until(lambda: not terminal.screen.endswith("queued text"))
        gate.open()
        terminal.until(lambda: "Allow?" in terminal.screen)
        terminal.send("y")
        terminal.until("para two")
        terminal.until_idle()
        raw = terminal.raw.decode()
        assert raw.count("para one") == 1
        assert raw.count("│ hello") == 1
        assert (project.cwd / "made").exists()
        terminal.send("more")
        terminal.until(lambda: len(server.chats) == 3)
        terminal.type(ESC)
        terminal.until_idle()
        assert cancelled_line(terminal)
    assert not SPINNER.search(terminal.raw.decode())


@pytest.mark.thorough
@SIZES
def test_a_dumb_terminal_asks_cancels_and_says_the_same(project: Project, columns: int, rows: int) -> None:
    word = f"5{columns}{rows}.7"
    project.configure(budget={"max_usd": 2.0, "prices": {"scripted": {"input": 1.0}}})
    script = [WRITE, {"text": "understood"}, bash_step(f"echo up; sleep {word}"), {"text": "next"}]
    with (
        ScriptedServer(script) as server,
        Terminal(project, server.url, term="dumb", columns=columns, rows=rows) as terminal,
    ):
        terminal.until(lambda: terminal.screen.endswith(">"))
        assert terminal.text.startswith("coder · scripted")
        assert says(terminal, "tokens · model: scripted")
        terminal.type("go\n")
        terminal.until(lambda: says(terminal, "(a reason may follow):"))
        assert "+ hello" in terminal.text
        terminal.type("what?\n")
        terminal.until(lambda: says(terminal, "That is no answer: y allows it"))
        terminal.type("no, another name\n")
        terminal.until("understood")
        terminal.until(lambda: says(terminal, "· 0.0000 of 2.00 USD [default]"))
        assert "another name" in server.chats[-1]["messages"][-1]["content"]
        terminal.type("/yolo\n")
        terminal.until(lambda: "[yolo] " in terminal.text)
        terminal.type("again\n")
        terminal.until(lambda: bool(left_running(word)))
        terminal.type(CTRL_C)
        terminal.until(lambda: "\nCancelled: bash echo up" in terminal.text)
        terminal.until(lambda: terminal.screen.endswith(">"))
        assert not left_running(word)
        terminal.type(CTRL_D)
        assert terminal.ended() == 0
        assert "\nSession recorded; " in terminal.text
    assert b"\x1b" not in terminal.raw
    assert not (project.cwd / "new.txt").exists()


def test_a_pipe_in_and_a_terminal_out_is_one_turn(project: Project) -> None:
    """Nobody can be asked there: the question is refused, and the person told which flag would allow it."""
    ours, theirs = pty.openpty()
    with ScriptedServer([WRITE, {"text": "the answer"}]) as server:
        coder = subprocess.Popen(
            [sys.executable, "-m", "coder"],
            cwd=project.cwd,
            env=project.environ(server.url, TERM="xterm-256color"),
            stdin=subprocess.PIPE,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        coder.communicate(b"from a pipe", timeout=SECONDS)
        shown = read_all(ours)
        assert coder.returncode == 0
    os.close(ours)
    assert messages(server) == ["from a pipe"]
    assert "the answer" in shown
    assert "--mode auto-edit" in re.sub(r"(\x1b\[\d*m|\s)+", " ", shown)
    assert not (project.cwd / "new.txt").exists()


def read_all(fd: int) -> str:
    data, deadline = b"", time.monotonic() + SECONDS
    while time.monotonic() < deadline and select.select([fd], [], [], 1.0)[0]:
        try:
            data += os.read(fd, 65536)
        except OSError:  # the other end is closed
            break
    return data.decode()


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("lang", "lc_all", "args", "chinese"),
    [
        ("zh_CN.UTF-8", "", [], True),
        ("zh_CN.UTF-8", "", ["--lang", "en"], False),
        ("zh_TW.UTF-8", "en_GB.UTF-8", [], False),
        ("C.UTF-8", "", ["--lang", "zh"], True),
    ],
    ids=["locale", "flag-over-locale", "lc-all", "flag"],
)
def test_the_language(project: Project, lang: str, lc_all: str, args: list[str], chinese: bool) -> None:
    gate = Gate({"text": "hi"})
    with (
        ScriptedServer([gate]) as server,
        Terminal(project, server.url, *args, LANG=lang, LC_ALL=lc_all) as terminal,
    ):
        model = "个 token · 模型：" if chinese else " tokens · model: "
        terminal.until(lambda: f"{model}scripted\n[default] " in terminal.screen)
        terminal.send("go")
        terminal.until(lambda: says(terminal, "等待模型" if chinese else "waiting for the model"))
        gate.open()
        terminal.until("hi")
        terminal.send("/copy")
        terminal.until(lambda: says(terminal, "已复制 2 个字符" if chinese else "Copied 2 characters"))
        assert says(terminal, "会话" if chinese else "session ")
