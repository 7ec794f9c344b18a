"""What was typed before a question stood there is no answer to it; what was typed too early is not lost."""

from __future__ import annotations

import pytest
from pty_kit import Terminal, messages
from repl_kit import WRITE, Gate

from kit import ScriptedServer
from kit.driving import Project


def test_the_end_of_a_word_allows_nothing(project: Project) -> None:
    gate = Gate(WRITE)
    with ScriptedServer([gate, {"text": "second"}]) as server, Terminal(project, server.url) as terminal:
        terminal.until_idle()
        terminal.send("go")
        terminal.until("esc stops")
        terminal.type("tr")
        terminal.until(lambda: terminal.screen.endswith("> tr"))
        gate.open()
        terminal.until("A question is waiting")
        terminal.type("y")
        terminal.until(lambda: terminal.screen.endswith("> try"))
        assert not (project.cwd / "new.txt").exists()
        terminal.until(lambda: terminal.screen.endswith("Allow?"))  # after a pause
        terminal.type("y")
        terminal.until("second")
        terminal.until(lambda: terminal.screen.endswith("> try"))
    assert (project.cwd / "new.txt").exists()


def test_nor_does_a_paste_that_has_not_ended(project: Project) -> None:
    gate = Gate(WRITE)
    with ScriptedServer([gate, {"text": "second"}]) as server, Terminal(project, server.url) as terminal:
        terminal.until_idle()
        terminal.send("go")
        terminal.until("esc stops")
        terminal.type("\x1b[200~yes, ")
        terminal.pump(0.1)
        gate.open()
        terminal.until("A question is waiting")
        terminal.type("but\x1b[201~")
        terminal.until(lambda: terminal.screen.endswith("> yes, but"))
        terminal.until(lambda: terminal.screen.endswith("Allow?"))  # after a pause
        terminal.type("y")
        terminal.until("second")
        terminal.until(lambda: terminal.screen.endswith("> yes, but"))


def test_nor_does_a_line_in_a_terminal_of_lines(project: Project) -> None:
    gate = Gate(WRITE)
    script = [gate, {"text": "second"}, {"text": "third"}]
    with ScriptedServer(script) as server, Terminal(project, server.url, term="dumb") as terminal:
        terminal.until(lambda: terminal.screen.endswith(">"))
        terminal.send("go")
        terminal.until(lambda: len(server.chats) == 1)
        terminal.type("y\n")
        terminal.until(lambda: terminal.text.endswith("\ny"))
        gate.open()
        terminal.until("Allow?")
        terminal.pump(0.2)
        assert not (project.cwd / "new.txt").exists()
        terminal.type("n\n")
        terminal.until("third")  # the line was the next message
    assert messages(server)[-1] == "y"
    assert not (project.cwd / "new.txt").exists()


@pytest.mark.parametrize(("typed", "sent"), [("early\r", True), ("one\rtwo\r", False)], ids=["line", "lines"])
def test_a_line_that_was_typed_while_we_started_is_sent(project: Project, typed: str, sent: bool) -> None:
    """More than one may be a paste."""
    with (
        ScriptedServer([{"text": "answered"}]) as server,
        Terminal(project, server.url, typed=typed) as terminal,
    ):
        terminal.until("answered" if sent else "> one\n  two")
        assert len(server.chats) == sent
        if sent:
            assert messages(server) == ["early"]
