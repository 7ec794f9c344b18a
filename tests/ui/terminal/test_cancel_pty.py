"""Esc and Ctrl+C: whatever runs is stopped, all of it, and a line says what it was."""

from __future__ import annotations

import pytest
from pty_kit import CTRL_C, ENTER, ESC, Terminal, messages
from repl_kit import SIZES, Gate, cancelled_line, checked_by, many, squeezed

from kit import ScriptedServer
from kit.calls import bash_step
from kit.driving import Project, left_running

KEYS = pytest.mark.parametrize("key", [ESC, CTRL_C], ids=["esc", "ctrl-c"])
JAVA = {"calls": [{"name": "write", "arguments": {"path": "A.java", "content": "class A {}\n"}}]}


@SIZES
@KEYS
def test_a_running_command_and_all_its_children(project: Project, key: str, columns: int, rows: int) -> None:
    word = f"3{columns}{rows}.{ord(key)}"  # an odd number of seconds, to know our sleepers by
    command = f"sleep {word} & (sleep {word} & sleep {word}) & echo ready; wait"
    with (
        ScriptedServer([bash_step(command), {"text": "after"}]) as server,
        Terminal(project, server.url, "--mode", "yolo", columns=columns, rows=rows) as terminal,
    ):
        terminal.until_idle()
        terminal.send("go")
        terminal.until(lambda: "\n  │ ready" in terminal.screen and len(left_running(word)) == 3)
        terminal.type(key)
        terminal.until_idle()
        assert squeezed(cancelled_line(terminal)).startswith(squeezed(f"Cancelled: bash sleep {word}"))
        assert not left_running(word)
        assert len(server.chats) == 1
        terminal.send("again")
        terminal.until("after")
        terminal.until_idle()
    assert messages(server)[-1] == "again"


@SIZES
def test_a_running_check(project: Project, columns: int, rows: int) -> None:
    word = f"4{columns}{rows}.7"
    checked_by(project, f"echo checking\nsleep {word} & sleep {word}")
    with (
        ScriptedServer([JAVA, {"text": "done"}, {"text": "never"}]) as server,
        Terminal(project, server.url, "--mode", "auto-edit", columns=columns, rows=rows) as terminal,
    ):
        terminal.until_idle()
        terminal.send("go")
        terminal.until(lambda: "\n  │ checking" in terminal.screen and len(left_running(word)) == 2)
        assert "./gradlew test" in terminal.screen
        terminal.type(ESC)
        terminal.until_idle()
        assert squeezed(cancelled_line(terminal)) == squeezed(
            "Cancelled: verification (./gradlew test) was stopped."
        )
        assert not left_running(word)
        assert len(server.chats) == 2


@SIZES
def test_an_answer_that_streams(project: Project, columns: int, rows: int) -> None:
    script = [{"text": many(900), "delay": 0.02}, {"text": "second answer"}]
    with (
        ScriptedServer(script) as server,
        Terminal(project, server.url, columns=columns, rows=rows) as terminal,
    ):
        terminal.until_idle()
        terminal.send("go")
        terminal.until("word9")
        terminal.type(ESC)
        terminal.until_idle()
        assert squeezed(cancelled_line(terminal)) == squeezed("Cancelled: the model's answer was stopped.")
        assert "word9" in terminal.text  # what was said stays
        assert "word899" not in terminal.text
        terminal.send("again")
        terminal.until("second answer")


def test_a_command_of_the_person_s_own(project: Project) -> None:
    word = "355.7"
    with ScriptedServer([]) as server, Terminal(project, server.url) as terminal:
        terminal.until_idle()
        terminal.send(f"!sleep {word}")
        terminal.until(lambda: bool(left_running(word)))
        terminal.type(ESC)
        terminal.until_idle()
        assert f"!sleep {word}" in cancelled_line(terminal)
        assert not left_running(word)


def test_it_is_said_in_chinese(project: Project) -> None:
    script = [{"text": many(900), "delay": 0.02}]
    with ScriptedServer(script) as server, Terminal(project, server.url, "--lang", "zh") as terminal:
        terminal.until_idle()
        terminal.send("开始")
        terminal.until("word9")
        terminal.type(ESC)
        terminal.until_idle()
        assert cancelled_line(terminal).startswith("已取消")
        assert "Cancelled" not in terminal.text


@SIZES
def test_the_queue_is_shown_taken_back_sent_joined_and_given_back(
    project: Project, columns: int, rows: int
) -> None:
    gate = Gate({"text": "first answer"})
    script = [gate, {"text": many(900), "delay": 0.02}, {"text": "third"}, {"text": "fourth"}]
    with (
        ScriptedServer(script) as server,
        Terminal(project, server.url, columns=columns, rows=rows) as terminal,
    ):
        terminal.until_idle()
        terminal.send("first")
        terminal.until(lambda: "esc stops" in terminal.screen)
        terminal.send("one")
        terminal.until(lambda: "takes it back): one" in terminal.screen)
        terminal.send("twoo")
        terminal.until(lambda: "takes it back): twoo" in terminal.screen)
        terminal.type("\x1b[A")
        terminal.until(lambda: terminal.screen.endswith("> twoo") and "back): twoo" not in terminal.screen)
        terminal.until(lambda: len(server.chats) == 1)
        terminal.type("\x7f" + ENTER)
        terminal.until(lambda: "takes it back): two" in terminal.screen)
        gate.open()
        terminal.until(lambda: len(server.chats) == 2)
        assert messages(server)[-1] == "one\n\ntwo"
        terminal.until("word9")
        terminal.send("held")
        terminal.until(lambda: "takes it back): held" in terminal.screen)
        terminal.type("draft")
        terminal.until(lambda: terminal.screen.endswith("> draft"))
        terminal.type(ESC)
        terminal.until(lambda: terminal.text.count("Cancelled") == 1 and "context: " in terminal.screen)
        terminal.until(lambda: "back): held" in terminal.screen and terminal.screen.endswith("> draft"))
        terminal.type(ENTER)
        terminal.until(lambda: len(server.chats) == 4)
    assert [chat["messages"][-1]["content"] for chat in server.chats[2:]] == ["draft", "held"]


def test_a_question_that_is_left_says_that_its_call_was_not_run(project: Project) -> None:
    with ScriptedServer([bash_step("touch made")]) as server, Terminal(project, server.url) as terminal:
        terminal.until_idle()
        terminal.send("go")
        terminal.until(lambda: "Allow?" in terminal.screen)
        terminal.type(CTRL_C)
        terminal.until("the question about bash (which was not run) was stopped.")
    assert not (project.cwd / "made").exists()
