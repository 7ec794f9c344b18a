"""Answers on a terminal that is written to once: no word in two pieces, and nothing lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pty_kit import Terminal
from repl_kit import SIZES

from coder.ui.terminal.render.width import WordWrapper, text_width
from kit import ScriptedServer
from kit.driving import Project

PROSE = (
    "The first paragraph has many words, and one of them stands at the end of every row on every screen. "
    "中文没有空格，所以可以在任何两个字之间换行，但是标点不能放在行首。And English again.\n\n"
    "- an item that is longer than forty columns and so is broken as well\n"
)
CODE = "```\nx = 'a line of code that is longer than the screen is wide and is not broken by us'\n```\n"


def broken(text: str, width: int, sizes: list[int]) -> str:
    breaker, out, at = WordWrapper(width), "", 0
    for size in sizes:
        out += breaker.feed(text[at : at + size])
        at += size
    return out + breaker.feed(text[at:]) + breaker.finish()


@given(st.text(alphabet="ab 中，\n`|"), st.integers(4, 20), st.lists(st.integers(1, 9)))
def test_nothing_is_lost_however_it_comes(text: str, width: int, sizes: list[int]) -> None:
    out = broken(text, width, sizes)
    assert "".join(out.split()) == "".join(text.split())
    assert out == broken(text, width, [])
    assert out.count("\n") >= text.count("\n")


@pytest.mark.parametrize("width", [20, 40, 80])
def test_rows_end_between_words(width: int) -> None:
    rows = broken(PROSE, width, []).split("\n")
    assert all(text_width(row) <= width for row in rows)
    words = {word for row in rows for word in row.split()}
    assert {"The", "first", "paragraph", "has", "many", "words,", "English", "again."} <= words
    assert not any(row.startswith(("，", "。")) for row in rows)


LONG_WORDS = ["a" * 50, "é" * 50, "a\u0301" * 50, "中", "，", "（", " ", "\n"]


@given(st.lists(st.sampled_from(LONG_WORDS)).map("".join), st.lists(st.integers(1, 30)))
def test_a_word_that_fits_no_row_comes_to_the_same_in_any_pieces(text: str, sizes: list[int]) -> None:
    assert broken(text, 8, sizes) == broken(text, 8, [])


def test_a_word_that_fits_no_row_is_not_held_back() -> None:
    """Else each piece of it would be joined to all before it: a minute for a picture in Base64."""
    breaker = WordWrapper(20)
    out = breaker.feed("the word ")
    for _ in range(100):
        out += breaker.feed("abcd")
    assert out == f"the word\n{'abcd' * 100}"
    assert out + breaker.feed(" ends") + breaker.finish() == f"{out}\nends"


def test_code_and_tables_are_left_alone() -> None:
    table = "| a cell of a table | another cell of it |\n"
    text = f"{CODE}{table}"
    assert broken(text, 20, [3, 5, 7]) == text
    assert broken(f"{CODE}after the code it goes on", 20, []) == f"{CODE}after the code it\ngoes on"


@SIZES
@pytest.mark.parametrize("front", ["once", "lines"])
def test_an_answer_on_the_screen(project: Project, columns: int, rows: int, front: str) -> None:
    script = [{"reasoning": PROSE, "text": PROSE + CODE + "The end.", "chunk": 7}]
    args, term = (("--once", "go"), "xterm-256color") if front == "once" else ((), "dumb")
    with (
        ScriptedServer(script) as server,
        Terminal(project, server.url, *args, columns=columns, rows=rows, term=term) as terminal,
    ):
        if front == "lines":
            terminal.until_prompt()
            terminal.send("go")
        terminal.until("The end.")
        shown = [row.strip() for row in terminal.text.split("\n")]
    words = {word for row in shown for word in row.split()}
    assert {word for word in PROSE.split() if word.isascii()} <= words
    assert "".join(PROSE.split()) in "".join("".join(shown).split())
