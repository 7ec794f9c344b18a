"""Laws of text on its way to scrollback: each word once whatever the width does, colours as of the whole,
and work that grows with the text and not with its square."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from test_terminal_laws import MARKDOWN, WELL_FORMED

from coder.protocol.events import Content, Thought
from coder.texts import Catalog
from coder.ui.terminal.render import highlight, markdown
from coder.ui.terminal.render import markdown as tables
from coder.ui.terminal.render import markdown_blocks as blocks
from coder.ui.terminal.render import streamed_text as flow
from coder.ui.terminal.render.highlight import CodeState, code_lines
from coder.ui.terminal.render.markdown import BlockState, markdown_rows
from coder.ui.terminal.render.markdown_blocks import Block, Splitter
from coder.ui.terminal.render.streamed_text import StreamedText, thought_rows
from coder.ui.terminal.render.transcript import Transcript
from coder.ui.terminal.render.width import Line, plain, wrap


def numbered(count: int) -> str:
    return " ".join(f"w{at:04d}x" for at in range(count))


def streamed(text: str, step: int, widths: list[int], paint: flow.Paint = markdown_rows) -> list[Line]:
    """All rows, the width changing from frame to frame; the live rows are asked for as the screen would."""
    one = StreamedText(paint)
    rows: list[Line] = []
    for frame, at in enumerate(range(0, len(text), step)):
        width = widths[frame * len(widths) * step // max(1, len(text))]
        rows += one.feed(text[at : at + step], width)
        rows += one.settle(width)
        one.live(width)
    return rows + one.finish(widths[-1])


# each word once

WIDTHS = st.lists(st.integers(12, 120), min_size=1, max_size=5)


@pytest.mark.thorough
@given(st.lists(st.integers(3, 60), min_size=1, max_size=5), st.integers(1, 60), WIDTHS)
def test_every_word_once_and_in_order_whatever_the_width_does(
    sizes: list[int], step: int, widths: list[int]
) -> None:
    words = iter(numbered(sum(sizes)).split())
    shapes = ["{}", "- {}", "> {}", "1. {}", "## {}"]
    text = "\n\n".join(
        shapes[at % 5].format(" ".join(next(words) for _ in range(n))) for at, n in enumerate(sizes)
    )
    found = re.findall(r"w\d{4}x", "\n".join(map(plain, streamed(text, step, widths))))
    assert found == numbered(sum(sizes)).split()


@settings(max_examples=40, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(MARKDOWN, st.integers(5, 40), WIDTHS)
def test_nothing_is_lost_or_doubled_in_any_markdown(text: str, step: int, widths: list[int]) -> None:
    rows = map(plain, streamed(text, step, widths))
    shown = "".join("".join(rows).split())  # a long word may be broken between two rows
    assert shown.count("word") == text.count("word")
    assert shown.count("中") == text.count("中")


@given(st.text(alphabet="ab \n中，", max_size=1500), st.integers(1, 60), WIDTHS)
def test_thoughts_lose_nothing_either(text: str, step: int, widths: list[int]) -> None:
    shown = "".join(map(plain, streamed(text, step, widths, thought_rows)))
    assert "".join(shown.split()) == "".join(text.split())


@pytest.mark.thorough
@given(WELL_FORMED, st.integers(1, 40), st.integers(10, 60))
def test_rows_and_their_styles_do_not_depend_on_how_the_text_arrives(
    text: str, step: int, width: int
) -> None:
    def styled(rows: list[Line]) -> list[list[tuple[str, str]]]:
        return [[(style, char) for style, text in row for char in text] for row in rows if row]

    assert styled(streamed(text, step, [width])) == styled(streamed(text, len(text) + 1, [width]))


def test_a_paragraph_that_comes_in_parts_has_no_short_rows_within() -> None:
    rows = [plain(row) for row in streamed(numbered(600), 16, [50])]
    assert all(len(row) == 48 for row in rows[:-1])
    item = [plain(row) for row in streamed("- " + numbered(600), 16, [50])]
    assert item[0].startswith("• w0000x")
    assert all(row.startswith("  w") and len(row) == 43 + 6 + 1 for row in item[1:-1])


@pytest.mark.parametrize("tail", ["\n", "\n\n", "\n# next\n", "\n- next\n", "\n```\nnext\n```\n"])
def test_what_follows_a_long_paragraph_begins_a_row_of_its_own(tail: str) -> None:
    for extra in range(8):  # wherever the cut falls
        text = numbered(115) + " " + "y" * extra + tail
        rows = [plain(row) for row in streamed(text, 16, [70])]
        assert re.findall(r"w\d{4}x", " ".join(rows)) == numbered(115).split()
        assert not any("w0114x" in row and "next" in row for row in rows)
        assert sum("next" in row for row in rows) == tail.count("next")


def test_what_looks_like_a_block_within_a_line_is_text() -> None:
    text = numbered(113) + " - not an item # not a heading 1. nor this\n\nend"
    rows = "\n".join(plain(row) for row in streamed(text, 16, [60]))
    assert "- not an item # not a heading 1. nor this" in " ".join(rows.split())


def test_the_head_of_a_table_is_not_taken_for_prose() -> None:
    text = "| a long name | another long name | and a third |\n|---|---:|:-:|\n| x | 1 | y |\n"
    rows = [plain(row) for row in streamed(text, 3, [30])]
    assert not any(row.startswith("|") for row in rows)
    assert [row.split() for row in rows][-1] == ["x", "│", "1", "│", "y"]


def test_a_line_that_may_become_anything_is_not_shown_before_it_is_clear_what() -> None:
    def tail(text: str) -> str:
        splitter = Splitter()
        splitter.feed(text)
        return splitter.tail.text if splitter.tail else ""

    assert tail("Title\n-") == "Title\n"
    assert tail("| a | b |\n|--") == "| a | b |\n"
    assert (tail("1"), tail("1. x"), tail("##"), tail("## x")) == ("", "1. x", "", "## x")
    assert tail("```py\n-").endswith("-")


# tables


@pytest.mark.parametrize(("width", "expected"), [(30, "name  │  n │ more"), (9, "n: 22")])
def test_a_table_too_wide_for_the_screen_becomes_lines(width: int, expected: str) -> None:
    text = "| name | n | more |\n|---|--:|---|\n| alpha | 1 | x |\n| beta | 22 | y \\| z |\n\n"
    rows = [plain(row) for row in streamed(text, 5, [width])]
    assert any(row.startswith(expected) for row in rows)
    assert all(len(row) <= width for row in rows)
    assert "y | z" in " ".join(" ".join(rows).split())


def test_cells_beyond_the_head_are_kept() -> None:
    text = "| a | b |\n|---|---|\n| 1 | 2 | 3 |\n| 4 |\n"
    rows = [plain(row).rstrip() for row in streamed(text, 7, [40])]
    assert rows[2:] == ["1 │ 2 │ 3", "4 │"]


# colours

PYTHON = 'def f(x: int) -> str:\n    """a\n    doc"""\n    return f"{x}" # c\n\n@deco\nclass A: pass\n'
JS = "/* one\n   two */ let a = `x\ny${1}z`; // c\nconst s = '/*'; f(1);\n/** a */ g(/* b\n*/ 2)\n"
C = '#include <a.h>\n/* one\n two\n*/\nint main(void) { return "x/*"[0]; }\n'
JSON = '{\n  "a": [1, true],\n  "b": "x"\n}\n'


@pytest.mark.parametrize(("language", "code"), [("python", PYTHON), ("js", JS), ("c", C), ("json", JSON)])
def test_code_is_coloured_line_by_line_as_it_would_be_as_a_whole(language: str, code: str) -> None:
    lexer = highlight._lexer(language)
    assert lexer is not None
    whole: list[list[tuple[str, str]]] = [[]]
    for kind, value in lexer.get_tokens(code):
        for char in value:
            if char == "\n":
                whole.append([])
            elif not char.isspace():
                whole[-1].append((highlight._role(kind), char))
    state = CodeState()
    found: list[list[tuple[str, str]]] = []
    for line in code.split("\n"):
        (row,), state = code_lines([line], language, state)
        found.append([(style, c) for style, text in row for c in text if not c.isspace()])
    assert found == whole[: len(found)]


# wrapping


@given(st.lists(st.text(alphabet="abc", min_size=1, max_size=12), max_size=40), st.integers(4, 30))
def test_the_quick_way_of_wrapping_gives_the_same_rows(words: list[str], width: int) -> None:
    text = " ".join(words)
    slow = wrap([("", text), ("other", "")], width)
    assert [plain(row) for row in wrap([("", text)], width)] == [plain(row) for row in slow]


def test_what_is_one_picture_stays_on_one_row() -> None:
    family = "\U0001f469\u200d\U0001f469\u200d\U0001f467"
    waving = "\U0001f44b\U0001f3fd"
    for width in range(8, 20):
        rows = [plain(row) for row in wrap([("", f"中文{family}中{waving}文" * 3)], width)]
        assert sum(row.count(family) for row in rows) == 3
        assert sum(row.count(waving) for row in rows) == 3


# work

Work = Callable[..., int]


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Work:
    """How many characters are wrapped, parsed, lexed or searched while a text streams and is shown."""
    done = 0

    def counting(function: Callable[..., Any], size: Callable[..., int]) -> Callable[..., Any]:
        def wrapper(*args: Any, **more: Any) -> Any:
            nonlocal done
            done += size(*args)
            return function(*args, **more)

        return wrapper

    for room in (markdown, flow, tables):
        monkeypatch.setattr(room, "wrap", counting(wrap, lambda line, *_: len(plain(line))))
    for room in (flow, blocks):
        monkeypatch.setattr(room, "stable_prefix", counting(blocks.stable_prefix, len))
    monkeypatch.setattr(markdown, "_tree", counting(markdown._tree, len))
    monkeypatch.setattr(highlight, "_lexed", counting(highlight._lexed, lambda _, text, __: len(text)))

    def run(text: str, kind: type[Content] | type[Thought] = Content) -> int:
        nonlocal done
        done = 0
        transcript = Transcript(Catalog("en"), lambda: 80)
        for at in range(0, len(text), 16):
            transcript.handle(kind(text[at : at + 16]))
            if at % 64 == 0:  # a frame
                transcript.drain(12)
                transcript.live(12)
        return done

    return run


SOURCES: dict[str, Callable[[int], str]] = {
    "fence": lambda n: "```python\n" + "".join(f"def f{at}(a): return '{at}'\n" for at in range(n)),
    "paragraph": lambda n: " ".join(f"word{at}" for at in range(n * 4)),
    "marked": lambda n: " ".join(f"**word{at}** `code`" for at in range(n * 2)),
    "table": lambda n: "| a | b |\n|---|---|\n" + "".join(f"| {at} | cell *{at}* |\n" for at in range(n)),
    "list": lambda n: "".join(f"- item {at} has `some` words\n" for at in range(n)),
    "quote": lambda n: "".join(f"> line {at} of it\n" for at in range(n)),
    "one word": lambda n: "x" * (n * 30),
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", SOURCES)
def test_work_grows_with_the_text_and_not_with_its_square(name: str, work: Work) -> None:
    half, whole = work(SOURCES[name](250)), work(SOURCES[name](500))
    assert 0 < whole < 2.3 * half


def test_finished_code_is_coloured_once(work: Work) -> None:
    text = SOURCES["fence"](500)
    assert len(text) <= work(text) < 2 * len(text)  # once, and the unfinished line at each frame


def test_thoughts_cost_no_more_than_they_are_long(work: Work) -> None:
    text = SOURCES["paragraph"](300)
    assert 0 < work(text * 2, Thought) < 2.3 * work(text, Thought)


def test_a_block_of_the_kind_that_needs_no_parsing_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(markdown, "_parser", None)
    rows, _ = markdown_rows(Block("only words, 中文 too.\n", "prose"), 40, BlockState())
    assert [plain(row) for row in rows] == ["only words, 中文 too."]
    rows, _ = markdown_rows(Block("  12) an item that is wrapped\n", "item", in_list=True), 20, BlockState())
    assert [plain(row) for row in rows] == ["  12) an item that", "      is wrapped"]
