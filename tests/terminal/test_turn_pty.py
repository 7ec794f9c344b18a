"""A turn seen from the prompt: tools, approvals, cancel, the queue."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from pty_kit import CTRL_C, ENTER, ESC, UP, Terminal, messages

from kit import ScriptedServer
from kit.driving import Project


def bash(command: str) -> dict[str, Any]:
    return {"calls": [{"name": "bash", "arguments": {"command": command}}]}


def many(count: int) -> str:
    return " ".join(f"word{at}" for at in range(count))


WRITE = {"calls": [{"name": "write", "arguments": {"path": "new.txt", "content": "hello\n"}}]}


def test_a_tool_line_has_tool_argument_result_and_time_and_the_diff_is_coloured(project: Project) -> None:
    script = [WRITE, bash("sleep 0.3; echo out"), {"text": "done"}]
    with ScriptedServer(script) as server, Terminal(project, server.url, "--mode", "yolo") as terminal:
        terminal.until_idle()
        terminal.send("go")
        terminal.until("done")
        terminal.until_idle()
        assert "✓ write new.txt" in terminal.text
        assert "✓ bash sleep 0.3; echo out → exit 0 · 0." in terminal.text
        assert b"\x1b[32m+hello" in terminal.raw


def test_the_tail_of_a_running_command_is_live(project: Project) -> None:
    script = [bash("for i in $(seq 30); do echo line$i; done; sleep 30"), {"text": "done"}]
    with ScriptedServer(script) as server, Terminal(project, server.url, "--mode", "yolo") as terminal:
        terminal.until_idle()
        terminal.send("go")
        terminal.until("line30")
        assert "line26" in terminal.screen
        assert "line25" not in terminal.text
        assert "Esc stops it" in terminal.screen
        terminal.type(ESC)
        terminal.until("Cancelled")


@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (40, 10), (200, 50)])
def test_an_approval_shows_command_and_reasons_and_takes_yes(
    project: Project, columns: int, rows: int
) -> None:
    script = [bash("touch made"), {"text": "finished"}]
    with (
        ScriptedServer(script) as server,
        Terminal(project, server.url, columns=columns, rows=rows) as terminal,
    ):
        terminal.until_idle()
        terminal.send("go")
        terminal.until("[a]lways")
        assert "touch made" in terminal.text
        assert "because: " in terminal.text
        assert not (project.cwd / "made").exists()
        terminal.send("maybe")
        terminal.until(lambda: "maybe" in terminal.screen)
        assert not (project.cwd / "made").exists()
        terminal.type("\x15")
        terminal.send("y")
        terminal.until("finished")
        terminal.until_idle()
        assert (project.cwd / "made").exists()


def test_no_with_a_reason_reaches_the_model(project: Project) -> None:
    with ScriptedServer([WRITE, {"text": "understood"}]) as server, Terminal(project, server.url) as terminal:
        terminal.until_idle()
        terminal.send("go")
        terminal.until("Allow?")
        assert "+hello" in terminal.text
        terminal.send("n use another name")
        terminal.until("understood")
        terminal.until_idle()
    assert "use another name" in server.chats[-1]["messages"][-1]["content"]
    assert not (project.cwd / "new.txt").exists()


def test_always_is_remembered_and_not_offered_for_a_danger(project: Project) -> None:
    script = [bash("touch a"), bash("touch b"), bash("rm a"), {"text": "finished"}]
    with ScriptedServer(script) as server, Terminal(project, server.url) as terminal:
        terminal.until_idle()
        terminal.send("go")
        terminal.until("[a]lways")
        terminal.send("always")
        terminal.until("rm a")
        terminal.until(lambda: "Allow?" in terminal.screen)
        assert (project.cwd / "b").exists()
        assert "[a]lways" not in terminal.screen.split("rm a")[-1]
        terminal.send("always")
        terminal.pump(0.3)
        assert (project.cwd / "a").exists()
        terminal.type("\x15")
        terminal.send("n")
        terminal.until("finished")


def test_escape_at_an_approval_cancels_the_turn_and_gives_the_draft_back(project: Project) -> None:
    script = [{"text": "wait", "delay": 0.2, "chunk": 1, **WRITE}, {"text": "never"}]
    with ScriptedServer(script) as server, Terminal(project, server.url) as terminal:
        terminal.until_idle()
        terminal.send("go")
        terminal.type("my draft")
        terminal.until("Allow?")
        assert "my draft" not in terminal.screen
        terminal.type(ESC)
        terminal.until("Cancelled")
        terminal.until(lambda: "> my draft" in terminal.screen)
        assert not (project.cwd / "new.txt").exists()


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").split()[2] != "Z"


@pytest.mark.parametrize("key", [ESC, CTRL_C], ids=["esc", "ctrl-c"])
def test_a_cancel_stops_the_whole_process_group_and_says_what(project: Project, key: str) -> None:
    project.configure(sandbox={"mode": "off"})  # inside one the number of a process is another
    script = [bash("sleep 300 & echo $! > pid; echo ready; wait"), {"text": "never"}, {"text": "next"}]
    with ScriptedServer(script) as server, Terminal(project, server.url, "--mode", "yolo") as terminal:
        terminal.until_idle()
        terminal.send("go")
        terminal.until(lambda: (project.cwd / "pid").exists() and "\n  ready" in terminal.screen)
        pid = int((project.cwd / "pid").read_text(encoding="utf-8"))
        assert alive(pid)
        terminal.type(key)
        terminal.until("Cancelled")
        terminal.until_idle()
        assert not alive(pid)
        line = next(line for line in terminal.text.split("\n") if line.startswith("Cancelled"))
        assert "bash" in line
        assert "never" not in terminal.text


def test_a_cancel_in_the_middle_of_a_stream_keeps_what_was_said(project: Project) -> None:
    with (
        ScriptedServer([{"text": many(500), "delay": 0.01}, {"text": "second"}]) as server,
        Terminal(project, server.url) as terminal,
    ):
        terminal.until_idle()
        terminal.send("go")
        terminal.until("word3 word4")
        terminal.type(ESC)
        terminal.until("Cancelled")
        terminal.until_idle()
        assert "word3 word4" in terminal.text
        terminal.send("again")
        terminal.until("second")


def test_what_is_typed_during_a_turn_is_queued_and_sent_joined(project: Project) -> None:
    script = [{"text": "slow", "delay": 0.4, "chunk": 1}, {"text": "both"}]
    with ScriptedServer(script) as server, Terminal(project, server.url) as terminal:
        terminal.until_idle()
        terminal.send("first")
        terminal.until("Esc stops it")
        terminal.send("second")
        terminal.until("queued (Up takes it back): second")
        terminal.send("thrid")
        terminal.until("takes it back): thrid")
        terminal.type(UP)
        terminal.until(lambda: "> thrid" in terminal.screen and "back): thrid" not in terminal.screen)
        terminal.type("\x7f" * 3 + "ird" + ENTER)
        terminal.until("both")
        terminal.until_idle()
        assert messages(server)[-1] == "second\n\nthird"
        assert len(server.chats) == 2


def test_a_cancel_gives_the_queue_back_to_the_editor(project: Project) -> None:
    with (
        ScriptedServer([{"text": many(300), "delay": 0.05}, {"text": "ok"}]) as server,
        Terminal(project, server.url) as terminal,
    ):
        terminal.until_idle()
        terminal.send("first")
        terminal.until("word3")
        terminal.send("queued one")
        terminal.until("takes it back): queued one")
        terminal.type("typing")
        terminal.until("> typing")
        terminal.type(ESC)
        terminal.until("Cancelled")
        terminal.until(lambda: "> queued one" in terminal.screen and "typing" in terminal.screen)
        assert len(server.chats) == 1
        terminal.type(ENTER)
        terminal.until(lambda: len(server.chats) == 2)
        assert messages(server)[-1] == "queued one\n\ntyping"


def test_queued_commands_are_run_by_themselves(project: Project) -> None:
    script = [{"text": "slow", "delay": 0.3, "chunk": 1}, {"text": "after"}]
    with ScriptedServer(script) as server, Terminal(project, server.url) as terminal:
        terminal.until_idle()
        terminal.send("first")
        terminal.until("Esc stops it")
        terminal.send("!echo shell$((1+1))")
        terminal.until("takes it back): !echo")
        terminal.send("then this")
        terminal.until("shell2")
        terminal.until("after")
        assert messages(server)[-1] == "then this"


def test_todos_are_shown_when_they_change(project: Project) -> None:
    todos = [{"content": "write it", "status": "completed"}, {"content": "test it", "status": "in_progress"}]
    script = [{"calls": [{"name": "todowrite", "arguments": {"todos": todos}}]}, {"text": "done"}]
    with ScriptedServer(script) as server, Terminal(project, server.url) as terminal:
        terminal.until_idle()
        terminal.send("go")
        terminal.until("☑ write it\n  ▸ test it")


def test_escapes_of_a_command_are_inert_live_and_in_scrollback(project: Project) -> None:
    script = [bash(r"printf '\033]2;owned\007\033[2Jshown\n'; sleep 0.3"), {"text": "done"}]
    with ScriptedServer(script) as server, Terminal(project, server.url, "--mode", "yolo") as terminal:
        terminal.until_idle()
        terminal.send("go")
        terminal.until("done")
        terminal.until_idle()
        assert "␛[2Jshown" in terminal.text
        assert "owned" not in "".join(terminal.paper.titles)


def test_the_title_says_that_something_runs(project: Project) -> None:
    with ScriptedServer([{"text": "hi"}]) as server, Terminal(project, server.url) as terminal:
        terminal.until_idle()
        terminal.send("go")
        terminal.until("hi")
        terminal.until_idle()
        assert terminal.paper.titles[-1] == "coder · project"
        assert "● coder · project" in terminal.paper.titles


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
