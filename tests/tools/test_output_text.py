"""What a program printed becomes text for a model: nothing that only a terminal understands, and bounded."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coder.base.process.output import Printed, cut_pair, folded, plain


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("plain\ttext\n", "plain\ttext\n"),
        ("\x1b[1;31mred\x1b[0m\n", "red\n"),
        ("\x1b[38;2;1;2;3mtrue\x1b[m colour", "true colour"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1b]8;;https://example.org\x1b\\link\x1b]8;;\x1b\\!", "link!"),
        ("\x1b(B\x1b=ok\x1b7\x1b8", "ok"),
        ("\x1b[?25l\x1b[2Jcleared\x1b[?25h", "cleared"),
        ("\x1b]0;never ended\nnext", "\nnext"),
        ("\x9b31mred", "red"),
        ("bell\x07 and\x0e\x0f shift", "bell and shift"),
        ("a\x00b", "a␀b"),
        ("", ""),
        ("\x1b", ""),
    ],
)
def test_escape_sequences_go_and_their_text_stays(raw: str, text: str) -> None:
    assert plain(raw) == text


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("  1%\r 50%\r100%\ndone\n", "100%\ndone\n"),
        ("windows\r\nlines\r\n", "windows\nlines\n"),
        ("Fetching 1/3: a\r\x1b[KFetching 2/3: bb\r\x1b[KFetched\n", "Fetched\n"),
        ("\x1b[2K\x1b[1Gstep one\x1b[2K\x1b[1Gstep two\n", "step two\n"),
        ("| work\r/ work\r- work\r\\ work\rready\n", "ready\n"),
        # An old Mac's line ends are between unlike texts: nothing was drawn over.
        (
            "import os\rimport sys\rprint(os.name)\rprint(sys.path)\r",
            "import os\nimport sys\nprint(os.name)\nprint(sys.path)",
        ),
    ],
)
def test_of_a_line_drawn_over_itself_the_last_state_is_left(raw: str, text: str) -> None:
    assert plain(raw) == text


def test_backspaces_are_applied() -> None:
    assert plain("N\bNA\bAM\bME\bE _\bx") == "NAME x"  # as man(1) prints bold and underlined
    assert plain("|\b/\b-\bdone\n\b\bnext") == "done\nnext"


@given(st.text(alphabet=st.sampled_from("ab1 \n\t\r\b\x00\x07\x1b[]0;?mKGHJ\\(B\x9b")))
def test_whatever_comes_nothing_is_left_that_acts_on_a_terminal(raw: str) -> None:
    assert re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", plain(raw)) is None
    assert plain(plain(raw)) == plain(raw)


@given(st.text(alphabet=st.characters(exclude_categories=["Cc", "Cs"])))
def test_text_without_controls_is_left_alone(text: str) -> None:
    assert plain(text) == text


def test_many_identical_lines_are_one_and_their_number() -> None:
    assert folded("a\n" + "tick\n" * 501 + "b") == "a\ntick\n[… 500 more lines like this …]\nb"
    assert folded("tick\n" * 5) == "tick\n" * 5


def test_a_long_text_is_cut_between_lines_and_says_how_much_is_missing() -> None:
    lines = [f"line {number}" for number in range(5000)]
    whole = Printed("\n".join(lines) + "\n")
    cut = whole.cut(12_000, "; all of it: FILE")
    assert len(cut.encode()) <= 12_100
    head, mark, tail = re.split(r"\n(\[…[^\]]*\])\n", cut)
    assert head.split("\n") == lines[: head.count("\n") + 1]
    assert tail.rstrip("\n").split("\n") == lines[-tail.count("\n") :]
    left = lines[head.count("\n") + 1 : -tail.count("\n")]
    missing = len(whole.head) - len(head) - 1 - len(tail)
    assert mark == f"[… {len(left)} lines ({missing} bytes) left out; all of it: FILE …]"
    assert Printed("x" * 30_000).cut(12_000).count("x") == 12_000


@given(st.text(alphabet="ab\n€"), st.text(alphabet="ab\n€"), st.integers(min_value=60, max_value=400))
def test_two_streams_share_one_limit(out: str, err: str, limit: int) -> None:
    first, second = cut_pair(Printed(out), Printed(err), limit)
    if len(out.encode()) + len(err.encode()) <= limit:
        assert (first, second) == (out, err)
    marks = 2 * len("\n[… 1000 lines (1000 bytes) left out …]\n".encode())
    assert len(first.encode()) + len(second.encode()) <= limit + marks
