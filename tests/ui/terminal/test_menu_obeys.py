"""The menu takes what was named or chosen; a bare `/` shows that there is more; `?` shows the keys."""

from __future__ import annotations

import pytest
from pty_kit import DOWN, ENTER, ESC, UP, Terminal
from repl_kit import Gate, says

from kit import ScriptedServer
from kit.driving import Project

ANSWERS = [{"text": "answered"}] * 3
SCREENS = pytest.mark.parametrize(
    ("columns", "rows", "lang"),
    [(80, 24, "en"), (44, 20, "zh"), (200, 50, "en")],
    ids=["80x24 en", "44x20 zh", "200x50 en"],
)


def offered(terminal: Terminal) -> bool:
    """The menu below `/config` has what has the word in its description, and nothing else."""
    below = terminal.screen.rpartition("> /config")[2]
    return "/model" in below and "/compact" not in below


@SCREENS
def test_enter_takes_no_match_in_a_description(project: Project, columns: int, rows: int, lang: str) -> None:
    with (
        ScriptedServer(ANSWERS) as server,
        Terminal(project, server.url, "--lang", lang, columns=columns, rows=rows) as terminal,
    ):
        terminal.until_idle()
        terminal.type("/config")
        terminal.until(lambda: offered(terminal))
        assert "›" not in terminal.screen
        terminal.type(ENTER)
        terminal.until(lambda: says(terminal, "Unknown command: /config"))
        terminal.until_idle()
        terminal.type("/config")
        terminal.until(lambda: offered(terminal))
        terminal.type(DOWN + ENTER)
        terminal.until(lambda: "\n› /model\n" in terminal.text or "\n› /hooks\n" in terminal.text)


def test_a_bare_slash_shows_that_there_is_more_with_modes_in_front(project: Project) -> None:
    for name in ("alpha", "beta", "gamma", "omega"):
        project.write(f".coder/modes/{name}.md", f"---\nkind: persistent\n---\n{name}\n")
    with ScriptedServer(ANSWERS) as server, Terminal(project, server.url) as terminal:
        terminal.until_idle()
        terminal.type("/")
        terminal.until(lambda: "/alpha" in terminal.screen and " more: type a name" in terminal.screen)
        below = terminal.screen.rpartition("> /")[2]
        assert "/gamma" in below
        assert "/help" in below
        assert "/omega" not in below
        terminal.type(ENTER)
        terminal.type(UP)  # from the end: the last entry of all
        terminal.until(lambda: "› /omega" in terminal.screen)
        terminal.type(ENTER)
        terminal.until("Mode on: /omega")
    assert not server.chats


def test_a_whole_name_runs_at_once(project: Project) -> None:
    with ScriptedServer(ANSWERS) as server, Terminal(project, server.url) as terminal:
        terminal.until_idle()
        terminal.type("/todos")
        terminal.until(lambda: "› /todos" in terminal.screen)
        terminal.type(ENTER)
        terminal.until("The todo list is empty.")


def test_enter_runs_what_was_chosen_and_completes_what_needs_more(project: Project) -> None:
    with ScriptedServer(ANSWERS) as server, Terminal(project, server.url) as terminal:
        terminal.until_idle()
        terminal.type("/s")
        terminal.until(lambda: "  /skills" in terminal.screen)
        while "› /skills" not in terminal.screen:
            chosen = terminal.screen
            terminal.type(DOWN)
            terminal.until(lambda seen=chosen: terminal.screen != seen)  # type: ignore[misc] # bound at once
        terminal.type(ENTER)
        terminal.until("\n› /skills\n")
        terminal.until_idle()
        terminal.type("/effort ")
        terminal.until(lambda: "  minimal" in terminal.screen)
        terminal.type(DOWN + DOWN + ENTER)
        terminal.until("Effort: minimal")
        terminal.until_idle()
        terminal.type("/stat")
        terminal.until(lambda: "› /status" in terminal.screen)
        terminal.type(ENTER)
        terminal.until("session: ")
        terminal.until_idle()
        terminal.type("/ren")
        terminal.until(lambda: "› /rename NAME" in terminal.screen)
        terminal.type(ENTER + "mine" + ENTER)
        terminal.until("\n› /rename mine\n")
        terminal.until_idle()
        terminal.type("/re")  # several begin so
        terminal.until(lambda: "› /redo" in terminal.screen)
        terminal.type(ENTER)
        terminal.until(lambda: "> /redo\n  force" in terminal.screen)
        terminal.type("\x15/cmpt")  # letters that a name has somewhere are no more than a guess
        terminal.until(lambda: "› /compact" in terminal.screen)
        terminal.type(ENTER)
        terminal.until(lambda: terminal.screen.endswith("> /compact"))
        assert not server.chats


def test_a_strange_name_does_not_suggest_yolo(project: Project) -> None:
    with ScriptedServer(ANSWERS) as server, Terminal(project, server.url) as terminal:
        terminal.until_idle()
        terminal.type("/foo" + ENTER)
        terminal.until("Unknown command: /foo")
        terminal.until_idle()
        assert "/yolo" not in terminal.text
        terminal.type("/stauts" + ENTER)
        terminal.until(lambda: "/status" in terminal.text)


@SCREENS
def test_a_question_mark_on_an_empty_line_shows_the_keys(
    project: Project, columns: int, rows: int, lang: str
) -> None:
    keys = "Shift+Tab"
    gate = Gate({"text": "answered"})
    with (
        ScriptedServer([gate]) as server,
        Terminal(project, server.url, "--lang", lang, columns=columns, rows=rows) as terminal,
    ):
        terminal.until_idle()
        terminal.type("?")
        terminal.until(lambda: keys in terminal.screen)
        assert "> ?" not in terminal.screen
        terminal.type("?")  # a second one is typed
        terminal.until(lambda: keys not in terminal.screen and "> ?" in terminal.screen)
        terminal.type(" why?" + ENTER)
        terminal.until(lambda: len(server.chats) == 1)
        terminal.type("?")
        terminal.until(lambda: keys in terminal.screen)
        terminal.type(ESC)  # closes it, and stops nothing
        terminal.until(lambda: keys not in terminal.screen)
        gate.open()
        terminal.until("answered")
    assert server.chats[0]["messages"][-1]["content"].startswith("? why?")
