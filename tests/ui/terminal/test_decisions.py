"""One key decides a question; no other key is an answer."""

from __future__ import annotations

import shutil
from typing import Any

import pytest
from pty_kit import BACKSPACE, ENTER, ESC, Terminal
from repl_kit import WRITE, says
from test_approval_focus import answers

from kit import ScriptedServer
from kit.calls import bash_step, call
from kit.driving import Project

SCREENS = pytest.mark.parametrize(
    ("columns", "rows", "lang"),
    [(80, 24, "en"), (44, 20, "zh"), (44, 20, "en"), (200, 50, "zh")],
    ids=["80x24 en", "44x20 zh", "44x20 en", "200x50 zh"],
)
ASKED = {"en": "Allow?", "zh": "允许吗？"}
DONE = {"text": "finished"}
OLD = "".join(f"line {n}\n" for n in range(1, 31))
NEW = OLD.replace("line 3\n", "third\n").replace("line 15\n", "middle\n").replace("line 28\n", "last\n")


def edit(path: str, old: str, new: str) -> dict[str, Any]:
    return {"calls": [{"name": "edit", "arguments": {"path": path, "old_string": old, "new_string": new}}]}


def rewrite(project: Project) -> list[dict[str, Any]]:
    """A change of three hunks, to a file that the model has read."""
    project.write("a.txt", OLD)
    read = {"calls": [{"name": "read", "arguments": {"path": "a.txt"}}]}
    return [read, {"calls": [{"name": "write", "arguments": {"path": "a.txt", "content": NEW}}]}, DONE]


def asked(terminal: Terminal, lang: str = "en") -> None:
    """Wait for the question, and for as long as a person needs at least to see it."""
    terminal.until(lambda: terminal.screen.endswith(ASKED[lang].strip()))
    terminal.pump(0.4)


def last_result(server: ScriptedServer) -> str:
    return str(server.chats[-1]["messages"][-1]["content"])


@pytest.mark.thorough
@SCREENS
def test_one_key_acts_at_once(project: Project, columns: int, rows: int, lang: str) -> None:
    steps = [bash_step("touch one"), bash_step("touch two"), bash_step("mkdir three"), DONE]
    with (
        ScriptedServer(steps) as server,
        Terminal(project, server.url, "--lang", lang, columns=columns, rows=rows) as terminal,
    ):
        terminal.until_idle()
        terminal.send("go")
        asked(terminal, lang)
        grants = {"en": "a always `touch` in this project", "zh": "a 在此项目中总是允许 `touch`"}
        assert says(terminal, grants[lang])
        terminal.type("y")
        terminal.until(lambda: "touch two" in terminal.text)
        asked(terminal, lang)
        assert (project.cwd / "one").exists()
        terminal.type("a")
        terminal.until(lambda: "mkdir three" in terminal.text)
        asked(terminal, lang)
        assert says(terminal, {"en": "→ always allowed: `touch`", "zh": "→ 总是允许：`touch`"}[lang])
        assert (project.cwd / "two").exists()
        terminal.type("n")
        terminal.until(lambda: {"en": "No, because …", "zh": "否，因为…"}[lang] in terminal.screen)
        terminal.type(ENTER)
        terminal.until("finished")
        terminal.until_idle()
    assert not (project.cwd / "three").exists()
    assert last_result(server) == "denied: the person refused this call"
    assert [e["meta"]["answer"] for e in project.of_type("approval") if e["meta"].get("answer")] == [
        "yes",
        "always",
        "no",
    ]


def test_a_no_takes_its_reason_and_can_be_taken_back(project: Project) -> None:
    with (
        ScriptedServer([bash_step("touch one"), DONE]) as server,
        Terminal(project, server.url) as terminal,
    ):
        terminal.until_idle()
        terminal.send("go")
        asked(terminal)
        terminal.type("n")
        terminal.until(lambda: "No, because …" in terminal.screen)
        terminal.type(BACKSPACE)
        asked(terminal)
        terminal.type("n")
        terminal.until(lambda: "No, because …" in terminal.screen)
        terminal.type("yes is not what I say" + ENTER)
        terminal.until("finished")
    refused = "denied: the person refused this call: yes is not what I say"
    assert last_result(server).startswith(f"{refused}\n")
    assert not (project.cwd / "one").exists()


@pytest.mark.parametrize("word", ["yes", "y", "always"])
def test_the_rest_of_a_word_and_its_enter_go_nowhere(project: Project, word: str) -> None:
    """Not even where a draft waits, which that Enter would send."""
    with (
        ScriptedServer([bash_step("touch one"), DONE, {"text": "more"}]) as server,
        Terminal(project, server.url) as terminal,
    ):
        terminal.until_idle()
        terminal.send("go")
        asked(terminal)
        for key in (*word, ENTER):
            terminal.type(key)
            terminal.pump(0.02)
        terminal.until("finished")
        terminal.until_idle()
        assert terminal.prompt.rstrip().endswith(">")
        assert len(server.chats) == 2
    assert (project.cwd / "one").exists()


def test_letters_that_turn_out_to_be_a_message_are_kept(project: Project) -> None:
    with (
        ScriptedServer([bash_step("touch one"), DONE, {"text": "more"}]) as server,
        Terminal(project, server.url) as terminal,
    ):
        terminal.until_idle()
        terminal.send("go")
        asked(terminal)
        for key in "yeast":
            terminal.type(key)
            terminal.pump(0.02)
        terminal.until("finished")
        terminal.until(lambda: terminal.screen.endswith("> east"))


def test_all_edits_of_the_session(project: Project) -> None:
    steps = [WRITE, edit("new.txt", "hello", "bye"), bash_step("touch one"), DONE]
    with ScriptedServer(steps) as server, Terminal(project, server.url) as terminal:
        terminal.until_idle()
        terminal.send("go")
        asked(terminal)
        assert "e all edits this session" in terminal.screen
        terminal.type("e")
        terminal.until("touch one")  # the edit was not asked about, the command is
        asked(terminal)
        assert "e all edits" not in terminal.screen.split("touch one")[-1]
        assert (project.cwd / "new.txt").read_text(encoding="utf-8") == "bye\n"
        terminal.type("y")
        terminal.until("finished")
        terminal.until(lambda: "[auto-edit]" in terminal.screen)


@pytest.mark.skipif(shutil.which("less") is None, reason="it is the pager")
def test_the_whole_diff_in_the_pager_decides_nothing(project: Project) -> None:
    long = call("write", path="long.txt", content="".join(f"line {n}\n" for n in range(700)))
    with (
        ScriptedServer([{"calls": [long]}, WRITE, DONE]) as server,
        Terminal(project, server.url) as terminal,
    ):
        terminal.until_idle()
        terminal.send("go")
        asked(terminal)
        terminal.until("more lines: d shows the whole file")
        terminal.type("d")
        terminal.until(lambda: terminal.screen.startswith("  long.txt +700\n"))
        terminal.type("G")
        terminal.until(lambda: "700 + line 699\n" in terminal.screen)
        terminal.type("q")
        asked(terminal)
        assert not (project.cwd / "long.txt").exists()
        terminal.type("y")
        terminal.until("+ hello")
        asked(terminal)
        terminal.type("d")
        terminal.until(lambda: "(END) q goes back" in terminal.screen)  # it stays though all of it fits
        terminal.type("q")
        asked(terminal)
        terminal.type("y")
        terminal.until("finished")
    assert (project.cwd / "new.txt").exists()


def test_a_key_pressed_twice_does_not_decide_the_next_question(project: Project) -> None:
    steps = [bash_step("touch one"), bash_step("touch two"), DONE]
    with ScriptedServer(steps) as server, Terminal(project, server.url) as terminal:
        terminal.until_idle()
        terminal.send("go")
        asked(terminal)
        terminal.type("yy")
        terminal.until(lambda: "touch two" in terminal.text)
        asked(terminal)
        assert not (project.cwd / "two").exists()
        terminal.type("y")
        terminal.until("finished")
    assert (project.cwd / "two").exists()


def test_a_question_about_the_turn_keeps_its_lines(project: Project) -> None:
    with ScriptedServer([]) as server, Terminal(project, server.url, columns=80) as terminal:
        terminal.until_idle()
        terminal.send("/model another-longer")
        terminal.until("\nUse it all the same?\n")
        asked(terminal)
        terminal.type("n")
        terminal.until("The model stays scripted.")


@pytest.mark.parametrize(
    ("tool", "sentence"),
    [
        ("bash", "are you sure?"),
        ("write", "explain why please"),
        ("write", "does it run?"),
    ],
)
def test_a_sentence_typed_at_a_question_grants_nothing(project: Project, tool: str, sentence: str) -> None:
    asks = {"bash": bash_step("touch made"), "write": WRITE}[tool]
    with ScriptedServer([asks, DONE]) as server, Terminal(project, server.url) as terminal:
        terminal.until_idle()
        terminal.send("go")
        asked(terminal)
        terminal.type(sentence)
        terminal.until(lambda: terminal.screen.endswith(f"Allow? {sentence}"))
        terminal.type(ENTER)
        terminal.until(lambda: says(terminal, "That is no answer"))
        terminal.until(lambda: terminal.screen.endswith("Allow?"))
        assert len(server.chats) == 1
        assert "[auto-edit]" not in terminal.text
        asked(terminal)
        terminal.type("n")
        terminal.until(lambda: terminal.screen.endswith(f"No, because … {sentence}"))
        terminal.type(ENTER)
        terminal.until_idle()
    assert answers(project) == ["no"]
    assert f"the person refused this call: {sentence}" in last_result(server)


def test_nothing_is_completed_at_a_question(project: Project) -> None:
    """A command that is offered there would not be run."""
    with ScriptedServer([WRITE, DONE]) as server, Terminal(project, server.url) as terminal:
        terminal.until_idle()
        terminal.type("/st")
        terminal.until("› /stop")
        terminal.type(BACKSPACE * 3)
        terminal.send("go")
        asked(terminal)
        terminal.type("/st")
        terminal.until(lambda: terminal.screen.endswith("Allow? /st"))
        terminal.type(ENTER)
        terminal.until(lambda: says(terminal, "That is no answer"))
        assert "  /stop" not in terminal.screen
        terminal.type(ESC)
        terminal.until_idle()


def test_a_sentence_that_opens_the_hunks_decides_none(project: Project) -> None:
    with ScriptedServer([WRITE, DONE]) as server, Terminal(project, server.url) as terminal:
        terminal.until_idle()
        terminal.send("go")
        asked(terminal)
        terminal.type("hello, is this safe?")
        terminal.until(lambda: terminal.screen.endswith("Part 1 of 1? ello, is this safe?"))
        terminal.type(ESC)
        terminal.until_idle()
        assert len(server.chats) == 1
    assert not (project.cwd / "new.txt").exists()


def test_a_reason_that_begins_with_the_key_stays_whole(project: Project) -> None:
    with ScriptedServer([WRITE, DONE]) as server, Terminal(project, server.url) as terminal:
        terminal.until_idle()
        terminal.send("go")
        asked(terminal)
        terminal.send("not sure, what is rm?")
        terminal.until_idle()
    assert "not sure, what is rm?" in last_result(server)


def test_a_question_mark_says_so_in_chinese(project: Project) -> None:
    with (
        ScriptedServer([WRITE, DONE]) as server,
        Terminal(project, server.url, "--lang", "zh") as terminal,
    ):
        terminal.until_idle()
        terminal.send("go")
        terminal.until(lambda: "允许吗？" in terminal.screen)
        terminal.type("?")
        terminal.until(lambda: says(terminal, "y 仅此一次允许；") and says(terminal, "Esc 停止本回合。"))


def test_a_question_mark_says_what_the_keys_do(project: Project) -> None:
    with ScriptedServer([WRITE, DONE]) as server, Terminal(project, server.url) as terminal:
        terminal.until_idle()
        terminal.send("go")
        for key in ("?", ENTER):  # as Enter alone does
            asked(terminal)
            terminal.type(key)
            terminal.until(
                lambda: says(terminal, "y does it this once") and says(terminal, "Esc stops the turn")
            )
            terminal.type("x" + BACKSPACE)
            terminal.until(lambda: not says(terminal, "y does it this once"))
        asked(terminal)
        terminal.type("n")
        terminal.until(lambda: says(terminal, "Enter alone: no reason"))
        terminal.type(ENTER)
        terminal.until_idle()
