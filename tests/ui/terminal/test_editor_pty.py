"""The editor on a real screen: where the caret stands, what is shown, what a paste and a lost terminal do."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest
from pty_kit import ANSWERS, CTRL_C, ENTER, ESC, UP, Terminal, messages, sent
from repl_kit import says
from wcwidth import wcwidth

from coder.models.scripted import Script
from kit import ScriptedServer
from kit.driving import Project

SIZES = pytest.mark.parametrize(("columns", "rows"), [(80, 24), (40, 10), (200, 50)])
LEFT, RIGHT, HOME, END = "\x1b[D", "\x1b[C", "\x01", "\x05"
MARGIN = 2  # before every row of the text but the first


def place_of(text: str, begin: tuple[int, int], columns: int) -> tuple[int, int]:
    """Where the caret stands after `text`: each character in its cells, none of them cut by the edge."""
    x, y = begin
    for char in text:
        if char == "\n":
            x, y = MARGIN, y + 1
            continue
        width = max(0, wcwidth(char))
        if x + width > columns:
            x, y = MARGIN, y + 1
        x += width
    return (x, y) if x < columns else (MARGIN, y + 1)


def begin_of(terminal: Terminal) -> tuple[int, int]:
    """Where the text begins, once the prompt is drawn and the caret stands behind it."""
    terminal.until("session ")  # it comes with the first events, and moves the prompt down
    terminal.until_idle()

    def behind_prompt() -> bool:
        x, y = terminal.caret
        return terminal.paper.display[y][:x].endswith("> ") and not terminal.paper.display[y][x:].strip()

    terminal.until(behind_prompt)
    return terminal.caret


@contextmanager
def at_prompt(
    project: Project, columns: int, rows: int, script: Script = ANSWERS
) -> Iterator[tuple[ScriptedServer, Terminal]]:
    """A terminal of that size whose prompt takes text."""
    with (
        ScriptedServer(script) as server,
        Terminal(project, server.url, columns=columns, rows=rows) as terminal,
    ):
        begin_of(terminal)
        yield server, terminal


@SIZES
def test_the_caret_stands_where_the_next_character_will(project: Project, columns: int, rows: int) -> None:
    with (
        ScriptedServer(ANSWERS) as server,
        Terminal(project, server.url, columns=columns, rows=rows) as terminal,
    ):
        begin = begin_of(terminal)

        def stands(text: str) -> None:
            """After `text`; a text that fills the screen's last row has pushed the prompt up."""
            wanted = place_of(text, begin, columns)
            terminal.until(lambda: terminal.caret == wanted)

        for piece in ("abc", "你好", "😀", "e\u0301", "한", "x"):
            terminal.type(piece)
        whole = "abc你好😀e\u0301한x"
        stands(whole)
        terminal.type(LEFT * 2)
        stands(whole[:-2])
        terminal.type("们")
        stands("abc你好😀e\u0301们")
        terminal.type(HOME)
        stands("")
        terminal.type(RIGHT * 4)
        stands("abc你")
        terminal.type(END)
        stands("abc你好😀e\u0301们한x")
        terminal.type(CTRL_C)
        stands("")
        # at the edge: exactly full, then a wide character that would be cut in two
        room = columns - begin[0]
        terminal.type("y" * room)
        stands("y" * room)
        terminal.type("\x7f" + "宽")
        stands("y" * (room - 1) + "宽")
        terminal.type("z")
        stands("y" * (room - 1) + "宽z")
        terminal.type(LEFT * 2)
        terminal.until(
            lambda: terminal.caret in ((MARGIN, begin[1] + 1), (columns - 1, begin[1]))
        )  # before the wide character: at its own place, or at the edge it did not fit
        terminal.type(CTRL_C)
        stands("")
        # rows that end with an empty column, the last of them full
        row = "宽" * ((columns - MARGIN) // 2)
        first = "a" * (1 - room % 2) + "宽" * ((room - 1) // 2)
        terminal.type(first + row)
        stands(first + row)
        terminal.type("z")
        stands(first + row + "z")
        terminal.type(CTRL_C)
        stands("")
        # a tab takes the space up to the next stop
        terminal.paste("\ta\tb")
        terminal.until(lambda: terminal.caret == (begin[0] + 9, begin[1]))
        terminal.type(CTRL_C)
        stands("")
        # several lines
        terminal.type("第一行\x1b\rsecond\x1b\rthird")
        stands("第一行\nsecond\nthird")
        terminal.type(UP)
        stands("第一行\nsecon")
        terminal.type(HOME + "X")
        stands("第一行\nX")
        terminal.type(ENTER)
        assert sent(server, terminal) == "第一行\nXsecond\nthird"


@SIZES
def test_a_text_of_several_rows_and_its_way_through_history(
    project: Project, columns: int, rows: int
) -> None:
    long = "word " * 20 + "end"
    with at_prompt(project, columns, rows) as (server, terminal):
        terminal.type(f"{long}\x1b\rsecond row")
        terminal.until("second row")
        terminal.type(ENTER)
        assert sent(server, terminal) == f"{long}\nsecond row"
        begin_of(terminal)
        terminal.type("draft" + UP)
        terminal.until(lambda: terminal.screen.endswith("end\n  second row"))
        terminal.type(" more")
        terminal.until("second row more")
        terminal.type(ENTER)
        assert sent(server, terminal, 2) == f"{long}\nsecond row more"


def test_rows_of_the_text_end_between_words(project: Project) -> None:
    with at_prompt(project, 44, 20) as (server, terminal):
        begin_of(terminal)
        terminal.type("please look at the parser and mend what breaks 中文的文字可以在任何地方换行")
        terminal.until("换行")
        assert terminal.screen.endswith(
            "> please look at the\n  parser and mend what breaks 中文的文字可以\n  在任何地方换行"
        ), terminal.screen
        terminal.type(UP + "X" + ENTER)
        text = "please look at the parser and menXd what breaks 中文的文字可以在任何地方换行"
        assert sent(server, terminal) == text


@SIZES
def test_search_shows_what_it_finds_and_is_private_to_the_project(
    project: Project, columns: int, rows: int
) -> None:
    with at_prompt(project, columns, rows) as (server, terminal):
        for at, text in enumerate(("alpha", "beta", "alps")):
            terminal.send(text)
            sent(server, terminal, at + 1)
        begin_of(terminal)
        terminal.type("\x12al")
        terminal.until(lambda: terminal.screen.endswith("> alps\nI-search backward: al"))
        terminal.type("\x12")
        terminal.until(lambda: terminal.screen.endswith("> alpha\nI-search backward: al"))
        terminal.type(CTRL_C)
        terminal.until(lambda: terminal.screen.endswith("project>"))
        terminal.type("\x12BET" + ENTER)
        terminal.until(lambda: terminal.screen.endswith("> beta"))
        terminal.type(ENTER)
        assert sent(server, terminal, 4) == "beta"


@SIZES
def test_ctrl_l_clears_the_screen_and_keeps_the_scrollback_and_the_text(
    project: Project, columns: int, rows: int
) -> None:
    with at_prompt(project, columns, rows) as (server, terminal):
        terminal.send("hello")
        sent(server, terminal)
        begin_of(terminal)
        terminal.type("half\x0c")
        terminal.until(lambda: "answer0" not in terminal.screen and "> half" in terminal.screen)
        assert "answer0" in terminal.text
        assert "> half" in "\n".join(terminal.paper.display[:4])
        terminal.type(" done" + ENTER)
        assert sent(server, terminal, 2) == "half done"


@SIZES
def test_a_paste_is_shown_short_also_while_a_turn_runs(project: Project, columns: int, rows: int) -> None:
    pasted = "\tfirst\r\nsecond \x1b[31mred\rthird\n"
    script = [{"text": "wait", "chunk": 1, "delay": 0.2}, {"text": "done"}]
    with at_prompt(project, columns, rows, script) as (server, terminal):
        terminal.send("go")
        terminal.until(lambda: len(server.chats) == 1)
        terminal.paste(pasted)
        terminal.until("[pasted 3 lines]")
        terminal.type("why?" + ENTER)
        terminal.until("done")
        assert "first" not in "\n".join(terminal.paper.display[-1:])
        assert sent(server, terminal, 2) == "\tfirst\nsecond \x1b[31mred\nthird\nwhy?".strip()
        assert not any(message.get("tool_calls") for message in server.chats[1]["messages"])  # typed: why?


@SIZES
def test_what_is_queued_is_taken_back_edited_and_sent(project: Project, columns: int, rows: int) -> None:
    script = [{"text": "slow answer", "chunk": 1, "delay": 0.1}, {"text": "done"}]
    with at_prompt(project, columns, rows, script) as (server, terminal):
        terminal.send("go")
        terminal.until(lambda: len(server.chats) == 1)
        terminal.send("queued text")
        terminal.until("takes it back): queued text")
        terminal.type(UP)
        terminal.until(lambda: "> queued text" in terminal.screen and "takes it back" not in terminal.screen)
        terminal.type(" edited" + ENTER)
        assert sent(server, terminal, 2) == "queued text edited"


@pytest.mark.thorough
@SIZES
def test_a_megabyte_is_pasted_whole(project: Project, columns: int, rows: int) -> None:
    pasted = "".join(f"line {n} of a long text\n" for n in range(40_000))
    project.configure(runtime={"context_window": 2_000_000}, workflow={"require_todo_for_complex": False})
    with at_prompt(project, columns, rows) as (server, terminal):
        data = f"\x1b[200~{pasted}\x1b[201~".encode()
        os.set_blocking(terminal.fd, False)
        deadline = time.monotonic() + 60
        while data and time.monotonic() < deadline:
            try:
                data = data[os.write(terminal.fd, data[:4096]) :]
            except BlockingIOError:
                terminal.pump(0.001)
        os.set_blocking(terminal.fd, True)
        terminal.until(lambda: says(terminal, "[pasted 40000 lines]"))
        terminal.type(ENTER)
        terminal.until(lambda: len(server.chats) == 1)
        assert messages(server)[-1].strip() == pasted.strip()


@SIZES
def test_a_paste_that_broke_off_is_ended_by_a_key(project: Project, columns: int, rows: int) -> None:
    with at_prompt(project, columns, rows) as (server, terminal):
        terminal.type("\x1b[200~one\ntwo")
        terminal.pump(1.2)  # the silence after which a single key is a key
        assert "[pasted" not in terminal.screen
        terminal.type("!")
        terminal.until("[pasted 2 lines]!")
        terminal.type(ENTER)
        assert sent(server, terminal) == "one\ntwo!"


@SIZES
def test_a_terminal_that_dies_in_the_middle_of_a_paste_ends_the_session(
    project: Project, columns: int, rows: int
) -> None:
    with at_prompt(project, columns, rows) as (server, terminal):
        terminal.send("go")
        sent(server, terminal)
        terminal.type("draft \x1b[200~half of a sec")
        terminal.until("> draft")
        assert terminal.close() >= 0  # of itself, by no signal
        assert len(server.chats) == 1
    assert project.of_type("session_end")


def test_sequences_that_nobody_knows_are_no_text_and_cancel_nothing(project: Project) -> None:
    script = [{"text": "slow answer to the end", "chunk": 1, "delay": 0.05}, {"text": "done"}]
    with ScriptedServer(script) as server, Terminal(project, server.url) as terminal:
        begin_of(terminal)
        terminal.send("go")
        terminal.until(lambda: len(server.chats) == 1)
        terminal.type("a\x1b[99;5u\x1b[?62;4c\x1b]11;rgb:0/0/0\x07b")
        terminal.until("to the end")
        terminal.until(lambda: terminal.screen.endswith("> ab"))
        assert "Cancelled" not in terminal.text


@SIZES
def test_vim_keys_on_the_screen(project: Project, columns: int, rows: int) -> None:
    project.configure(ui={"vim": True})
    with (
        ScriptedServer(ANSWERS) as server,
        Terminal(project, server.url, columns=columns, rows=rows) as terminal,
    ):
        x, y = begin_of(terminal)
        terminal.type("one 中文 two")
        terminal.until(lambda: terminal.caret == (x + 12, y))
        terminal.type(ESC)
        terminal.until(lambda: terminal.caret == (x + 11, y))
        for keys, caret in (("0", 0), ("w", 4), ("l", 6), ("b", 4), ("w", 9), ("Fe", 2)):
            terminal.type(keys)
            terminal.until(partial(lambda place: terminal.caret == place, (x + caret, y)))
        terminal.type("0wdwP")
        terminal.until(lambda: terminal.caret == (x + 8, y))
        terminal.type("0wce词")
        terminal.until(lambda: terminal.caret == (x + 6, y))
        terminal.type(ESC)
        terminal.until(lambda: terminal.caret == (x + 4, y))
        terminal.type(ENTER)
        assert sent(server, terminal) == "one 词 two"
