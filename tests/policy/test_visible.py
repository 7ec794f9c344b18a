"""What a screen does not show is made visible, and nothing is left out."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coder.policy.visible import MARK, visible, warnings
from coder.texts import Catalog
from coder.ui.terminal.render.width import char_width

UNSEEN = (
    *("\u200b\u200c\u200d\u2060\u2063\ufeff\u00ad\u061c\u180e\u034f", "\u3164\uffa0\u115f\u1160\u2800\u17b4"),
    *("\u202a\u202e\u2066\u2069\u200e\u200f", "\ufe0f\ufe00\U000e0100\U000e0041\U000e007f"),
    *("\u00a0\u1680\u2003\u202f\u205f\u3000", "\u2028\u2029\x85", "\x00\x07\x08\x0b\x1b\x7f\x9b\r", "\ud800"),
    "\U0001d173\ue000\ufff9",
    "\u2d7f\U0001107f\U00010a3f\U00016fe4\U0001d159",
    "\U00013440\U00013441\U00013442\U00011f42\U000113d0",  # of Unicode 15 and 16
)
# Unicode's own list (Default_Ignorable_Code_Point) of what has no shape.
IGNORABLE = (
    *((0xAD, 0xAD), (0x34F, 0x34F), (0x61C, 0x61C), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F)),
    *((0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F), (0x3164, 0x3164), (0xFE00, 0xFE0F)),
    *((0xFEFF, 0xFEFF), (0xFFA0, 0xFFA0), (0xFFF0, 0xFFF8), (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A)),
    (0xE0000, 0xE0FFF),
)


@pytest.mark.parametrize("char", "".join(UNSEEN), ids=lambda char: f"U+{ord(char):04X}")
def test_what_cannot_be_seen_stands_there_by_its_code(char: str) -> None:
    seen = visible(f"git{char}status")
    assert seen.text == f"git⟨U+{ord(char):04X}⟩status"
    assert seen.hidden == 1
    assert warnings(seen, Catalog("en"))
    assert warnings(seen, Catalog("zh"))


def test_nothing_that_unicode_calls_ignorable_is_left() -> None:
    codes = [code for first, last in IGNORABLE for code in range(first, last + 1)]
    assert [code for code in codes if visible(chr(code)).hidden != 1] == []


@pytest.mark.parametrize(
    "text",
    [
        "git commit -m 'fix: tabs\tand 中文，标点。 naïve Ünïcode ∀x → y ¥ 🎉'",
        "python3 - <<'EOF'\nif x:\n" + " " * 40 + "deep()\n\tmake:\n\n\nend\nEOF",
        "echo a  b        c",
        "",
    ],
)
def test_ordinary_text_is_shown_as_it_is(text: str) -> None:
    seen = visible(text)
    assert seen.text == text
    assert warnings(seen, Catalog("en")) == []


def test_a_family_is_marked_and_still_there() -> None:
    assert visible("echo '👨\u200d👩'").text == "echo '👨⟨U+200D⟩👩'"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("ls" + " " * 2500 + "; rm x", "ls␠×2500; rm x"),
        (" " * 2500 + "rm x", "␠×2500rm x"),
        ("ls" + "\t" * 300 + "rm", "ls⇥×300rm"),
        ("ls" + " " * 30 + "\t" * 30 + "rm", "ls␠×30⇥×30rm"),
        ("ls" + " \t" * 100 + "rm", "ls␠⇥×200rm"),
        ("+x" + " " * 100 + "y", "+x␠×100y"),
        ("ls\n" + "\n" * 2500 + "rm x", "ls\n⏎×2500\nrm x"),
        ("ls\n" + "   \n" * 90 + "rm x", "ls\n⏎×90\nrm x"),
        ("\n" * 90 + "rm x", "⏎×90\nrm x"),
        ("ls" + "\u00a0" * 2500 + "rm", "ls⟨U+00A0⟩×2500rm"),
    ],
)
def test_runs_are_counted(text: str, shown: str) -> None:
    assert visible(text).text == shown
    assert warnings(visible(text), Catalog("en"))


def test_a_long_line_is_told() -> None:
    assert "Its longest line has 9001 characters." in warnings(visible("a\n" + "x" * 9001), Catalog("en"))


@given(st.text(st.one_of(st.characters(), st.sampled_from(" \t\n" + "".join(UNSEEN))), max_size=200))
def test_nothing_unseen_is_left_and_nothing_seen_is_lost(text: str) -> None:
    shown = visible(text).text
    assert all(char in "\n\t" or char.isprintable() for char in shown)
    blank = re.compile(r"[\s⟨⟩]|[␠⇥⏎×]")
    for char in set(text):
        if char.isprintable() and char_width(char) and not blank.match(char):
            assert char in shown
    unmarked = re.sub(MARK, "", shown)
    assert not set(unmarked) & set("".join(UNSEEN))
