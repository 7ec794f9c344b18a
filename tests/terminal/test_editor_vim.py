"""Vim mode: every command that is promised, with its count, as vim itself does it."""

from __future__ import annotations

import asyncio

import pytest
from editor_kit import ESCAPE, Bench, typed
from hypothesis import given
from hypothesis import strategies as st

from coder.terminal.vim.commands import Page, apply_command, is_incomplete, parse_command

E = ESCAPE
CASES = [
    # keys pressed with the caret on the first letter of "one two three", and what is left
    ("x", "ne two three"),
    ("wx", "one wo three"),
    ("wwbx", "one wo three"),
    ("ex", "on two three"),
    ("$x", "one two thre"),
    ("llhx", "oe two three"),
    ("fwx", "one to three"),
    ("twx", "one wo three"),
    ("$Fwx", "one to three"),
    ("$Twx", "one tw three"),
    ("2fex", "one two thre"),
    ("fe;x", "one two thre"),
    ("$0x", "ne two three"),
    ("$gwx", "one two thre"),
    ("2wx", "one two hree"),
    ("$3hx", "one two tree"),
    ("dw", "two three"),
    ("d2w", "three"),
    ("2dw", "three"),
    ("wdb", "two three"),
    ("de", " two three"),
    ("wd0", "two three"),
    ("wd$", "one "),
    ("dfw", "o three"),
    ("dtw", "wo three"),
    ("$dFw", "one te"),
    ("dd", ""),
    ("wD", "one "),
    (f"wCnew{E}", "one new"),
    (f"cwnew{E}", "new two three"),
    (f"c2wnew{E}", "new three"),
    (f"ccnew{E}", "new"),
    (f"wciwnew{E}", "one new three"),
    ("wdaw", "one three"),
    ("yw$p", "one two threeone "),
    ("ywP", "one one two three"),
    ("dwwP", "two one three"),
    ("yyp", "one two three\none two three"),
    ("ddp", "\none two three"),
    ("yw2P", "one one one two three"),
    ("rX", "Xne two three"),
    ("3rX", "XXX two three"),
    ("99rX", "one two three"),
    ("~", "One two three"),
    ("3~", "ONE two three"),
    (f"iA{E}", "Aone two three"),
    (f"aA{E}", "oAne two three"),
    (f"wIA{E}", "Aone two three"),
    (f"AZ{E}", "one two threeZ"),
    (f"3iA{E}", "AAAone two three"),
    (f"oline{E}", "one two three\nline"),
    (f"Oline{E}", "line\none two three"),
    (f"oline{E}ggx", "ne two three\nline"),
    (f"oline{E}ggGx", "one two three\nine"),
    (f"oline{E}kx", "onetwo three\nline"),
    (f"oline{E}k0jx", "one two three\nine"),
    (f"oa{E}ob{E}2ggx", "one two three\n\nb"),
    (f"oa{E}ob{E}ggdj", "b"),
    (f"oa{E}dgg", ""),
    (f"oa{E}ob{E}ggdG", ""),
    (f"I  {E}^x", "  ne two three"),
    ("x..", " two three"),
    ("dw.", "three"),
    ("x3.", "two three"),
    (f"cwX{E}w.", "X X three"),
    (f"AX{E}.", "one two threeXX"),
    (f"oX{E}.", "one two three\nX\nX"),
    ("rXl.", "XXe two three"),
    ("dwu", "one two three"),
    ("dwdwuu", "one two three"),
    (f"cwnew words{E}u", "one two three"),
    ("dwu\x12", "two three"),
    ("3x", " two three"),
    ("99x", ""),
    # motions that lead nowhere leave the text alone
    ("dtQ", "one two three"),
    ("dfQ", "one two three"),
    ("db", "one two three"),
    ("dk", "one two three"),
    ("dj", "one two three"),
    ("dh", "one two three"),
    ("2dtw", "one two three"),
    ("dzzx", "ne two three"),
]


@pytest.mark.parametrize(("keys", "wanted"), CASES, ids=[keys.replace(E, "<Esc>") for keys, _ in CASES])
def test_commands(keys: str, wanted: str) -> None:
    assert typed("one two three", f"{E}0", keys, vim=True).text == wanted


def test_wide_characters_and_punctuation_are_words_of_their_own() -> None:
    assert typed("中文abc, x", f"{E}0", "dw", vim=True).text == "abc, x"
    assert typed("中文abc, x", f"{E}0", "wwx", vim=True).text == "中文abc x"


def test_undo_belongs_to_one_prompt() -> None:
    bench = typed("secret", "\r", "new", f"{E}x", "uuu", vim=True)
    assert bench.sent == ["secret"]
    assert bench.text == ""


def test_a_key_that_is_no_command_breaks_off_what_was_waiting() -> None:
    bench = typed("one two", f"{E}0", "d", "\x1b[C", "w", "x", vim=True)  # d, Right, w, x
    assert bench.text == "one wo"


def test_escape_breaks_off_a_command_and_is_not_the_first_of_two() -> None:
    bench = typed("one two", f"{E}0", f"d{E}", f"{E}", "x", vim=True)
    assert bench.text == "ne two"
    assert typed("one two", f"{E}0", f"{E}{E}", vim=True).text == ""


def test_j_and_k_go_on_into_history() -> None:
    bench = typed("first", "\r", "second", "\r", f"{E}", "k", "k", vim=True)
    assert bench.text == "first"


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


KEYS = st.text(alphabet="123hjklwbe0^$gGfFtToxr~dcyDCpP.iaw\n中", min_size=1, max_size=4)
TEXTS = st.text(alphabet="ab .\n中", max_size=20)


@given(TEXTS, st.integers(0, 20), KEYS)
def test_whatever_is_pressed_the_caret_stays_in_the_text(text: str, at: int, keys: str) -> None:
    command = parse_command(keys)
    assert not (command and is_incomplete(keys))
    page = apply_command(Page(text, min(at, len(text))), command) if command else None
    if page is not None:
        assert 0 <= page.at <= len(page.text)
        assert page.text == text or (command and (command.operator in ("d", "c") or command.action))


DELETIONS = ["dw", "db", "d$", "dG", "dj", "dfa", "d2e", "x", "D", "dd", "diw"]


@given(TEXTS, st.integers(0, 20), st.sampled_from(DELETIONS))
def test_what_is_deleted_is_in_the_register_and_nothing_else_is_gone(text: str, at: int, keys: str) -> None:
    command = parse_command(keys)
    assert command is not None
    page = apply_command(Page(text, min(at, len(text))), command)
    if page is not None and page.text != text:
        cut = page.register.text + "\n" * page.register.lines
        assert sorted(page.text + cut) in (sorted(text), sorted(text + "\n"))
