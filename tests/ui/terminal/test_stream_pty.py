"""Answers as they stream: every word once in scrollback, at every size, through a resize."""

from __future__ import annotations

import re

import pytest
from pty_kit import CTRL_D, Terminal

from kit import ScriptedServer
from kit.driving import Project

SIZES = [(80, 24), (40, 10), (200, 50)]


def words(count: int) -> list[str]:
    return [f"w{at:04d}x" for at in range(count)]


def long_answer() -> str:
    """Every kind of block, each word numbered."""
    w = iter(words(400))

    def some(n: int) -> str:
        return " ".join(next(w) for _ in range(n))

    table = "| a | b |\n|---|---|\n" + "".join(f"| {some(1)} | {some(1)} |\n" for _ in range(20))
    code = "```python\n" + "".join(f"{some(1)} = '{some(1)}'\n" for _ in range(25)) + "```\n"
    items = "".join(f"- {some(5)}\n" for _ in range(8))
    quote = "".join(f"> {some(4)}\n" for _ in range(3))
    return "\n\n".join(
        [
            f"# {some(2)}",
            some(100),
            items,
            code,
            table,
            quote,
            f"**{some(3)}** `{some(1)}` {some(30)}",
            some(40),
        ]
    )


def assert_each_once(terminal: Terminal, answer: str) -> None:
    wanted = re.findall(r"w\d{4}x", answer)
    assert len(wanted) > 250
    found = re.findall(r"w\d{4}x", terminal.text)
    assert found == wanted


@pytest.mark.parametrize(("columns", "rows"), SIZES)
def test_every_word_of_a_long_answer_once_and_in_order(project: Project, columns: int, rows: int) -> None:
    answer = long_answer()
    script = [{"text": answer, "chunk": 16, "delay": 0.0005}]
    with (
        ScriptedServer(script) as server,
        Terminal(project, server.url, columns=columns, rows=rows) as terminal,
    ):
        terminal.until_idle()
        terminal.send("go")
        terminal.until(re.findall(r"w\d{4}x", answer)[-1])
        terminal.until_idle()
        assert_each_once(terminal, answer)
        assert len(server.chats) == 1


@pytest.mark.parametrize(
    ("sizes"),
    [[(80, 24), (90, 20), (100, 24)], [(40, 10), (50, 16), (60, 20)], [(200, 50), (210, 40), (230, 50)]],
)
def test_a_resize_in_the_middle_loses_and_repeats_nothing(
    project: Project, sizes: list[tuple[int, int]]
) -> None:
    """Narrowing is for the test in tmux: this screen cuts off what no longer fits, as xterm does. A row that
    was on its way while the terminal changed may be broken within a word by the terminal itself; a screen
    lower than the live rows would push some of them into scrollback."""
    answer = long_answer()
    script = [{"text": answer, "chunk": 16, "delay": 0.003}]
    (columns, rows), *others = sizes
    with (
        ScriptedServer(script) as server,
        Terminal(project, server.url, columns=columns, rows=rows) as terminal,
    ):
        terminal.until_idle()
        terminal.send("go")
        for seen, size in zip(("w0050x", "w0150x"), others, strict=True):
            terminal.until(seen)
            terminal.resize(*size)
        terminal.until(re.findall(r"w\d{4}x", answer)[-1])
        terminal.until_idle()
        found = re.findall(r"w\d{4}x", terminal.text.replace("\n", ""))
        assert found == re.findall(r"w\d{4}x", answer)


def test_one_paragraph_taller_than_the_screen_scrolls_as_it_comes(project: Project) -> None:
    answer = " ".join(words(500))
    with (
        ScriptedServer([{"text": answer, "chunk": 8, "delay": 0.001}]) as server,
        Terminal(project, server.url, columns=40, rows=10) as terminal,
    ):
        terminal.until_idle()
        terminal.send("go")
        terminal.until(lambda: "w0100x" in "\n".join(terminal.paper.scrolled))
        assert "w0499x" not in terminal.text
        terminal.until("w0499x")
        terminal.until_idle()
        assert_each_once(terminal, answer)


def test_chinese_wraps_between_characters_and_never_begins_a_row_with_punctuation(project: Project) -> None:
    answer = "终端里的中文要正确换行，不能丢字，也不能把标点放在行首。" * 12
    with (
        ScriptedServer([{"text": answer, "chunk": 3, "delay": 0.001}]) as server,
        Terminal(project, server.url, columns=40, rows=24, LANG="zh_CN.UTF-8") as terminal,
    ):
        terminal.until_idle()
        terminal.send("你好")
        terminal.until_idle()
        terminal.until(lambda: terminal.text.replace("\n", "").replace(" ", "").count("行首。") == 12)
        rows = [row for row in terminal.text.split("\n") if "终端" in row or "标点" in row or "换行" in row]
        assert all(row[0] not in "，。" for row in rows)


def test_markdown_is_shown_as_what_it_means(project: Project) -> None:
    answer = "# Head\n\nsome **bold** text\n\n- one\n- two\n\n| k | v |\n|---|---|\n| a | 1 |\n\n"
    answer += "```python\nx = 1\n```\n"
    with ScriptedServer([{"text": answer}]) as server, Terminal(project, server.url) as terminal:
        terminal.until_idle()
        terminal.send("go")
        terminal.until("x = 1")
        terminal.until_idle()
        assert "some bold text" in terminal.text
        assert "• one\n• two" in terminal.text
        assert "k │ v\n──┼──\na │ 1" in terminal.text
        assert b"\x1b[1m" in terminal.raw


def test_escapes_from_the_model_are_shown_and_not_obeyed(project: Project) -> None:
    evil = "before \x1b]2;owned\x07 \x1b[2J \x1b[31mred\x1b[0m after"
    with (
        ScriptedServer([{"text": evil, "reasoning": evil, "chunk": 3}]) as server,
        Terminal(project, server.url) as terminal,
    ):
        terminal.until_idle()
        terminal.send("go")
        terminal.until("after")
        terminal.until_idle()
        assert "␛[2J" in terminal.text
        assert "owned" not in "".join(terminal.paper.titles)


def test_thinking_is_shown_in_full_and_dim(project: Project) -> None:
    thought = "\n".join(words(40))
    with (
        ScriptedServer([{"reasoning": thought, "text": "answer"}]) as server,
        Terminal(project, server.url) as terminal,
    ):
        terminal.until_idle()
        terminal.send("go")
        terminal.until("answer")
        terminal.until_idle()
        assert re.findall(r"w\d{4}x", terminal.text) == words(40)
        assert b"\x1b[2mw0000x" in terminal.raw


def test_no_alternate_screen_no_mouse_and_commits_are_one_synchronized_write(project: Project) -> None:
    with (
        ScriptedServer([{"text": "one\n\ntwo\n\nthree"}]) as server,
        Terminal(project, server.url) as terminal,
    ):
        terminal.until_idle()
        terminal.send("go")
        terminal.until("three")
        terminal.until_idle()
        terminal.type(CTRL_D)
        assert terminal.ended() == 0
        for forbidden in (b"?1049", b"?47h", b"?1000h", b"?1002h", b"?1003h", b"\x1b[6n"):
            assert forbidden not in terminal.raw
        raw = bytes(terminal.raw)
        begun, ended = raw.count(b"\x1b[?2026h"), raw.count(b"\x1b[?2026l")
        assert begun == ended > 0
