"""Custom modes and saved prompts in the slash menu, in a real terminal (seed 003 §3, §5, §9)."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from pty_kit import ANSWERS, DOWN, ENTER, TAB, Terminal, messages, sent
from repl_kit import Gate

from kit import ScriptedServer
from kit.driving import Project

REVIEW = """\
---
kind: persistent
description: Look at changes
display_name: Design Review
argument_hint: ROLE
variables: [role]
---
Speak as {{role}}.
"""


def with_modes(project: Project) -> Project:
    project.write(".coder/modes/review.md", REVIEW)
    project.write(".coder/modes/ops/eu/deploy.md", "---\nkind: instant\n---\nDeploy.\n")
    project.write(".coder/modes/status.md", "---\nkind: instant\ndescription: mine\n---\nMy status.\n")
    project.write(".coder/modes/broken.md", "---\nkind: persistent\nmodel: [a]\n---\nx\n")
    project.write(".coder/prompts/greet.md", "---\ndescription: Be polite\n---\nSay hello to $1.\n")
    home = project.home / ".coder" / "modes"
    home.mkdir(parents=True)
    (home / "review.md").write_text("---\nkind: persistent\n---\nThe other review.\n", encoding="utf-8")
    (home / "zebra.md").write_text("---\nkind: persistent\n---\nStripes.\n", encoding="utf-8")
    return project


def menu(terminal: Terminal) -> list[str]:
    """The rows of the open menu."""
    rows = terminal.screen.split("\n")
    prompts = [n for n, row in enumerate(rows) if row.startswith("[")]
    return [row for row in rows[prompts[-1] + 1 :] if row.startswith(("› ", "  "))] if prompts else []


def offers(terminal: Terminal, typed: str, *rows: str) -> None:
    """After typing, the menu begins with these rows (spaces as one)."""
    terminal.type("\x15" + typed)

    def there() -> bool:
        found = [" ".join(row.split()) for row in menu(terminal)]
        return len(found) >= len(rows) and all(
            got.startswith(want) for got, want in zip(found, rows, strict=False)
        )

    try:
        terminal.until(there)
    except AssertionError:
        raise AssertionError(f"{typed}: wanted {rows}\nthere is {menu(terminal)}") from None


def colour(terminal: Terminal, text: str) -> str:
    for y, row in enumerate(terminal.paper.display):
        if text in row:
            return terminal.paper.buffer[y][row.index(text)].fg
    return ""


def test_what_the_menu_says_of_modes(project: Project) -> None:
    with (
        ScriptedServer(ANSWERS) as server,
        Terminal(with_modes(project), server.url, columns=120) as terminal,
    ):
        terminal.until_idle()
        # the nearest first, with hint, scope, title and description; the other dimmed, with who has its place
        offers(
            terminal,
            "/review",
            "› /review ROLE (project:project) Design Review: Look at changes",
            "/review (global) shadowed by (project:project), /review runs that one",
        )
        dimmed = [line for line in bytes(terminal.raw).split(b"\n") if b"shadowed by" in line][-1]
        assert b"\x1b[0;2m  /review" in dimmed  # SGR 2 is dim
        # the whole id, and fuzzy
        offers(terminal, "/deploy", "› /ops:eu:deploy (project:project)")
        offers(terminal, "/oeudep", "› /ops:eu:deploy (project:project)")
        # a built-in command wins; the mode is reached another way
        offers(
            terminal,
            "/status",
            "› /status session",
            "/modes:status (project:project) shadowed by (built-in) · mine",
        )
        # a broken file says where and what is allowed
        offers(
            terminal, "/broken", "› /broken (project:project) ⚠ line 3: `model` is a list or mapping; allowed"
        )
        terminal.type(DOWN)
        offers(terminal, "/greet", "› /prompts:greet [1] (project:project) saved prompt Be polite")
        # by scope
        offers(terminal, "/ (global)", "› /review (global) shadowed by (project:project)", "/zebra (global)")
        assert len(menu(terminal)) == 2
        offers(terminal, "/ (global) zeb", "› /zebra (global)")
        terminal.type(TAB)
        terminal.until(lambda: "> /zebra" in terminal.screen and not menu(terminal))
        terminal.type("\x15")


def test_a_shadowed_row_says_what_choosing_it_runs(project: Project) -> None:
    with (
        ScriptedServer(ANSWERS) as server,
        Terminal(with_modes(project), server.url, columns=120) as terminal,
    ):
        terminal.until_idle()
        offers(
            terminal, "/ (global) rev", "› /review (global) shadowed by (project:project), /review runs that"
        )
        terminal.type(TAB)
        terminal.until(lambda: "> /review" in terminal.screen and not menu(terminal))
        terminal.type("critic" + ENTER)
        terminal.until("Mode on: /review [role=critic]")
        terminal.type("hi" + ENTER)
        terminal.until("answer0")
        assert "Speak as critic." in str(server.chats[-1]["messages"])
        assert "The other review." not in str(server.chats[-1]["messages"])


PACKAGE = "[coder.commands]\nhello = loud_tools:hello\nstatus = loud_tools:hello\nzebra = loud_tools:hello\n"


@pytest.mark.thorough
def test_commands_of_servers_and_packages(project: Project) -> None:
    """Prompts of a server with description and arguments; of a package by name. Where a built-in command
    or a mode has the name, that alone is there."""
    program = str(Path(__file__).parents[2] / "kit" / "mcp_sdk_server.py")
    project.configure(mcp={"servers": {"sdk": {"command": sys.executable, "args": [program, "stdio"]}}})
    site = project.home / "site" / "loud-1.dist-info"
    site.mkdir(parents=True)
    (site / "entry_points.txt").write_text(PACKAGE, encoding="utf-8")
    (site.parent / "loud_tools.py").write_text("def hello(args, context): return f'hello {args}'")
    with (
        ScriptedServer(ANSWERS) as server,
        Terminal(with_modes(project), server.url, columns=120, PYTHONPATH=str(site.parent)) as terminal,
    ):
        terminal.until_idle()
        offers(terminal, "/sdk", "› /sdk:weigh <thing> [scale] (mcp:sdk) Weigh a thing.")
        offers(terminal, "/hello", "› /hello (package:loud-1)")
        offers(terminal, "/ (package", "› /hello (package:loud-1)")
        assert len(menu(terminal)) == 1
        terminal.type("\x15/hello there" + ENTER)
        terminal.until("hello there")
        terminal.until_idle()
        offers(terminal, "/weig", "› /sdk:weigh")
        terminal.type(TAB + "gold" + ENTER)
        sent(server, terminal)
        assert "Weigh gold in grams." in messages(server)


def test_a_mode_is_switched_on_and_off_from_the_menu(project: Project) -> None:
    with (
        ScriptedServer(ANSWERS) as server,
        Terminal(with_modes(project), server.url, columns=120) as terminal,
    ):
        terminal.until_idle()
        offers(terminal, "/zeb", "› /zebra (global)")
        terminal.type(ENTER)
        terminal.until("Mode on: /zebra")
        terminal.until(lambda: terminal.screen.endswith("\nMode: zebra   ↓ edit · /zebra off"))
        offers(terminal, "/zeb", "› /zebra (global) ●", "/modes off zebra switch zebra off")
        terminal.type(DOWN + ENTER)
        terminal.until("Mode off: /zebra")
        terminal.until_idle()
        offers(terminal, "/zeb", "› /zebra (global)")
        assert "●" not in "".join(menu(terminal))
        # what is chosen is what runs
        offers(terminal, "/greet", "› /prompts:greet")
        terminal.type(TAB + "Ada" + ENTER)
        assert sent(server, terminal) == "Say hello to Ada."


def test_the_list_is_that_of_the_session(project: Project) -> None:
    """Files are read once a session; `/new` reads them again, and with the modes that were on gone."""
    with ScriptedServer(ANSWERS) as server, Terminal(with_modes(project), server.url) as terminal:
        terminal.until_idle()
        offers(terminal, "/zeb", "› /zebra")
        project.write(".coder/modes/later.md", "---\nkind: persistent\n---\nLater.\n")
        terminal.type(ENTER + ENTER)
        terminal.until(lambda: terminal.screen.endswith("\nMode: zebra   ↓ edit · /zebra off"))
        terminal.type("/later")
        terminal.until("> /later")
        terminal.pump(0.2)
        assert not any("/later" in row for row in menu(terminal))
        terminal.type("\x15/new" + ENTER)
        terminal.until_idle()
        offers(terminal, "/later", "› /later")
        terminal.type("\x15hi" + ENTER)
        assert sent(server, terminal) == "hi"
        assert messages(server) == ["hi"]


def test_the_menu_is_there_while_the_first_turn_runs(project: Project) -> None:
    """Listing does not queue behind a turn."""
    gate = Gate({"text": "the answer"})
    with ScriptedServer([gate]) as server, Terminal(with_modes(project), server.url, "go on") as terminal:
        terminal.until(lambda: len(server.chats) == 1)
        offers(terminal, "/zeb", "› /zebra")
        terminal.type("\x15")
        gate.open()
        terminal.until("the answer")


def test_without_modes_the_menu_has_none(project: Project) -> None:
    with ScriptedServer(ANSWERS) as server, Terminal(project, server.url) as terminal:
        terminal.until_idle()
        offers(terminal, "/", "› /help")
        terminal.type("\x15/ (")
        terminal.until("> / (")
        terminal.until(lambda: not menu(terminal))
        assert "Mode:" not in terminal.screen
        assert server.chats == []
