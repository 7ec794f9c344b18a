"""However an answer arrives and wherever rows are broken: all of it once, as if it had come whole."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coder.ui.terminal.render.markdown import markdown_rows
from coder.ui.terminal.render.streamed_text import StreamedText
from coder.ui.terminal.render.width import Line

SHAPES = {
    "list": "- {}\n- {}\n- {}",
    "numbers": "1. {}\n2. {}\n3. {}",
    "paragraph": "{}\n{}",
    "quote": "> {}\n> {}",
    "nested": "- {}\n  - {}\n    - {}\n- {}",
    "heading": "## {}",
    "code": "```\n{}\n```",
    "list in a paragraph": "{}:\n- {}\n- {}\n{}",
    "heading by a line below": "{}\n===",
    "loose": "- {}\n\n  {}\n\n- {}",
}


def written(random: Random) -> str:
    """Every word is another, so that one that is doubled, lost or cut in two shows."""
    number = 0

    def words() -> str:
        nonlocal number
        said = []
        for _ in range(random.randint(1, 14)):
            number += 1
            said.append(f"w{number:04}x" if random.random() < 0.7 else f"第{number:04}项")
        return random.choice([" ", " ", ""]).join(said)

    shapes = [random.choice(list(SHAPES.values())) for _ in range(random.randint(1, 5))]
    parts = [shape.format(*(words() for _ in range(shape.count("{}")))) for shape in shapes]
    return random.choice(["\n\n", "\n"]).join(parts) + "\n"


def ink(rows: list[Line]) -> str:
    """A heading's marks aside: it may have been shown before the line came that makes it one."""
    return "".join("".join(text for _, text in row) for row in rows).replace(" ", "").replace("#", "")


def streamed(text: str, width: int, random: Random) -> list[Line]:
    flow, rows, at = StreamedText(markdown_rows), list[Line](), 0
    while at < len(text):
        size = random.randint(1, 20)
        rows += flow.feed(text[at : at + size], width)
        if random.random() < 0.7:
            rows += flow.settle(width)
            flow.live(width)
        at += size
    return [*rows, *flow.finish(width)]


def whole(text: str, width: int) -> list[Line]:
    flow = StreamedText(markdown_rows)
    return [*flow.feed(text, width), *flow.finish(width)]


@pytest.mark.thorough
@given(st.randoms(use_true_random=False), st.sampled_from([20, 30, 40, 80]))
def test_it_is_as_if_it_had_come_whole(random: Random, width: int) -> None:
    text = written(random)
    assert ink(streamed(text, width, random)) == ink(whole(text, width))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("width", [20, 44])
def test_every_shape_with_rows_that_are_broken(shape: str, width: int) -> None:
    words = "第二项：中文也要正确换行，所以这一行写得很长很长很长 and words too"
    count = SHAPES[shape].count("{}")
    text = SHAPES[shape].format(*(f"{words} {at}" for at in range(count))) + "\n\nDone.\n"
    for seed in range(30):
        assert ink(streamed(text, width, Random(seed))) == ink(whole(text, width))


def test_a_heading_by_a_line_below_whose_first_word_is_longer_than_a_row() -> None:
    text = "w0001xw0002xw0003xw0004xw0005xw0006x第0007项\n===\n\nDone.\n"
    for seed in range(60):
        assert ink(streamed(text, 20, Random(seed))) == ink(whole(text, 20))


@pytest.mark.parametrize("size", [1, 7, 30])
def test_a_heading_by_a_line_below_has_its_mark_on_a_narrow_screen(size: int) -> None:
    text = "A heading that takes more than one row of a narrow screen\n===\n\nText that follows.\n"
    flow, rows = StreamedText(markdown_rows), list[Line]()
    for at in range(0, len(text), size):
        rows += [*flow.feed(text[at : at + size], 30), *flow.settle(30)]
    rows += flow.finish(30)
    assert ["".join(part for _, part in row) for row in rows] == [
        "# A heading that takes more",
        "than one row of a narrow",
        "screen",
        "",
        "Text that follows.",
    ]
    assert {style for row in rows[:3] for style, _ in row} == {"heading"}


def test_a_paragraph_is_not_held_back_for_that() -> None:
    flow, rows = StreamedText(markdown_rows), list[Line]()
    for piece in ("First it says this. ", "Then it goes on ", "for as long ", "as it likes to "):
        rows += [*flow.feed(piece, 20), *flow.settle(20)]
    assert ["".join(part for _, part in row) for row in rows][:2] == [
        "First it says this.",
        "Then it goes on for",
    ]
