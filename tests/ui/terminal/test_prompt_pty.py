"""The prompt: lines, keys, history, pastes, leaving."""

from __future__ import annotations

import re
import stat

import pytest
from pty_kit import ANSWERS, BACKSPACE, CTRL_C, CTRL_D, DOWN, ENTER, ESC, UP, Terminal, messages, sent
from repl_kit import SIZES, says

from kit import ScriptedServer
from kit.driving import Project


@pytest.mark.thorough
@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (40, 10), (200, 50)])
def test_prompt_lines_and_a_turn(project: Project, columns: int, rows: int) -> None:
    with (
        ScriptedServer(ANSWERS) as server,
        Terminal(project, server.url, columns=columns, rows=rows) as terminal,
    ):
        terminal.until_idle()
        # The system prompt and the tools are there from the start, as soon as they are counted.
        first = re.compile(r"context: [1-9]\d{3} tokens · model: scripted\n\[default\] ")
        terminal.until(lambda: first.search(terminal.screen) is not None)
        terminal.send("hello")
        assert sent(server, terminal) == "hello"
        assert "› hello" in terminal.text
        assert "answer0" in terminal.text
        terminal.send("/plan")
        terminal.until("\n[plan] ")


@pytest.mark.parametrize(
    "newline",
    ["\x1b\r", "\n", "\\\r", "\x1b[13;2u", "\x1b[27;2;13~"],
    ids=["alt", "ctrl-j", "\\", "csi-u", "27"],
)
@SIZES
def test_ways_to_make_a_new_line(project: Project, newline: str, columns: int, rows: int) -> None:
    with (
        ScriptedServer(ANSWERS) as server,
        Terminal(project, server.url, columns=columns, rows=rows) as terminal,
    ):
        terminal.until_idle()
        terminal.type("one")
        terminal.type(newline)
        terminal.type("two")
        terminal.until("two")
        assert not server.chats
        terminal.type(ENTER)
        assert sent(server, terminal) == "one\ntwo"


def test_ctrl_d_sends_text_and_leaves_an_empty_line(project: Project) -> None:
    with ScriptedServer(ANSWERS) as server, Terminal(project, server.url) as terminal:
        terminal.until_idle()
        terminal.type("text")
        terminal.until("> text")
        terminal.type(CTRL_D)
        assert sent(server, terminal) == "text"
        terminal.type(CTRL_D)
        assert terminal.ended() == 0
        assert "Session recorded" in terminal.text
    assert project.of_type("session_end")


@SIZES
def test_ctrl_c_clears_and_twice_on_an_empty_line_leaves(project: Project, columns: int, rows: int) -> None:
    with (
        ScriptedServer(ANSWERS) as server,
        Terminal(project, server.url, columns=columns, rows=rows) as terminal,
    ):
        terminal.until_idle()
        terminal.type("rubbish")
        terminal.until("> rubbish")
        terminal.type(CTRL_C)
        terminal.until(lambda: "rubbish" not in terminal.screen)
        terminal.type(CTRL_C)
        terminal.until("again to leave")
        terminal.paste("x")  # whoever goes on typing does not mean to leave, and is not told how
        terminal.until(lambda: terminal.screen.endswith("> x"))
        assert "again to leave" not in terminal.screen
        terminal.type(BACKSPACE)
        terminal.type(CTRL_C)
        terminal.until("again to leave")
        terminal.type(CTRL_C)
        assert terminal.ended() == 0
        assert not server.chats


@SIZES
def test_double_escape_clears_and_a_single_one_does_not(project: Project, columns: int, rows: int) -> None:
    with (
        ScriptedServer(ANSWERS) as server,
        Terminal(project, server.url, columns=columns, rows=rows) as terminal,
    ):
        terminal.until_idle()
        terminal.type("kept")
        terminal.until("> kept")
        terminal.type(ESC)
        terminal.type("!")  # Alt+!, or Esc and then a character: in neither case is anything cleared
        terminal.type("?")
        terminal.until(lambda: terminal.screen.endswith("?"))
        assert "> kept" in terminal.screen
        terminal.type(ESC + ESC)
        terminal.until(lambda: "kept" not in terminal.screen)
        assert not server.chats


@SIZES
def test_emacs_keys(project: Project, columns: int, rows: int) -> None:
    with (
        ScriptedServer(ANSWERS) as server,
        Terminal(project, server.url, columns=columns, rows=rows) as terminal,
    ):
        terminal.until_idle()
        terminal.type("two three four")
        terminal.type("\x01one \x05 five")  # Ctrl+A, Ctrl+E
        terminal.until(lambda: says(terminal, "> one two three four five"))
        terminal.type("\x17six\x1bb\x1bb\x0b\x19!")  # Ctrl+W, Alt+B twice, Ctrl+K, Ctrl+Y
        terminal.until(lambda: says(terminal, "> one two three four six!"))
        terminal.type("\x15start\x1b\x7f")  # Ctrl+U, Alt+Backspace
        terminal.type("done")
        terminal.until("> done")
        terminal.type(ENTER)
        assert sent(server, terminal) == "done"


@pytest.mark.thorough
@SIZES
def test_history_across_sessions_private_to_the_project(project: Project, columns: int, rows: int) -> None:
    with ScriptedServer(ANSWERS) as server:
        with Terminal(project, server.url, columns=columns, rows=rows) as terminal:
            terminal.until_idle()
            for at, text in enumerate(("alpha first", "beta second")):
                terminal.send(text)
                sent(server, terminal, at + 1)
            terminal.type(CTRL_D)
            terminal.ended()
        with Terminal(project, server.url, columns=columns, rows=rows) as terminal:
            terminal.until_idle()
            terminal.type("draft")
            terminal.until("> draft")
            terminal.type(UP)
            terminal.until(lambda: terminal.screen.endswith("> beta second"))
            terminal.type(UP)
            terminal.until(lambda: terminal.screen.endswith("> alpha first"))
            terminal.type(DOWN + DOWN)
            terminal.until(lambda: terminal.screen.endswith("> draft"))
            terminal.type(CTRL_C)
            terminal.until(lambda: "draft" not in terminal.screen)
            terminal.type("\x12" + "alph")  # Ctrl+R
            terminal.until(lambda: "> alpha first" in terminal.screen)
            terminal.type(ENTER)
            terminal.until(lambda: "I-search" not in terminal.screen)
            terminal.type(ENTER)
            assert sent(server, terminal, 3) == "alpha first"
    (path,) = (project.home / ".coder" / "projects").glob("*/history")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    other = project.home / "other"
    other.mkdir()
    with (
        ScriptedServer(ANSWERS) as server,
        Terminal(project, server.url, "--cwd", str(other), columns=columns, rows=rows) as terminal,
    ):
        terminal.until_idle()
        terminal.type(UP)
        terminal.type("nothing before this")
        terminal.until(lambda: terminal.screen.endswith("> nothing before this"))


def test_up_moves_within_the_text_before_it_goes_to_history(project: Project) -> None:
    with ScriptedServer(ANSWERS) as server, Terminal(project, server.url) as terminal:
        terminal.until_idle()
        terminal.send("earlier")
        sent(server, terminal)
        terminal.type("ab\ncd")
        terminal.type(UP + "X")
        terminal.until("> abX")
        terminal.type(UP)
        terminal.until(lambda: terminal.screen.endswith("> earlier"))


@SIZES
def test_a_paste_is_a_placeholder_and_is_sent_whole(project: Project, columns: int, rows: int) -> None:
    pasted = "line 1\nline 2\n\tline 3"
    with (
        ScriptedServer(ANSWERS) as server,
        Terminal(project, server.url, columns=columns, rows=rows) as terminal,
    ):
        terminal.until_idle()
        terminal.type("see ")
        terminal.paste(pasted.replace("\n", "\r"))
        terminal.until(lambda: says(terminal, "see [pasted 3 lines]"))
        assert "line 2" not in terminal.screen
        terminal.type(" and ")
        terminal.paste(pasted)
        terminal.until("[pasted 3 lines #2]")
        terminal.type(BACKSPACE)
        terminal.until(lambda: "#2" not in terminal.screen)
        terminal.type("more" + ENTER)
        assert sent(server, terminal) == f"see {pasted} and more"


def test_a_pasted_line_goes_in_as_it_is_and_its_escapes_inert(project: Project) -> None:
    with ScriptedServer(ANSWERS) as server, Terminal(project, server.url) as terminal:
        terminal.until_idle()
        terminal.paste("short \x1b]2;owned\x07 text")
        terminal.until("text")
        assert "owned" not in "".join(terminal.paper.titles)
        terminal.type(ENTER)
        assert sent(server, terminal).startswith("short ")


@pytest.mark.thorough
@SIZES
def test_a_long_line_is_collapsed_too(project: Project, columns: int, rows: int) -> None:
    with (
        ScriptedServer(ANSWERS) as server,
        Terminal(project, server.url, columns=columns, rows=rows) as terminal,
    ):
        terminal.until_idle()
        terminal.paste("x" * 100_000)
        terminal.until("[pasted 1 line]")
        terminal.type(ENTER)
        assert sent(server, terminal) == "x" * 100_000


def test_a_question_on_the_command_line_is_the_first_turn(project: Project) -> None:
    with ScriptedServer(ANSWERS) as server, Terminal(project, server.url, "what", "now") as terminal:
        terminal.until("answer0")
        assert sent(server, terminal) == "what now"
        assert terminal.text.startswith("coder · ")  # the heading is above the first message
        assert "\n› what now\n" in terminal.text


def test_a_dumb_terminal_gets_lines(project: Project) -> None:
    with ScriptedServer(ANSWERS) as server, Terminal(project, server.url, term="dumb") as terminal:
        terminal.until("[default] ")
        terminal.type("hello\n")
        terminal.until("answer0")
        terminal.until(lambda: terminal.screen.endswith(">"))
        assert b"\x1b" not in terminal.raw
        terminal.type(CTRL_D)
        assert terminal.ended() == 0


@pytest.mark.parametrize("term", ["xterm-256color", "dumb"])
def test_help_and_exit_need_no_slash(project: Project, term: str) -> None:
    with ScriptedServer(ANSWERS) as server, Terminal(project, server.url, term=term) as terminal:
        terminal.until("[default] ")
        terminal.send("help")
        terminal.until(lambda: says(terminal, "!command runs a command of your own"))
        terminal.send("help me")
        terminal.until("answer0")
        assert messages(server) == ["help me"]
        terminal.send(" Exit ")
        assert terminal.ended() == 0
        assert messages(server) == ["help me"]


def test_piped_stdin_is_one_turn(project: Project) -> None:
    with ScriptedServer(ANSWERS) as server:
        done = project.coder(url=server.url, stdin="from a pipe")
    assert (done.returncode, done.stdout) == (0, "answer0\n")
    assert messages(server) == ["from a pipe"]


def test_no_colour_where_none_is_wanted(project: Project) -> None:
    script = [{"text": "# head\n\n**bold**\n\n```python\nx = 1\n```"}]
    with ScriptedServer(script) as server, Terminal(project, server.url, NO_COLOR="1") as terminal:
        terminal.until_idle()
        terminal.send("go")
        terminal.until("x = 1")
        terminal.until_idle()
        assert b"\x1b[1m" not in terminal.raw
        assert b"\x1b[9" not in terminal.raw


def test_plain_mode_has_no_live_rows_and_no_spinner(project: Project) -> None:
    project.configure(ui={"plain": True})
    script = [{"text": "one two\n\nthree four", "chunk": 2, "delay": 0.02}]
    with ScriptedServer(script) as server, Terminal(project, server.url) as terminal:
        terminal.until_idle()
        terminal.send("go")
        terminal.until("three four")
        terminal.until_idle()
        assert "waiting for the model" not in terminal.raw.decode()
        assert not any(spin in terminal.raw.decode() for spin in "⠋⠙⠹⠸⠼")
        assert terminal.raw.decode().count("one two") == 1


def test_keys_that_stop_other_programs_output_do_nothing(project: Project) -> None:
    with ScriptedServer(ANSWERS) as server, Terminal(project, server.url) as terminal:
        terminal.until_idle()
        terminal.type("one\x13\x11 two")
        terminal.until(lambda: terminal.screen.endswith("> one two"))
        terminal.type(ENTER)
        assert sent(server, terminal) == "one two"


def test_one_turn_on_a_terminal_shows_the_answer_as_a_session_does(project: Project) -> None:
    answer = "**Cause:** `total` skips one.\n\n- a\n- b\n\n| x | y |\n|---|---|\n| 1 | 2 |\n"
    with ScriptedServer([{"text": answer}] * 2) as server:
        with Terminal(project, server.url, "--once", "why?") as terminal:
            assert terminal.ended() == 0
        rows = [row.rstrip() for row in terminal.text.split("\n")]
        assert rows[:4] == ["Cause: total skips one.", "", "• a", "• b"]
        assert "|---|" not in terminal.text
        with Terminal(project, server.url, "--once", "why?", NO_COLOR="1") as plain:
            assert plain.ended() == 0
        assert "**Cause:** `total` skips one." in plain.text
