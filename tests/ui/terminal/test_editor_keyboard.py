"""From bytes to keys: pastes that arrive in any pieces, or break off; sequences that nobody knows."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.keys import Keys

from coder.ui.terminal.input.keyboard import PASTE_BEGINS, PASTE_ENDS, Keyboard

PASTED = "<pasted>"


class Ear:
    """Hears the keys, written down as text."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.keyboard = Keyboard(self._take)

    def _take(self, press: KeyPress) -> None:
        if press.key == Keys.BracketedPaste:
            self.heard += [PASTED, press.data]
        else:
            self.heard.append(press.key.value if isinstance(press.key, Keys) else press.key)

    def hear(self, *pieces: str) -> list[str]:
        for piece in pieces:
            self.keyboard.feed(piece)
        self.keyboard.flush()
        heard, self.heard = self.heard, []
        return heard


def cut(text: str, edges: list[int]) -> list[str]:
    points = sorted({0, len(text), *(edge for edge in edges if edge < len(text))})
    return [text[a:b] for a, b in pairwise(points)]


@given(st.text(alphabet="ab\x1b[201~\r\n\t", max_size=40), st.lists(st.integers(0, 60), max_size=8))
def test_a_paste_arrives_whole_in_whatever_pieces(text: str, edges: list[int]) -> None:
    text = text.replace(PASTE_ENDS, "").replace(PASTE_BEGINS, "")
    if not text or PASTE_ENDS in text + PASTE_ENDS[:-1]:
        return
    assert Ear().hear(*cut(f"x{PASTE_BEGINS}{text}{PASTE_ENDS}y", edges)) == ["x", PASTED, text, "y"]


@given(st.lists(st.integers(0, 60), max_size=8))
def test_keys_are_the_same_in_whatever_pieces(edges: list[int]) -> None:
    typed = "a\x1b[A\x1b[1;5C\x1bb\x1b\r\x1b[13;2u\x1b[[A中\x03\x1bOP"
    whole = Ear().hear(typed)
    assert Ear().hear(*cut(typed, edges)) == whole
    assert whole == [
        *("a", "up", "c-right", "escape", "b", "escape", "c-m", "escape", "c-m", "f1", "中", "c-c", "f1"),
    ]


@pytest.mark.parametrize(
    "sequence",
    ["\x1b[99;5u", "\x1b[?62;4c", "\x1b[>1;10;0c", "\x1b[I", "\x1b]11;rgb:00/00/00\x07", "\x1bP>|x\x1b\\"],
)
def test_a_sequence_that_nobody_knows_types_nothing_and_is_no_escape(sequence: str) -> None:
    assert Ear().hear(f"a{sequence}b") == ["a", "b"]
    assert Ear().hear("a", *sequence[:3], sequence[3:], "b") == ["a", "b"]


def test_escape_and_alt_bracket_are_keys() -> None:
    assert Ear().hear("\x1b") == ["escape"]
    assert Ear().hear("\x1b[") == ["escape", "["]
    assert Ear().hear("\x1b\x1b") == ["escape", "escape"]


def test_a_paste_that_broke_off_ends_with_the_next_key_and_enter_does_not_send_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0
    monkeypatch.setattr("coder.ui.terminal.input.keyboard.time.monotonic", lambda: now)
    for key, handled in (("\x03", ["c-c"]), ("\r", []), ("x", ["x"])):
        ear = Ear()
        assert ear.hear(f"{PASTE_BEGINS}half of", " it") == []
        now += 0.5
        assert ear.hear("!") == []  # slow, but alive
        now += 1.5
        assert ear.hear("more of it") == []  # nobody presses ten keys at once
        now += 1.5
        assert ear.hear(key) == [PASTED, "half of it!more of it", *handled]
        assert ear.hear("y") == ["y"]


def test_a_paste_that_begins_inside_another_stands_for_itself() -> None:
    heard = Ear().hear(f"{PASTE_BEGINS}lost", f"{PASTE_BEGINS}whole{PASTE_ENDS}")
    assert heard == [PASTED, "lost", PASTED, "whole"]
