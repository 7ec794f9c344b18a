"""Where the lines of commands and of plain output are broken, and what stands apart from what."""

from __future__ import annotations

import io
import re

import pytest
from pty_kit import Terminal
from repl_kit import SIZES

from coder.protocol.events import (
    AnyEvent,
    CommandDone,
    Content,
    Notice,
    Thought,
    TodosChanged,
    ToolCallChanged,
    TurnEnded,
)
from coder.protocol.messages import Usage
from coder.texts import Catalog
from coder.ui.terminal.render.event_lines import command_lines
from coder.ui.terminal.render.plain import PlainRenderer
from coder.ui.terminal.render.theme import Theme
from coder.ui.terminal.render.width import plain
from kit import ScriptedServer
from kit.driving import Project

TODOS = [
    {"content": "look at what there is", "status": "completed"},
    {"content": "change it so that whoever reads it knows at once what it is for", "status": "in_progress"},
    {"content": "leave", "status": "pending"},
]


@pytest.mark.thorough
@SIZES
@pytest.mark.parametrize("term", ["xterm-256color", "dumb"])
def test_no_word_of_a_command_s_answer_is_cut_in_two(
    project: Project, columns: int, rows: int, term: str
) -> None:
    with (
        ScriptedServer([]) as server,
        Terminal(project, server.url, columns=columns, rows=rows, term=term) as terminal,
    ):
        said = {name: project.coder("--once", name, url=server.url).stdout for name in ("/help", "/status")}
        terminal.until_prompt()
        terminal.send("/help")
        terminal.until("of your own")
        terminal.send("/status")
        terminal.until(lambda: re.search(r"^record: ", terminal.text, re.MULTILINE) is not None)
        shown = [row.split() for row in terminal.text.split("\n")]
        words = {word for row in shown for word in row}
        for name, text in said.items():
            asked = [line for line in text.split("\n") if not line.startswith(("session:", "record:"))]
            fits = [word for line in asked for word in line.split() if len(word) <= columns - 8]
            assert [word for word in fits if word not in words] == [], name
        assert all(len(row) <= columns for row in terminal.text.split("\n"))


def test_what_fits_no_row_is_left_to_the_terminal() -> None:
    """Which gives it back in one piece when it is copied."""
    path = "record: /a/path/that/is/longer/than/a/row"
    assert [plain(row) for row in command_lines(CommandDone("/status", path), Catalog("en"), 20)] == [path]
    text = "  one two three four five six"
    assert [plain(row) for row in command_lines(CommandDone("/status", text), Catalog("en"), 20)] == [
        "  one two three four",
        "    five six",
    ]
    printed = "a program's own line stays as it was printed"
    assert [plain(row) for row in command_lines(CommandDone("!x", printed), Catalog("en"), 20)] == [printed]


@SIZES
def test_todos_look_the_same_wherever_they_are_shown(project: Project, columns: int, rows: int) -> None:
    script = [{"calls": [{"name": "todowrite", "arguments": {"todos": TODOS}}]}, {"text": "planned"}]
    with (
        ScriptedServer(script) as server,
        Terminal(project, server.url, "--lang", "zh", columns=columns, rows=rows) as terminal,
    ):
        terminal.until_idle()
        terminal.send("go")
        terminal.until("planned")
        terminal.until_idle()
        terminal.send("/todos")
        terminal.until(lambda: terminal.text.count("☐ leave") == 2)
        told, _, listed = terminal.text.partition("planned")
        first, last = "  ☑ look at what there is", "  ☐ leave"
        (one,) = re.findall(f"{first}\n.*?{last}", told, re.DOTALL)
        (other,) = re.findall(f"{first}\n.*?{last}", listed, re.DOTALL)
        assert one == other
        assert all(row.startswith(("  ☑ ", "  ▸ ", "    ", "  ☐ ")) for row in one.split("\n"))
        assert not re.search(r"\bitems?\b", terminal.text)
    assert "[x] 1. look" in project.coder("--continue", "--once", "/todos", url=server.url).stdout


def shown(*events: AnyEvent) -> str:
    out = io.StringIO()
    renderer = PlainRenderer(out, None, Catalog("en"), Theme("none"))
    for event in events:
        renderer.handle(event)
    return out.getvalue()


def called(name: str) -> ToolCallChanged:
    return ToolCallChanged("1", name, "success", argument="x", summary="ok")


def ended(error: str = "") -> TurnEnded:
    return TurnEnded(1, "cancelled" if error else "ok", "the end", 1, Usage(), 5, error)


def test_prose_stands_apart_from_what_is_no_prose() -> None:
    text = shown(
        Thought("Thinking."),
        Content("I will "),
        Content("look."),
        called("read"),
        called("grep"),
        TodosChanged(TODOS[2:]),
        Content("Done.\n"),
        Notice("by the way"),
        ended(),
        Content("Next turn"),
        ended("Cancelled: read x"),
        CommandDone("/status", "fine"),
        Content("Again."),
        ended(),
    )
    assert text.split("\n") == [
        "Thinking.",
        "",
        "I will look.",
        "",
        "✓ read x · ok · 0.0s",
        "✓ grep x · ok · 0.0s",
        "  ☐ leave",
        "",
        "Done.",
        "",
        "by the way",
        "Next turn",
        "",
        "Cancelled: read x",
        "fine",
        "Again.",
        "",
    ]


def test_the_system_s_own_words_are_said_in_chinese(project: Project) -> None:
    with ScriptedServer([{"text": "hi"}]) as server:
        project.write("file", "")
        done = project.coder("--lang", "zh", "--log-dir", "file/x", "--once", "hi", url=server.url)
        assert "不是目录" in done.stderr
        assert "directory" not in done.stderr
        done = project.coder("--log-dir", "file/x", "--once", "hi", url=server.url)
        assert "Not a directory" in done.stderr
    assert Catalog("zh").say("cli.system", what="x", why="Permission denied") == "x：权限不够。"
    assert "something new" in Catalog("zh").say("cli.system", what="x", why="something new")
