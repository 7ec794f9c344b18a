"""Vim mode is prompt_toolkit's; these tests cover how it works together with our prompt."""

from __future__ import annotations

import asyncio

import pytest
from editor_kit import ESCAPE, Bench, typed

E = ESCAPE
CASES = [
    # keys pressed with the caret on the first letter of "one two three", and the resulting text
    ("wx", "one wo three"),
    ("2dw", "three"),
    (f"wciwnew{E}", "one new three"),
    ("yw$p", "one two threeone "),
    ("yyp", "one two three\none two three"),
    ("dfw", "o three"),
    ("~", "One two three"),
    (f"oline{E}kx", "onetwo three\nline"),
    ("dwu", "one two three"),
    ("dwu\x12", "two three"),
    ("vex", " two three"),
]


@pytest.mark.parametrize(("keys", "wanted"), CASES, ids=[keys.replace(E, "<Esc>") for keys, _ in CASES])
def test_commands(keys: str, wanted: str) -> None:
    assert typed("one two three", f"{E}0", keys, vim=True).text == wanted


def test_undo_belongs_to_one_prompt() -> None:
    bench = typed("secret", "\r", "new", f"{E}x", "u" * 9, vim=True)
    assert bench.sent == ["secret"]
    assert bench.text == ""


def test_escape_cancels_a_pending_command_and_is_not_the_first_of_two() -> None:
    bench = typed("one two", f"{E}0", f"d{E}", f"{E}", "x", vim=True)
    assert bench.text == "ne two"
    assert typed("one two", f"{E}0", f"{E}{E}", vim=True).text == ""


def test_j_and_k_go_on_into_history() -> None:
    bench = typed("first", "\r", "second", "\r", f"{E}", "k", "k", vim=True)
    assert bench.text == "first"
    assert typed("first", "\r", "second", "\r", f"{E}", "k", "k", "j", vim=True).text == "second"


def test_a_question_and_a_new_prompt_begin_in_insert_mode() -> None:
    async def run() -> None:
        bench = await Bench(vim=True).type("draft", ESCAPE)
        bench.editor.stash()
        await bench.type("y")
        assert bench.text == "y"
        bench.editor.clear()
        bench.editor.unstash()
        await bench.type(ESCAPE, "\r", "abc")
        assert (bench.sent, bench.text) == (["draft"], "abc")

    asyncio.run(run())
