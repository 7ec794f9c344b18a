"""Which keys answer a question: none that was pressed for something else; one question is asked at a time."""

from __future__ import annotations

import time
from typing import Any

import pytest
from pty_kit import CTRL_C, DOWN, ENTER, ESC, SECONDS, TAB, Terminal
from repl_kit import SIZES, WRITE, Gate, says, squeezed
from test_editor_external import script

from kit import ScriptedServer
from kit.driving import Project

MODE = "---\nkind: persistent\nvariables:\n  - name: topic\n---\nStay with {{topic}}.\n"


def approvals(project: Project) -> list[dict[str, Any]]:
    """What was recorded of questions and answers, those of subagents included."""
    events = [e["meta"]["event"] if e["type"] == "subagent" else e for e in project.events()]
    return [e["meta"] for e in events if e["type"] == "approval"]


def answers(project: Project) -> list[str]:
    return [meta["answer"] for meta in approvals(project) if "answer" in meta]


@SIZES
def test_a_form_keeps_the_keys_and_the_question_waits(project: Project, columns: int, rows: int) -> None:
    project.write(".coder/modes/focus.md", MODE)
    gate = Gate(WRITE)
    with (
        ScriptedServer([gate, {"text": "finished"}, {"text": "more"}]) as server,
        Terminal(project, server.url, columns=columns, rows=rows) as terminal,
    ):
        terminal.until_idle()
        terminal.send("/focus first")
        terminal.until(lambda: "Mode: focus" in terminal.screen.split("\n")[-1])
        terminal.send("go")
        terminal.until("esc stops")
        terminal.type("draft" + DOWN + TAB)
        terminal.until(lambda: "▸ topic  first" in terminal.screen)
        terminal.type("\x15y")
        terminal.until(lambda: "▸ topic  y" in terminal.screen)
        gate.open()
        terminal.until(lambda: says(terminal, "+hello"))
        terminal.until(lambda: "Leave the modes below to answer." in terminal.screen)
        terminal.type("es" + ENTER)  # for the form
        terminal.until(lambda: "▸ focus [topic=first]" in terminal.screen)
        assert "Allow?" not in terminal.screen
        terminal.type(ENTER)  # for the bar: edits the value in its place
        terminal.until(lambda: "▸ focus [topic=yes ]" in terminal.screen)
        terminal.type(ESC)
        terminal.until(lambda: "▸ focus [topic=first]" in terminal.screen)
        terminal.type(ESC)
        terminal.until(lambda: "Leave the modes" not in terminal.screen)
        terminal.type("y")  # by whoever cannot have read it yet: it is the draft's
        terminal.until(lambda: "> drafty" in terminal.screen)
        assert answers(project) == []
        assert not (project.cwd / "new.txt").exists()
        terminal.until(lambda: "Allow?" in terminal.screen)
        terminal.type("y")
        terminal.until("finished")
        terminal.until(lambda: "> drafty" in terminal.screen)  # what was being typed is back
        terminal.pump(0.8)  # an Enter right after the answer would belong to it
        terminal.type(ENTER)
        terminal.until("more")
    assert answers(project) == ["yes"]
    assert "Stay with yes." in server.chats[-1]["messages"][1]["content"]


def test_a_cancel_goes_through_a_form(project: Project) -> None:
    project.write(".coder/modes/focus.md", MODE)
    gate = Gate(WRITE)
    with ScriptedServer([gate, {"text": "never"}]) as server, Terminal(project, server.url) as terminal:
        terminal.until_idle()
        terminal.send("/focus first")
        terminal.until(lambda: "Mode: focus" in terminal.screen.split("\n")[-1])
        terminal.send("go")
        terminal.until("esc stops")
        terminal.type(DOWN + TAB)
        terminal.until(lambda: "▸ topic  first" in terminal.screen)
        gate.open()
        terminal.until("Leave the modes below to answer.")
        terminal.type(CTRL_C)
        terminal.until("Cancelled")
        terminal.until(lambda: "▸ topic  first" in terminal.screen)  # the form is still being filled in
        assert "Allow?" not in terminal.screen
    assert answers(project) == []
    assert not (project.cwd / "new.txt").exists()


def test_a_search_is_given_up_for_a_question(project: Project) -> None:
    """What it had found must not stand where the answer goes."""
    gate = Gate(WRITE)
    with (
        ScriptedServer([{"text": "one"}, gate, {"text": "finished"}]) as server,
        Terminal(project, server.url) as terminal,
    ):
        terminal.until_idle()
        terminal.send("yes")
        terminal.until("one")
        terminal.until_idle()
        terminal.send("go")
        terminal.until("esc stops")
        terminal.type("\x12ye")
        terminal.until(lambda: "> yes" in terminal.screen.split("\n")[-2])
        gate.open()
        terminal.until("A question is waiting")
        terminal.type("s")  # for the search
        terminal.until(lambda: "Allow?" in terminal.screen)
        assert terminal.screen.endswith("Allow?")
        assert answers(project) == []
        terminal.type("n" + ENTER)
        terminal.until("finished")
        terminal.until_idle()
    assert answers(project) == ["no"]


def test_what_an_editor_brings_back_is_the_draft_and_no_answer(project: Project) -> None:
    gate = Gate(WRITE)
    body = 'touch editing; while test ! -e saved; do sleep 0.05; done; printf "y" > "$1"'
    editor = script(project.home / "edit", body)
    with (
        ScriptedServer([gate, {"text": "finished"}]) as server,
        Terminal(project, server.url, EDITOR=editor) as terminal,
    ):
        terminal.until_idle()
        terminal.send("go")
        terminal.until("esc stops")
        terminal.type("draft\x18\x05")
        terminal.until((project.cwd / "editing").exists)
        gate.open()
        waiting = time.monotonic() + SECONDS
        while not approvals(project):
            assert time.monotonic() < waiting
            terminal.pump(0.05)
        project.write("saved", "")
        terminal.until(lambda: "Allow?" in terminal.screen)
        terminal.pump(0.2)
        assert terminal.screen.endswith("Allow?")
        terminal.type("n" + ENTER)
        terminal.until("finished")
        terminal.until(lambda: terminal.screen.endswith("> y"))
    assert answers(project) == ["no"]


class TestTwoTasksThatAskAtTheSameTime:
    """Each answer is to the question that stands above it, wherever it is asked."""

    @staticmethod
    def scripted(request: dict[str, Any]) -> dict[str, Any]:
        messages = request["messages"]
        if "You are a subagent" in messages[0]["content"]:
            if messages[-1]["role"] == "tool":
                return {"text": "done with it"}
            name = "one" if "make one" in str(messages) else "two"
            return {"calls": [{"name": "bash", "arguments": {"command": f"mkdir {name}"}}]}
        if messages[-1]["role"] == "tool":
            return {"text": "finished"}
        tasks = [{"agent": "general", "objective": f"make {name}"} for name in ("one", "two")]
        return {"calls": [{"name": "task", "arguments": arguments} for arguments in tasks]}

    @pytest.mark.parametrize("front", ["prompt", "lines", "once"])
    def test_one_after_the_other(self, project: Project, front: str) -> None:
        project.configure(permission={"tools": {"task": "allow"}})
        args = ("--once", "go") if front == "once" else ()
        term = "dumb" if front == "lines" else "xterm-256color"
        with (
            ScriptedServer([self.scripted] * 6) as server,
            Terminal(project, server.url, *args, term=term) as terminal,
        ):
            if front != "once":
                terminal.until_prompt()
                terminal.send("go")
            terminal.until("Allow?")
            waiting = time.monotonic() + SECONDS
            while len(approvals(project)) < 2:
                assert time.monotonic() < waiting
                terminal.pump(0.05)
            terminal.pump(0.1)
            assert terminal.text.count("needs your approval") == 1
            first, second = ("one", "two") if "mkdir one" in terminal.text else ("two", "one")
            terminal.send("y")
            terminal.until(lambda: terminal.text.count("needs your approval") == 2)
            terminal.until(f"mkdir {second}")
            terminal.until(lambda: terminal.text.rstrip().endswith((":", "Allow?")))
            terminal.send("n not that")
            terminal.until("finished")
        assert (project.cwd / first).exists()
        assert not (project.cwd / second).exists()
        assert answers(project) == ["yes", "no"]


def test_a_mode_s_command_is_asked_about_as_any_other(project: Project) -> None:
    directory = project.home / ".coder" / "modes"
    directory.mkdir(parents=True)
    (directory / "log.md").write_text("---\nkind: instant\n---\nThe log:\n!touch made\n", encoding="utf-8")
    with ScriptedServer([{"text": "finished"}]) as server, Terminal(project, server.url) as terminal:
        terminal.until_idle()
        terminal.send("/log")
        terminal.until(lambda: "Allow?" in terminal.screen)
        assert "bash needs your approval:\n│ touch made\ny yes" in terminal.screen
        assert "n no, because …" in terminal.screen
        terminal.send("y")
        terminal.until("finished")
    assert (project.cwd / "made").exists()


@SIZES
def test_a_question_longer_than_the_screen_says_again_what_it_is_about(
    project: Project, columns: int, rows: int
) -> None:
    lines = "".join(f"line {n}\n" for n in range(60))
    project.write("old.txt", "")
    changed = {"name": "write", "arguments": {"path": "old.txt", "content": lines}}
    new = {"name": "write", "arguments": {"path": "long.txt", "content": lines}}
    with (
        ScriptedServer([{"calls": [changed]}, {"calls": [new]}, WRITE, {"text": "finished"}]) as server,
        Terminal(project, server.url, columns=columns, rows=rows) as terminal,
    ):
        terminal.until_idle()
        terminal.send("go")
        terminal.until(lambda: "Allow?" in terminal.screen)
        assert says(terminal, "of 61 lines are on the screen; scroll up to read the rest")
        terminal.send("n")
        terminal.until(lambda: says(terminal, "d shows the whole file") and "Allow?" in terminal.screen)
        assert "long.txt +60" in terminal.screen  # the head and the size of a new one
        assert "line 0\n" in terminal.screen
        assert terminal.text.count("line 59\n") == 1
        terminal.send("n")
        terminal.until(lambda: terminal.text.count("needs your approval") == 3)
        terminal.until(lambda: "Allow?" in terminal.screen)
        assert squeezed(terminal.text).count("scrollup") == 1  # a short one is seen at a glance
        terminal.send("n")
        terminal.until("finished")
