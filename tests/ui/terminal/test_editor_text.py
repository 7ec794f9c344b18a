"""The prompt's text under its keys: pastes that no key breaks, rows, menus, clearing, the queue."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from editor_kit import ESCAPE, Bench, typed
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import fragment_list_to_text
from prompt_toolkit.layout.controls import SearchBufferControl, UIContent

from coder.ui.terminal.input.editing import (
    Caret,
    WindowShape,
    label_spans,
    moved_by_rows,
    outside_label,
    row_of,
    text_rows,
    whole_labels,
)
from coder.ui.terminal.input.input_history import LONGEST
from coder.ui.terminal.input.keyboard import InputControl
from coder.ui.terminal.input.menu import MenuItem, ranked

LEFT, RIGHT, UP, DOWN, DELETE = "\x1b[D", "\x1b[C", "\x1b[A", "\x1b[B", "\x1b[3~"
BACKSPACE, TAB, ENTER, CTRL_C = "\x7f", "\t", "\r", "\x03"
PASTE = "\x1b[200~a\nb\nc\x1b[201~"
LABEL = "[pasted 3 lines]"


# emacs keys


@pytest.mark.parametrize(
    ("keys", "wanted"),
    [
        ("\x01X", "X|one two three"),
        ("\x01\x05X", "one two threeX|"),
        ("\x1bb\x0b", "one two |"),
        ("\x1bb\x15", "|three"),
        ("\x17", "one two |"),
        ("\x17\x19\x19", "one two threethree|"),
        ("\x01\x1bf\x0b", "one|"),
        ("\x01\x1bf\x1bfX", "one twoX| three"),
        ("\x1b\x7f", "one two |"),
        ("\x1b\x7f\x1b\x7f\x19", "one two three|"),
        ("\x01\x1bd", "| two three"),
        ("\x02\x02\x04", None),  # Ctrl+D sends, also from the middle of the text
        ("\x1b[H\x06X", "oX|ne two three"),
        ("\x1b[1~\x1b[4~X", "one two threeX|"),
    ],
    ids=[
        *(
            "ctrl-a",
            "ctrl-e",
            "ctrl-k",
            "ctrl-u",
            "ctrl-w",
            "ctrl-y",
            "alt-f ctrl-k",
            "alt-f",
            "alt-backspace",
        ),
        *("kills join", "alt-d", "ctrl-d", "home", "end"),
    ],
)
def test_emacs_keys(keys: str, wanted: str | None) -> None:
    bench = typed("one two three", keys)
    assert bench.sent == ([] if wanted else ["one two three"])
    assert bench.marked == (wanted or "|")


def test_ctrl_k_and_ctrl_u_stay_in_their_line_and_then_join_it_with_the_next() -> None:
    assert typed("ab\ncd\nef", UP, LEFT, "\x0b").marked == "ab\nc|\nef"
    assert typed("ab\ncd\nef", UP, "\x0b").marked == "ab\ncd|ef"
    assert typed("ab\ncd\nef", UP, "\x15").marked == "ab\n|\nef"


# sending, clearing, leaving


def test_enter_sends_and_a_backslash_before_it_makes_a_line() -> None:
    assert typed("one\\", ENTER, "two", ENTER).sent == ["one\ntwo"]
    assert typed("C:\\\\", ENTER).sent == ["C:\\\\"]
    assert typed("a\\", LEFT, ENTER).sent == ["a\\"]


@pytest.mark.parametrize(
    "newline", ["\x1b\r", "\n", "\x1b\n", "\x1b[13;2u", "\x1b[27;2;13~", "\x1b[13;5u", "\x1b[13;3u"]
)
def test_keys_that_make_a_line(newline: str) -> None:
    bench = typed("one", newline, "two")
    assert (bench.marked, bench.sent) == ("one\ntwo|", [])


@pytest.mark.parametrize("between", [ESCAPE, "\x1b[D", "\x12\x07", "a\x7f"])
def test_ctrl_c_leaves_only_if_it_follows_another_on_an_empty_line(between: str) -> None:
    assert typed(CTRL_C, CTRL_C).left
    assert not typed(CTRL_C, between, CTRL_C).left
    assert not typed("text", CTRL_C, CTRL_C).left


def test_what_is_cleared_can_be_yanked_back() -> None:
    for keys in (CTRL_C, ESCAPE + ESCAPE):
        bench = typed("precious ", PASTE, keys)
        assert bench.text == ""
        asyncio.run(bench.type("\x19"))
        assert bench.text == "precious a\nb\nc"


def test_two_escapes_are_two_within_half_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("coder.ui.terminal.input.actions.time.monotonic", lambda: now)

    async def run() -> None:
        nonlocal now
        bench = await Bench().type("kept", ESCAPE)
        now += 0.51
        await bench.type(ESCAPE)
        assert bench.text == "kept"
        now += 0.49
        await bench.type(ESCAPE)
        assert bench.text == ""

    asyncio.run(run())


def test_an_escape_that_cancels_is_not_the_first_of_two_that_clear() -> None:
    async def run() -> None:
        bench = await Bench().type("given back")
        bench.state.phase = "running"
        await bench.type(ESCAPE)
        bench.state.phase = "idle"
        await bench.type(ESCAPE)
        assert (bench.cancelled, bench.text) == (1, "given back")
        await bench.type(ESCAPE)
        assert bench.text == ""

    asyncio.run(run())


def test_escape_closes_a_menu_first_and_tab_opens_it_again() -> None:
    async def run() -> None:
        bench = await Bench().type("/mo")
        assert bench.offered == ["mode", "model"]
        bench.state.phase = "running"
        await bench.type(ESCAPE)
        assert (bench.offered, bench.cancelled) == ([], 0)
        await bench.type("d")
        assert bench.offered == []
        await bench.type(TAB)
        assert bench.offered == ["mode", "model"]
        bench.editor.close_menu()
        bench.editor.clear()
        await bench.type("/")
        assert len(bench.offered) == 4  # closed for that text, not for the next one

    asyncio.run(run())


# pastes


@pytest.mark.parametrize(
    ("keys", "wanted"),
    [
        (BACKSPACE, "see |"),
        ("\x17", "see |"),
        ("\x1b\x7f", "see |"),
        ("\x17\x19", f"see {LABEL}|"),
        (LEFT, f"see |{LABEL}"),
        (LEFT + DELETE, "see |"),
        (LEFT + RIGHT, f"see {LABEL}|"),
        (LEFT + LEFT + RIGHT + RIGHT, f"see {LABEL}|"),
        ("\x1bb", f"see |{LABEL}"),
        ("\x1bb\x0b\x19", f"see {LABEL}|"),
        ("\x01\x1bf\x1bf", f"see {LABEL}|"),
        (" end\x1bb\x1bbX", f"see X|{LABEL} end"),
        ("\x01\x1bf\x1bd", "see|"),
        (LEFT + "[" + RIGHT, f"see [{LABEL}|"),
        (LEFT + BACKSPACE * 2, f"se|{LABEL}"),
    ],
)
def test_no_key_breaks_a_placeholder(keys: str, wanted: str) -> None:
    assert typed("see ", PASTE, keys).marked == wanted


def test_vim_keys_take_a_placeholder_whole() -> None:
    assert typed("see ", PASTE, ESCAPE, "x", vim=True).text == "see "
    assert typed("see ", PASTE, ESCAPE, "0wdw", vim=True).text == "see "
    assert typed("see ", PASTE, ESCAPE, "a.", vim=True).text == f"see {LABEL}."
    assert typed("see ", PASTE, ESCAPE, "0wDu", vim=True).text == f"see {LABEL}"


def test_a_placeholder_comes_back_with_undo_and_is_sent_whole() -> None:
    bench = typed("see ", PASTE, "\x17", "\x1f", ENTER)  # Ctrl+W, Ctrl+_
    assert bench.sent == ["see a\nb\nc"]


@pytest.mark.parametrize(
    ("pasted", "sent"),
    [
        ("a\r\nb\rc\nd", "a\nb\nc\nd"),
        ("\ta\tb\n\tc", "\ta\tb\n\tc"),
        ("a\nb\n", "a\nb\n"),
        ("one line\r\n", "one line"),
        ("red \x1b[31mtext\x07\x00", "red \x1b[31mtext\x07\x00"),
        ("a\n\x1b[31mred", "a\n\x1b[31mred"),
        ("x\u202etxet", "x\u202etxet"),
        ("[pasted 2 lines]\n[pasted 2 lines]", "[pasted 2 lines]\n[pasted 2 lines]"),
        ("x" * 5000, "x" * 5000),
        ("/status\nnot a command", "/status\nnot a command"),
    ],
    ids=[
        "line ends",
        "tabs",
        "last end",
        "one line",
        "escapes",
        "escapes in lines",
        "bidi",
        "label",
        "long",
        "/",
    ],
)
def test_a_paste_is_sent_as_it_was(pasted: str, sent: str) -> None:
    async def run() -> Bench:
        bench = await Bench().type("")
        await bench.paste(pasted)
        assert "\n" not in bench.text
        assert "\u202e" not in bench.text
        return await bench.type(ENTER)

    assert asyncio.run(run()).sent == [sent]


def test_pastes_survive_a_question_that_takes_the_prompt() -> None:
    async def run() -> None:
        bench = await Bench().type("see ", PASTE)
        bench.editor.stash()
        await bench.type("y", ENTER)
        bench.editor.unstash()
        await bench.type(ENTER)
        assert bench.sent == ["y", "see a\nb\nc"]

    asyncio.run(run())


def test_a_message_too_long_for_the_history_is_recalled_with_its_placeholder(tmp_path: Path) -> None:
    long = "x" * (LONGEST + 1)

    async def run() -> None:
        bench = await Bench(history=tmp_path / "history").type("")
        await bench.paste(long)
        await bench.type(" explain", ENTER, UP)
        assert bench.text == "[pasted 1 lines] explain"
        await bench.type(" again", ENTER)
        assert bench.sent == [f"{long} explain", f"{long} explain again"]
        other = await Bench(history=tmp_path / "history").type("", UP)
        assert other.text == ""

    asyncio.run(run())


def test_a_long_message_that_is_given_back_becomes_a_placeholder() -> None:
    long = "line\n" * LONGEST

    async def run() -> None:
        bench = await Bench().type("draft ", PASTE)
        bench.state.queue.append(long)
        await bench.type(UP)
        assert len(bench.text) < 40
        await bench.type(ENTER)
        assert bench.sent == [f"{long}\ndraft a\nb\nc"]

    asyncio.run(run())


TEXT = st.text(alphabet="ab[ ]", max_size=12)
LABELS = {"[p 1]": "x", "[p 2]": "y"}


@given(TEXT, TEXT, st.integers(0, 30), st.integers(0, 30), st.sampled_from(["", "a", "b ", "["]))
def test_whatever_is_cut_or_put_placeholders_are_whole_or_gone(
    before: str, after: str, start: int, size: int, put: str
) -> None:
    text = f"{before}[p 1]{after}[p 2]"
    start = min(start, len(text))
    now = Caret(text[:start] + put + text[start + size :], start + len(put))
    repaired = whole_labels(text, now, LABELS) or now
    left = "".join(repaired.text[a:b] for a, b in label_spans(repaired.text, LABELS))
    rest = repaired.text
    for label in LABELS:
        rest = rest.replace(label, "", 1)
    assert 0 <= repaired.at <= len(repaired.text)
    assert left in ("", "[p 1]", "[p 2]", "[p 1][p 2]")
    # No part of a placeholder is left over: what remains is what a person typed.
    assert "p" not in rest
    if not size:
        assert left == "[p 1][p 2]"


@given(st.integers(0, 15), st.integers(0, 15))
def test_the_caret_never_stands_inside_a_placeholder(at: int, came_from: int) -> None:
    text = "ab[p 1]cd[p 2]e"
    place = outside_label(Caret(text, at), came_from, LABELS)
    assert not any(a < place < b for a, b in label_spans(text, LABELS))
    assert place == at or abs(place - at) < 5


# rows


def test_up_and_down_go_by_rows_of_the_screen() -> None:
    async def run() -> None:
        bench = await Bench(columns=12).type("earlier", ENTER)
        await bench.type("abcdefghijklmno")  # 10 to a row
        await bench.type(UP, "X")
        assert bench.text == "abcdeXfghijklmno"
        await bench.type(UP)
        assert bench.text == "earlier"
        await bench.type(DOWN)
        assert bench.marked == "abcdeXfghijklmno|"

    asyncio.run(run())


def test_the_column_is_kept_over_a_short_row() -> None:
    assert typed("long enough\nx\nlong enough", UP, UP, "|").text == "long enough|\nx\nlong enough"


SHAPES = st.builds(WindowShape, st.integers(6, 20), st.integers(0, 4), st.just(2))
WIDE = st.text(alphabet="ab中\n\te\u0301", max_size=60)


@given(WIDE, SHAPES, st.integers(0, 60))
def test_every_place_is_in_one_row_and_rows_fit(text: str, shape: WindowShape, at: int) -> None:
    at = min(at, len(text))
    rows = text_rows(text, shape)
    assert sum(len(row.columns) for row in rows) == len(text) + 1
    row = rows[row_of(rows, at)]
    assert 0 <= at - row.start < len(row.columns)
    assert all(column <= shape.columns for row in rows for column in row.columns)
    up = moved_by_rows(rows, at, -1)
    if up is not None:
        assert row_of(rows, up[0]) == row_of(rows, at) - 1


@given(st.text(alphabet="ab中 \t\x01", max_size=60), SHAPES)
def test_only_a_word_longer_than_a_row_is_broken(text: str, shape: WindowShape) -> None:
    for row in text_rows(text, shape)[1:]:
        begun = re.split(r"[^ab]", text[: row.start])[-1]
        rest = re.split(r"[^ab]", text[row.start :])[0]
        fits = len(begun + rest) + 1 <= shape.columns - shape.margin
        assert not (begun and rest and fits) or row.start == len(begun)  # behind the prompt


@given(st.text(alphabet="ab中 e\u0301", max_size=60), SHAPES)
def test_the_text_is_drawn_in_the_rows_that_the_arrows_move_by(text: str, shape: WindowShape) -> None:
    widths = shape.prompt, shape.margin

    def prefix(_line: int, wrapped: int) -> str:
        return " " * widths[wrapped > 0]

    async def drawn() -> UIContent:
        control = InputControl(Buffer(document=Document(text)), SearchBufferControl(), prefix)
        return control.create_content(shape.columns, 20)

    content = asyncio.run(drawn())
    rows = text_rows(text, shape)
    assert content.get_height_for_line(0, shape.columns, prefix) == len(rows)
    shown = fragment_list_to_text(content.get_line(0))
    assert shown.replace(" ", "") == text.replace(" ", "")
    assert content.cursor_position.x == len(shown) - 1


# menus


def test_a_menu_follows_the_caret() -> None:
    bench = typed("see @al", files=["alpha.py", "src/alpine.py", "my file.py"])
    assert bench.offered == ["alpha.py", "src/alpine.py"]
    asyncio.run(bench.type("p" + LEFT + LEFT))
    assert bench.offered == ["alpha.py", "src/alpine.py"]
    asyncio.run(bench.type("\x01"))
    assert bench.offered == []


def test_enter_takes_what_is_offered_and_sends_what_is_complete() -> None:
    files = ["alpha.py", "my file.py", "src/", "src/a.py"]
    assert typed("@alp", ENTER, files=files).marked == "@alpha.py |"
    assert typed("@alpha.py", ENTER, files=files).sent == ["@alpha.py"]
    assert typed("@my\\ file.py", ENTER, files=files).sent == ["@my\\ file.py"]
    assert typed('@"my f', ENTER, files=files).marked == '@"my file.py" |'
    assert typed("@my\\ di", ENTER, files=["my dir/", "my dir/a"]).marked == "@my\\ dir/|"
    chosen = typed("@sr", ENTER, files=files)
    assert (chosen.marked, chosen.offered) == ("@src/|", ["src/", "src/a.py"])
    asyncio.run(chosen.type(ENTER))
    assert chosen.sent == ["@src/"]


def test_a_model_that_nobody_listed_is_taken_as_it_is_typed() -> None:
    known = {"model": lambda _query: [MenuItem("gpt-5-mini", "gpt-5-mini")]}
    bench = typed("/model gpt-5", arguments=known)
    assert bench.offered == ["gpt-5-mini"]
    asyncio.run(bench.type(ENTER))
    assert bench.sent == ["/model gpt-5"]
    assert typed("/model gpt-5", TAB, ENTER, arguments=known).sent == ["/model gpt-5-mini "]


@pytest.mark.parametrize("text", ["!npm i @alp", "me@alp", "`@alp"])
def test_no_files_are_offered_where_an_at_names_none(text: str) -> None:
    assert typed(text, files=["alpha.py"]).offered == []


@pytest.mark.parametrize("text", ["看，@alp", "(@alp", "/review @alp", "one\n@alp"])
def test_files_are_offered_wherever_an_at_command_begins(text: str) -> None:
    assert typed(text, files=["alpha.py"]).offered == ["alpha.py"]


def test_what_the_person_chose_stays_when_there_is_more_and_the_best_is_first_otherwise() -> None:
    async def run() -> None:
        bench = await Bench(files=["a2.py"]).type("@a")
        menus = bench.editor.menus
        more = [MenuItem(name, name) for name in ("a1.py", "a2.py", "a3.py")]
        menus.files = lambda _query: more
        bench.editor.refresh_menu()
        assert bench.editor.menu is not None
        assert bench.editor.menu.chosen == 0
        await bench.type(DOWN)
        menus.files = lambda _query: [MenuItem("a0.py", "a0.py"), *more]
        bench.editor.refresh_menu()
        await bench.type(TAB)
        assert bench.text == "@a2.py "

    asyncio.run(run())


# history


def test_a_line_that_begins_with_a_space_is_sent_and_not_recalled(tmp_path: Path) -> None:
    bench = typed("said", ENTER, " unsaid", ENTER, UP, history=tmp_path / "history")
    assert bench.sent == ["said", " unsaid"]
    assert bench.text == "said"


def test_search_goes_back_through_history_and_breaks_off_where_it_began() -> None:
    async def run() -> None:
        bench = await Bench().type("alpha one\nsecond row", ENTER, "beta", ENTER, "alpha two", ENTER, "draft")
        await bench.type("\x12", "alpha", "\x07")  # Ctrl+G
        assert bench.text == "draft"
        await bench.type("\x12", "alpha", "\x12", "\x12", CTRL_C)
        assert bench.marked == "draft|"
        await bench.type("\x12", "alpha", "\x12", ENTER)
        assert bench.text == "alpha one\nsecond row"
        await bench.type(DOWN, DOWN, DOWN, DOWN)
        assert bench.text == "draft"
        await bench.type("\x12", "nowhere", ESCAPE)
        assert bench.text == "draft"
        await bench.type("\x12", "bet", ENTER)
        assert (bench.text, len(bench.sent)) == ("beta", 3)

    asyncio.run(run())


def test_what_an_entry_is_about_counts_less_than_its_name_and_only_whole_words_of_it() -> None:
    items = [
        MenuItem("/plan", "plan", about="prepare only, more slowly"),
        MenuItem("/permissions", "permissions", about="show the rules"),
        MenuItem("/rules", "rules", about="none"),
    ]
    assert [item.insert for item in ranked(items, "prm")] == ["permissions"]
    assert [item.insert for item in ranked(items, "rules")] == ["rules", "permissions"]
