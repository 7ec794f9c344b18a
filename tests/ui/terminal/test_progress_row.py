"""`--once` on a terminal says what it waits for, in a row that is gone when something else is written."""

from __future__ import annotations

import pytest
from pty_kit import Terminal
from repl_kit import Gate

from kit import ScriptedServer
from kit.driving import Project


@pytest.mark.parametrize(("lang", "waiting"), [("en", "waiting for the model · "), ("zh", "等待模型 · ")])
def test_a_silent_model_is_waited_for_in_sight(project: Project, lang: str, waiting: str) -> None:
    look, answer = (
        Gate({"calls": [{"name": "bash", "arguments": {"command": "until [ -e go ]; do sleep 0.1; done"}}]}),
        Gate({"text": "so"}),
    )
    with (
        ScriptedServer([look, answer]) as server,
        Terminal(project, server.url, "--mode", "yolo", "--lang", lang, "--once", "go") as terminal,
    ):
        terminal.until(lambda: waiting in terminal.screen and "ctrl+c" in terminal.screen)
        look.open()
        terminal.until(lambda: "until [ -e go" in terminal.screen and "✓" not in terminal.screen)
        assert waiting not in terminal.text
        project.write("go", "")
        terminal.until(lambda: "✓ run" in terminal.screen and waiting in terminal.screen)
        answer.open()
        assert terminal.ended() == 0
        assert "\n\nso\n" in terminal.text
        assert waiting not in terminal.text
        assert "ctrl+c" not in terminal.text


def test_a_chatty_command_runs_in_sight(project: Project) -> None:
    """Its output is shown at its end: until then nothing is written that the row would have to go for."""
    chatty = {"name": "bash", "arguments": {"command": "until [ -e go ]; do echo tick; sleep 0.02; done"}}
    with (
        ScriptedServer([{"calls": [chatty]}, {"text": "so"}]) as server,
        Terminal(project, server.url, "--mode", "yolo", "--once", "go") as terminal,
    ):
        terminal.until(lambda: "running until [ -e go" in terminal.screen)
        project.write("go", "")
        assert terminal.ended() == 0
        assert "│ tick" in terminal.text
        assert "ctrl+c" not in terminal.text


def test_no_row_at_a_question_nor_on_a_dumb_terminal(project: Project) -> None:
    ask = {"calls": [{"name": "bash", "arguments": {"command": "touch made"}}]}
    gate = Gate({"text": "so"})
    with (
        ScriptedServer([ask, gate]) as server,
        Terminal(project, server.url, "--once", "go") as terminal,
    ):
        terminal.until("Allow?")
        terminal.pump(1.5)
        assert "ctrl+c" not in terminal.text
        terminal.send("y")
        terminal.until("waiting for the model")
        gate.open()
        assert terminal.ended() == 0
    silent = Gate({"text": "so"})
    with (
        ScriptedServer([silent]) as server,
        Terminal(project, server.url, "--once", "go", term="dumb") as terminal,
    ):
        terminal.until(lambda: len(server.chats) == 1)
        terminal.pump(1.5)
        silent.open()
        assert terminal.ended() == 0
        assert b"waiting for" not in terminal.raw


def test_ctrl_c_at_the_question_ends_its_line(project: Project) -> None:
    long = {"name": "bash", "arguments": {"command": "touch " + " ".join(f"name{n}" for n in range(40))}}
    with (
        ScriptedServer([{"calls": [long]}, {"text": "done"}]) as server,
        Terminal(project, server.url, "--once", "go") as terminal,
    ):
        terminal.until("may follow) / [a]lways, then Enter:")
        terminal.type("yy\x03")
        assert terminal.ended() == 130
        (row,) = [row for row in terminal.text.split("\n") if "✗ run" in row]
    assert row.startswith("✗ run touch name0 ")
    assert "… · " in row  # shortened, not broken inside a word
