"""Menus, vim keys, and the terminal's own commands."""

from __future__ import annotations

import base64
import re
import subprocess

import pytest
from pty_kit import ANSWERS, DOWN, ENTER, ESC, TAB, Terminal, sent
from repl_kit import SIZES, says

from kit import ScriptedServer
from kit.driving import Project


@pytest.mark.thorough
@SIZES
def test_the_slash_menu_is_fuzzy_and_escape_closes_it(project: Project, columns: int, rows: int) -> None:
    with (
        ScriptedServer(ANSWERS) as server,
        Terminal(project, server.url, columns=columns, rows=rows) as terminal,
    ):
        terminal.until_idle()
        terminal.type("/")
        terminal.until("/help")
        terminal.type("prm")
        terminal.until(lambda: "› /permissions [PRESET" in terminal.screen)
        terminal.type(ESC)
        terminal.until(lambda: "› /permissions" not in terminal.screen)
        assert "> /prm" in terminal.screen
        terminal.type("\x15/stat")
        terminal.until("› /status")
        terminal.type(ENTER)
        terminal.until("session: ")


@pytest.mark.parametrize(("columns", "rows"), [(40, 10), (200, 50)])
def test_the_menu_at_other_sizes(project: Project, columns: int, rows: int) -> None:
    with (
        ScriptedServer(ANSWERS) as server,
        Terminal(project, server.url, columns=columns, rows=rows) as terminal,
    ):
        terminal.until_idle()
        terminal.type("/mo")
        terminal.until(lambda: "› /mode" in terminal.screen)
        terminal.type(DOWN + TAB)
        terminal.until(lambda: re.search(r"> /mode\w+ ?$", terminal.screen, re.MULTILINE) is not None)


@SIZES
def test_vim_can_be_switched_on_and_off(project: Project, columns: int, rows: int) -> None:
    with (
        ScriptedServer(ANSWERS) as server,
        Terminal(project, server.url, columns=columns, rows=rows) as terminal,
    ):
        terminal.until_idle()
        terminal.send("/vim")
        terminal.until("vim keys are on")
        terminal.type("abc")
        terminal.until("> abc")
        x, y = terminal.caret
        terminal.type(ESC)
        terminal.until(lambda: terminal.caret == (x - 1, y))
        terminal.type("x" + ENTER)
        assert sent(server, terminal) == "ab"
        terminal.send("/vim")
        terminal.until("vim keys are off")


@SIZES
def test_copy_puts_the_last_answer_on_the_clipboard(project: Project, columns: int, rows: int) -> None:
    with (
        ScriptedServer([{"text": "the **answer** 答案"}]) as server,
        Terminal(project, server.url, columns=columns, rows=rows) as terminal,
    ):
        terminal.until_idle()
        terminal.send("/copy")
        terminal.until("No answer to copy")
        terminal.send("go")
        sent(server, terminal)
        terminal.send("/copy")
        terminal.until("Copied 17 characters")
        found = re.search(rb"\x1b\]52;c;([^\x07]+)\x07", bytes(terminal.raw))
        assert found is not None
        assert base64.b64decode(found[1]).decode("utf-8") == "the **answer** 答案"


@SIZES
def test_theme(project: Project, columns: int, rows: int) -> None:
    with (
        ScriptedServer([{"text": "**a**"}, {"text": "**b**"}]) as server,
        Terminal(project, server.url, columns=columns, rows=rows) as terminal,
    ):
        terminal.until_idle()
        terminal.send("go")
        sent(server, terminal)
        assert b"\x1b[1ma\x1b[0m" in terminal.raw
        terminal.send("/theme none")
        terminal.until("Theme: none")
        terminal.send("go")
        sent(server, terminal, 2)
        assert b"\x1b[1mb" not in terminal.raw
        terminal.send("/theme pink")
        terminal.until("Unknown theme pink")


@pytest.mark.thorough
@SIZES
def test_a_long_diff_goes_through_the_pager_and_a_short_one_does_not(
    project: Project, columns: int, rows: int
) -> None:
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@example.invalid"]
    project.write("a.txt", "old\n")
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"]):
        subprocess.run([*git, *command], cwd=project.cwd, check=True)
    pager = project.home / "pager.sh"
    pager.write_text(f"#!/bin/sh\ncat > {project.home}/paged\n", encoding="utf-8")
    pager.chmod(0o700)
    with (
        ScriptedServer(ANSWERS) as server,
        Terminal(project, server.url, columns=columns, rows=rows, PAGER=str(pager)) as terminal,
    ):
        terminal.until_idle()
        project.write("a.txt", "new\n")
        if rows > 10:  # on the lowest screen nothing is short
            terminal.send("/diff full")
            terminal.until("+ new")
            assert not (project.home / "paged").exists()
        project.write("a.txt", "".join(f"line {n}\n" for n in range(100)))
        terminal.until_idle()
        terminal.send("/diff full")
        terminal.until(lambda: says(terminal, "shown in the pager"))
        terminal.until(lambda: (project.home / "paged").exists())
        terminal.until_idle()
        assert "line 99" in (project.home / "paged").read_text(encoding="utf-8")
        assert "line 99" not in terminal.text


@SIZES
def test_chinese_texts(project: Project, columns: int, rows: int) -> None:
    with (
        ScriptedServer(ANSWERS) as server,
        Terminal(project, server.url, "--lang", "zh", columns=columns, rows=rows) as terminal,
    ):
        terminal.until_idle()
        terminal.paste("一\n二")
        terminal.until(lambda: "已粘贴" in terminal.screen.replace(" ", ""))
        terminal.type("\x03/vim" + ENTER)
        terminal.until(lambda: "键位已开启" in terminal.text.replace(" ", ""))


def test_a_narrow_menu_says_what_its_entries_do(project: Project) -> None:
    """Rather than which arguments they take, which only the chosen one shows."""
    with ScriptedServer([]) as server, Terminal(project, server.url, columns=40, rows=12) as terminal:
        terminal.until_idle()
        terminal.type("/")
        terminal.until(lambda: "  /permissions  show what is" in terminal.screen)
        terminal.type(DOWN + DOWN + DOWN)
        terminal.until(lambda: "› /permissions [PRESET|revoke NAME]" in terminal.screen)
        assert "  /help         this list" in terminal.screen
        terminal.resize(80, 24)
        terminal.until(lambda: "  /help [NAME]                       this list" in terminal.screen)


def test_long_arguments_leave_room_for_what_the_commands_do(project: Project) -> None:
    with ScriptedServer(ANSWERS) as server, Terminal(project, server.url) as terminal:
        terminal.until_idle()
        terminal.type("/d")
        terminal.until("› /diff [full|PATH|session|turn N|review [turn N]]")
        terminal.until("operating mode default: the permission preset as it is")
