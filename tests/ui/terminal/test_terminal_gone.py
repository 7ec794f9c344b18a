"""The terminal goes away in the middle of something: what runs is stopped, and the record is completed."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import sys

import pytest
from pty_kit import Terminal
from repl_kit import WRITE, many

from coder.engine.engine import Engine
from coder.engine.setup import Options, open_agent, provider_of, read_settings
from coder.protocol.events import AnyEvent, Content
from coder.ui.terminal.line_repl import LineRepl
from coder.ui.terminal.render.plain import PlainRenderer
from coder.ui.terminal.render.theme import Theme
from kit import ScriptedServer
from kit.calls import bash_step
from kit.driving import Project, left_running

WORD = "36.17"
PHASES = {
    "idle": ({"text": ""}, ""),
    "answer": ({"text": many(900), "delay": 0.02}, "word9"),
    "command": (bash_step(f"echo ready > f; echo ready; sleep {WORD} & sleep {WORD}"), ""),
    "question": (WRITE, "Allow?"),
}


@pytest.mark.parametrize("term", ["xterm", "dumb"])
@pytest.mark.parametrize("phase", PHASES)
def test_it_leaves_in_order(project: Project, phase: str, term: str) -> None:
    turn, seen = PHASES[phase]
    shell = ["--mode", "yolo"] if phase == "command" else []
    with ScriptedServer([turn]) as server, Terminal(project, server.url, *shell, term=term) as terminal:
        terminal.until(lambda: terminal.screen.endswith(">"))
        if phase != "idle":
            terminal.send("go")
            terminal.until(lambda: bool(left_running(WORD)) if phase == "command" else seen in terminal.text)
        assert terminal.close() == 0
    assert not left_running(WORD)
    if phase != "idle":
        assert [event["type"] for event in project.events()][-2:] == ["turn_end", "session_end"]


def test_a_line_terminal_that_is_told_to_end_does_so_with_its_command(project: Project) -> None:
    turn, _ = PHASES["command"]
    with (
        ScriptedServer([turn]) as server,
        Terminal(project, server.url, "--mode", "yolo", term="dumb") as terminal,
    ):
        terminal.until(lambda: terminal.screen.endswith(">"))
        terminal.send("go")
        terminal.until(lambda: bool(left_running(WORD)))
        os.kill(terminal.pid, signal.SIGTERM)
        assert terminal.ended() == 0
        assert "Cancelled" in terminal.text
    assert not left_running(WORD)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("what", ["editor", "pager", "command", "program"])
def test_it_ends_while_another_program_has_the_terminal(project: Project, what: str, number: int) -> None:
    """Also one that a SIGTERM is nothing to."""
    program = project.home / "program"
    program.write_text(f'#!/bin/sh\ntrap "" TERM\nsleep {WORD}\nsleep {WORD}\n', encoding="utf-8")
    program.chmod(0o755)
    keys = {"editor": "\x18\x05", "pager": "\x0f", "command": f"!sleep {WORD}\r", "program": f"!{program}\r"}
    own = {"EDITOR": str(program), "PAGER": str(program)}
    with ScriptedServer([{"text": "hi"}]) as server, Terminal(project, server.url, **own) as terminal:  # type: ignore[arg-type]
        terminal.until_idle()
        terminal.send("hello")
        terminal.until(lambda: "hi" in terminal.text)
        terminal.until_idle()
        terminal.type(keys[what])
        terminal.until(lambda: bool(left_running(WORD)))
        os.kill(terminal.pid, number)
        assert terminal.ended() == 0
    assert project.events()[-1]["type"] == "session_end"
    for pid in left_running(WORD):  # of the editor's own children nobody knows
        os.kill(pid, signal.SIGKILL)


def test_a_write_that_fails_before_the_signal_comes_ends_it_in_order(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Gone(PlainRenderer):
        def handle(self, event: AnyEvent) -> None:
            if isinstance(event, Content):
                raise OSError(errno.EIO, "Input/output error")
            super().handle(event)

    async def scenario(url: str) -> int:
        options = Options(cwd=project.cwd, environ=project.environ(url), session_kind="interactive")
        settings = read_settings(options)
        provider = provider_of(options, settings)
        engine = Engine(lambda emit: open_agent(options, settings, provider, emit))
        engine.start()
        view = Gone(sys.stdout, None, settings.texts, Theme("none"))
        return await LineRepl(options, settings, engine, view).run("go")

    reading, writing = os.pipe()
    turn, _ = PHASES["answer"]
    with (
        ScriptedServer([turn]) as server,
        os.fdopen(reading) as keyboard,
        (project.cwd / "screen").open("w", encoding="utf-8") as screen,
    ):
        monkeypatch.setattr(sys, "stdin", keyboard)
        monkeypatch.setattr(sys, "stdout", screen)
        assert asyncio.run(scenario(server.url)) == 0
    os.close(writing)
    assert [event["type"] for event in project.events()][-2:] == ["turn_end", "session_end"]
    assert project.of_type("turn_end")[0]["meta"]["status"] == "cancelled"
