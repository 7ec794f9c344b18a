"""A turn seen from the prompt: tool calls with their results, what is live, todos, drafts and the queue."""

from __future__ import annotations

import re

import pytest
from pty_kit import CTRL_C, ESC, Terminal, messages
from repl_kit import SIZES, WRITE, Gate, many, says

from kit import ScriptedServer
from kit.calls import bash_step
from kit.driving import Project

TODOS = [{"content": "write it", "status": "completed"}, {"content": "test it", "status": "in_progress"}]


@pytest.mark.thorough
@SIZES
def test_tool_calls_are_one_line_each_with_diff_output_or_todos_below(
    project: Project, columns: int, rows: int
) -> None:
    script = [
        {"reasoning": "I think.", "calls": [{"name": "todowrite", "arguments": {"todos": TODOS}}]},
        WRITE,
        bash_step("sleep 0.3; echo out"),
        bash_step("exit 3"),
        {"text": "done"},
    ]
    with (
        ScriptedServer(script) as server,
        Terminal(project, server.url, "--mode", "yolo", columns=columns, rows=rows) as terminal,
    ):
        terminal.until_idle()
        terminal.send("go")
        terminal.until("\ndone\n")
        terminal.until_idle()
        assert "\n  I think.\n" in terminal.text
        assert "\n  ☑ write it\n  ▸ test it\n" in terminal.text
        assert "\n✓ write new.txt" in terminal.text
        assert "\n  1 + hello\n" in terminal.text
        assert b"48;5;22mhello" in terminal.raw  # tinted
        command = r"sleep 0\.3; ech.*…" if columns == 40 else r"sleep 0\.3; echo out"  # one row, always
        assert re.search(rf"\n✓ run {command} · exit 0 · \d+\.\ds\n", terminal.text)
        assert "\n  │ out\n" in terminal.text
        assert "\n✗ run exit 3 · exit 3" in terminal.text


@SIZES
def test_the_tail_of_a_running_command_is_live(project: Project, columns: int, rows: int) -> None:
    script = [bash_step("for i in $(seq 30); do echo line$i; done; sleep 30")]
    with (
        ScriptedServer(script) as server,
        Terminal(project, server.url, "--mode", "yolo", columns=columns, rows=rows) as terminal,
    ):
        terminal.until_idle()
        terminal.send("go")
        terminal.until("line30")
        assert "line27\n" in terminal.screen
        assert "line25\n" not in terminal.text
        assert "esc stops" in terminal.screen
        terminal.type(ESC)
        terminal.until("Cancelled")


def test_escape_at_an_approval_cancels_the_turn_and_gives_the_draft_back(project: Project) -> None:
    gate = Gate(WRITE)
    with ScriptedServer([gate]) as server, Terminal(project, server.url) as terminal:
        terminal.until_idle()
        terminal.send("go")
        terminal.type("my draft")
        terminal.until(lambda: terminal.screen.endswith("> my draft"))
        gate.open()
        terminal.until("Allow?")
        assert "my draft" not in terminal.screen
        terminal.type(ESC)
        terminal.until("Cancelled")
        terminal.until(lambda: terminal.screen.endswith("> my draft"))
        assert not (project.cwd / "new.txt").exists()


def test_queued_commands_are_run_by_themselves(project: Project) -> None:
    gate = Gate({"text": "slow"})
    with ScriptedServer([gate, {"text": "after"}]) as server, Terminal(project, server.url) as terminal:
        terminal.until_idle()
        terminal.send("first")
        terminal.until("esc stops")
        terminal.send("!echo shell$((1+1))")
        terminal.until("takes it back): !echo")
        terminal.send("then this")
        terminal.until("takes it back): then this")
        gate.open()
        terminal.until("shell2")
        terminal.until("after")
        assert messages(server)[-1] == "then this"


def test_escapes_of_a_command_are_inert_live_and_in_scrollback(project: Project) -> None:
    wait = "while [ ! -e seen ]; do sleep 0.02; done"
    script = [bash_step(rf"printf '\033]2;owned\007\033[2Jshown\n'; {wait}"), {"text": "done"}]
    with ScriptedServer(script) as server, Terminal(project, server.url, "--mode", "yolo") as terminal:
        terminal.until_idle()
        terminal.send("go")
        terminal.until(lambda: "␛[2Jshown" in terminal.screen)
        project.write("seen", "")
        terminal.until("done")
        terminal.until_idle()
        assert "\n  │ ␛]2;owned\\x07␛[2Jshown\n" in terminal.text
        assert "owned" not in "".join(terminal.paper.titles)


def test_keys_are_taken_while_ten_thousand_events_arrive(project: Project) -> None:
    answer = "\n\n".join(f"paragraph {at}" for at in range(4000))
    with (
        ScriptedServer([{"text": answer, "chunk": 4, "delay": 0.0002}]) as server,
        Terminal(project, server.url) as terminal,
    ):
        terminal.until_idle()
        terminal.send("go")
        terminal.until("paragraph 50")
        terminal.type("typed meanwhile")
        terminal.until(lambda: "> typed meanwhile" in terminal.screen)
        assert "paragraph 3999" not in terminal.text
        terminal.type(ESC)
        terminal.until("Cancelled")
        assert "paragraph 3999" not in terminal.text


@pytest.mark.thorough
@SIZES
def test_a_message_that_is_too_long_goes_back_to_the_editor(
    project: Project, columns: int, rows: int
) -> None:
    project.configure(runtime={"context_window": 9_000})
    with (
        ScriptedServer([{"text": "short enough"}]) as server,
        Terminal(project, server.url, columns=columns, rows=rows) as terminal,
    ):
        terminal.until_idle()
        terminal.paste(f"{many(6_000)}\nwhat is this?")
        terminal.send("")
        terminal.until(lambda: says(terminal, "not part of the conversation"))
        terminal.until(lambda: says(terminal, "project> [pasted 2 lines]"))  # folded as it was
        assert server.chats == []
        terminal.type(CTRL_C)
        terminal.until_idle()
        terminal.send("hello")
        terminal.until("short enough")
        terminal.until_idle()
    assert messages(server)[-1].startswith("hello")
