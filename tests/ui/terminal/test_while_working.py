"""What can be done while a turn runs: look things up, change the operating mode, speak to the model."""

from __future__ import annotations

import pytest
from pty_kit import ENTER, ESC, Terminal, messages
from repl_kit import Gate, says

from kit import ScriptedServer
from kit.driving import Project

SHIFT_TAB, CTRL_S = "\x1b[Z", "\x13"
SCREENS = pytest.mark.parametrize(
    ("columns", "rows", "lang"),
    [(80, 24, "en"), (44, 20, "zh"), (200, 50, "en")],
    ids=["80x24 en", "44x20 zh", "200x50 en"],
)
LIST = {"calls": [{"name": "list", "arguments": {}}]}


@pytest.mark.thorough
@SCREENS
def test_questions_to_the_session_are_answered_while_it_works(
    project: Project, columns: int, rows: int, lang: str
) -> None:
    gate = Gate({"text": "finished"})
    with (
        ScriptedServer([gate, {"text": "never"}]) as server,
        Terminal(project, server.url, "--lang", lang, columns=columns, rows=rows) as terminal,
    ):
        terminal.until_idle()
        terminal.send("go")
        terminal.until(lambda: len(server.chats) == 1)
        terminal.send("/todos")
        terminal.until(
            lambda: says(terminal, {"en": "The todo list is empty.", "zh": "待办列表为空。"}[lang])
        )
        terminal.send("/status")
        terminal.until(lambda: says(terminal, "balanced"))
        assert "finished" not in terminal.text
        assert "\n\n› /todos\n" in terminal.text  # as every message: without mode and path
        assert terminal.text.count("[default]") == 1
        gate.open()
        terminal.until("finished")
        terminal.until_idle()
        assert len(server.chats) == 1


def test_shift_tab_cycles_the_mode_at_rest_and_while_it_works(project: Project) -> None:
    gate = Gate({"text": "finished"})
    with ScriptedServer([gate]) as server, Terminal(project, server.url) as terminal:
        terminal.until_idle()
        for mode in ("auto-edit", "plan", "default"):
            terminal.type(SHIFT_TAB)
            terminal.until(lambda m=mode: f"[{m}]" in terminal.prompt)  # type: ignore[misc] # bound at once
            assert f"Operating mode: {mode}. " in terminal.screen  # and what that means, until the next key
        terminal.send("go")
        terminal.until(lambda: len(server.chats) == 1)
        assert "Operating mode" not in terminal.text
        terminal.type(SHIFT_TAB)
        terminal.until(lambda: "[auto-edit]" in terminal.prompt)
        gate.open()
        terminal.until("finished")


def test_a_message_reaches_the_model_at_its_next_step(project: Project) -> None:
    gate = Gate(LIST)
    with ScriptedServer([gate, {"text": "finished"}]) as server, Terminal(project, server.url) as terminal:
        terminal.until_idle()
        terminal.send("go")
        terminal.until(lambda: len(server.chats) == 1)
        terminal.type("use tabs")
        terminal.until(lambda: terminal.screen.endswith("> use tabs"))
        terminal.type(CTRL_S)
        terminal.until(lambda: terminal.prompt.rstrip().endswith(">"))
        gate.open()
        terminal.until("finished")
        terminal.until_idle()
    assert len(server.chats) == 2
    assert messages(server)[-1] == "use tabs"


def test_a_queued_message_can_still_be_sent_with_the_next_step(project: Project) -> None:
    gate = Gate(LIST)
    with ScriptedServer([gate, {"text": "finished"}]) as server, Terminal(project, server.url) as terminal:
        terminal.until_idle()
        terminal.send("go")
        terminal.until(lambda: len(server.chats) == 1)
        terminal.send("use tabs")
        terminal.until("takes it back): use tabs")
        terminal.type(CTRL_S)
        terminal.until("with the next step: use tabs")
        gate.open()
        terminal.until("finished")
        terminal.until_idle()
    assert len(server.chats) == 2
    assert messages(server)[-1] == "use tabs"


def test_a_message_that_comes_with_the_answer_is_answered_in_the_same_turn(project: Project) -> None:
    gate = Gate({"text": "first"})
    with ScriptedServer([gate, {"text": "second"}]) as server, Terminal(project, server.url) as terminal:
        terminal.until_idle()
        terminal.send("go")
        terminal.until(lambda: len(server.chats) == 1)
        terminal.type("and more")
        terminal.until(lambda: terminal.screen.endswith("> and more"))
        terminal.type(CTRL_S)
        terminal.until(lambda: terminal.prompt.rstrip().endswith(">"))
        gate.open()
        terminal.until("second")
        terminal.until_idle()
        assert "first\n\n› and more\nsecond\n" in terminal.text
    assert messages(server)[-1] == "and more"
    assert len(project.of_type("turn_end")) == 1
    assert [entry["content"] for entry in project.of_type("note")] == ["and more"]


def test_a_message_for_a_turn_that_is_cancelled_comes_back(project: Project) -> None:
    gate = Gate({"text": "never"})
    with ScriptedServer([gate, {"text": "second"}]) as server, Terminal(project, server.url) as terminal:
        terminal.until_idle()
        terminal.send("go")
        terminal.until(lambda: len(server.chats) == 1)
        terminal.type("use tabs" + CTRL_S)
        terminal.until(lambda: "with the next step: use tabs" in terminal.screen)
        terminal.type(ESC)
        terminal.until(lambda: terminal.screen.endswith("> use tabs"))
        assert "with the next step" not in terminal.screen
        gate.open()  # the script is answered one request at a time
        terminal.type(ENTER)
        terminal.until("second")
    assert messages(server)[-1] == "use tabs"


@SCREENS
def test_queued_messages_come_back_one_by_one(project: Project, columns: int, rows: int, lang: str) -> None:
    gate = Gate({"text": "never"})
    waits = {"en": "takes it back): ", "zh": "取回）："}[lang]
    with (
        ScriptedServer([gate, {"text": "to the first"}, {"text": "to the second"}]) as server,
        Terminal(project, server.url, "--lang", lang, columns=columns, rows=rows) as terminal,
    ):
        terminal.until_idle()
        terminal.send("go")
        terminal.until(lambda: len(server.chats) == 1)
        for text in ("one", "two"):
            terminal.send(text)
            terminal.until(lambda t=text: f"{waits}{t}" in terminal.screen)  # type: ignore[misc] # bound at once
        terminal.type(ESC)
        terminal.until(lambda: terminal.screen.endswith("> one") and f"{waits}two" in terminal.screen)
        gate.open()
        terminal.type(" edited" + ENTER)
        terminal.until("to the second")
    sent = [chat["messages"][-1]["content"] for chat in server.chats[1:]]
    assert sent == ["one edited", "two"]


def test_a_mode_named_while_it_works_holds_at_once(project: Project) -> None:
    gate = Gate({"calls": [{"name": "write", "arguments": {"path": "new.txt", "content": "x"}}]})
    with ScriptedServer([gate, {"text": "finished"}]) as server, Terminal(project, server.url) as terminal:
        terminal.until_idle()
        terminal.send("go")
        terminal.until(lambda: len(server.chats) == 1)
        terminal.send("/auto-edit")
        terminal.until(lambda: "[auto-edit]" in terminal.prompt)
        terminal.until("› /auto-edit\nOperating mode: auto-edit. Edits are made without asking")
        gate.open()
        terminal.until("finished")
    assert (project.cwd / "new.txt").read_text() == "x"
