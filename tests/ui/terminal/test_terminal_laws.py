"""Laws of the pure parts: cutting, wrapping, editing, menus, safety."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coder.protocol.events import CommandDone, Content, Thought, ToolCallChanged, ToolOutput, TurnEnded
from coder.protocol.messages import Usage
from coder.texts import Catalog
from coder.ui.terminal.input.editing import (
    Caret,
    approval_answer,
    batches,
    collapses,
    completed_text,
    continued_line,
    escaped_path,
    expanded,
    menu_request,
    paste_label,
    restored_draft,
    without_label,
)
from coder.ui.terminal.input.menu import Menu, MenuItem, find_paths, ranked
from coder.ui.terminal.render.event_lines import tool_lines
from coder.ui.terminal.render.live_region import reflows, rows_after_reflow
from coder.ui.terminal.render.markdown import BlockState, markdown_rows
from coder.ui.terminal.render.markdown_blocks import Block, Splitter, stable_prefix
from coder.ui.terminal.render.streamed_text import StreamedText, thought_rows
from coder.ui.terminal.render.theme import Theme, chosen_theme
from coder.ui.terminal.render.transcript import Transcript
from coder.ui.terminal.render.width import Line, clip, line_width, plain, text_width, wrap

PIECES = st.sampled_from(
    [
        *(
            "word",
            " ",
            "\n",
            "\n\n",
            "# ",
            "- ",
            "  - ",
            "1. ",
            "2. ",
            "> ",
            "```",
            "```py\n",
            "\n```\n",
            "~~~\n",
        ),
        *(
            "| a | b |\n",
            "|---|---|\n",
            "**",
            "*",
            "_",
            "`",
            "[x](y)",
            "[",
            "]",
            "中文，",
            "。",
            "\t",
            "\\",
            "---\n",
        ),
        *("x" * 300, "long words " * 50),
    ]
)
MARKDOWN = st.lists(PIECES, max_size=60).map("".join)


def blocks_of(pieces: list[str]) -> list[Block]:
    splitter = Splitter()
    done = [block for piece in pieces for block in splitter.feed(piece)]
    return done + splitter.finish()


@given(MARKDOWN, st.lists(st.integers(0, 400), max_size=20))
def test_blocks_do_not_depend_on_how_the_text_arrives(text: str, cuts: list[int]) -> None:
    edges = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    pieces = [text[a:b] for a, b in pairwise(edges)]
    whole = blocks_of([text])
    assert blocks_of(pieces) == whole
    assert blocks_of(list(text)) == whole
    assert "".join(block.text for block in whole) == text


INLINE = st.sampled_from(
    ["word", "**bold words**", "*em*", "`code x`", "[link](http://a.b/c)", "中文，标点。", "2 * 3", "a_b"]
)
PARAGRAPH = st.lists(INLINE, min_size=1, max_size=60).map(" ".join)
WELL_FORMED = st.lists(
    st.one_of(
        PARAGRAPH,
        PARAGRAPH.map("- {}".format),
        PARAGRAPH.map("> {}".format),
        PARAGRAPH.map("## {}".format),
        PARAGRAPH.map(lambda text: "```py\n" + text.replace(" ", "\n") + "\n```"),
        PARAGRAPH.map(
            lambda text: "| a | b |\n|---|---|\n" + "".join(f"| {w} | x |\n" for w in text.split())
        ),
    ),
    max_size=6,
).map("\n\n".join)


@pytest.mark.thorough
@given(WELL_FORMED, st.integers(1, 40), st.integers(10, 60))
def test_a_flow_hands_over_the_same_rows_whether_or_not_it_is_watched(
    text: str, step: int, width: int
) -> None:
    """Rows that went to scrollback early are those that would have come at the end."""
    watched, calm = StreamedText(markdown_rows), StreamedText(markdown_rows)
    early: list[Line] = []
    for at in range(0, len(text), step):
        early += watched.feed(text[at : at + step], width)
        early += watched.settle(width)
    early += watched.finish(width)
    late = calm.feed(text, width) + calm.finish(width)
    assert [plain(row) for row in early if row] == [plain(row) for row in late if row]


@given(MARKDOWN, st.integers(10, 60))
def test_rendering_keeps_every_word(text: str, width: int) -> None:
    flow = StreamedText(markdown_rows)
    rows = "".join(map(plain, flow.feed(text, width) + flow.finish(width)))
    shown = re.sub(r"[\s│]", "", rows)  # a word longer than a row is cut, with a margin between its parts
    assert shown.count("word") == text.count("word")
    assert shown.count("中文") == text.count("中文")


@given(st.text(max_size=300), st.integers(2, 50))
def test_wrapped_rows_fit_and_lose_nothing_but_spaces(text: str, width: int) -> None:
    text = " ".join("".join(c for c in text if c.isprintable()).split())
    rows = wrap([("", text)], width)
    assert all(line_width(row) <= width for row in rows)
    assert "".join(map(plain, rows)).replace(" ", "") == text.replace(" ", "")


@given(
    st.text(alphabet="ab 中，。(", max_size=120), st.text(alphabet="ab 中，", max_size=20), st.integers(4, 20)
)
def test_more_text_changes_no_row_but_the_last(text: str, more: str, width: int) -> None:
    before = wrap([("", text)], width)
    after = wrap([("", text + more)], width)
    assert after[: max(0, len(before) - 2)] == before[: max(0, len(before) - 2)]


@given(st.text(max_size=80), st.integers(1, 40))
def test_clipped_lines_fit(text: str, width: int) -> None:
    assert line_width(clip([("", text)], width)) <= width


@given(MARKDOWN)
def test_a_stable_prefix_leaves_nothing_open(text: str) -> None:
    at = stable_prefix(text)
    assert 0 <= at <= len(text)
    assert stable_prefix(text[:at]) == at


def test_wide_characters_count_twice() -> None:
    assert (text_width("中文a"), text_width("abc"), text_width("e\u0301")) == (5, 3, 1)


@given(st.lists(st.text(max_size=10), max_size=6))
def test_thoughts_are_shown_as_they_are(lines: list[str]) -> None:
    text = "\n".join(line.replace("\r", "") for line in lines)
    rows, _ = thought_rows(Block(text, "prose"), 80, BlockState())
    assert "\n".join(map(plain, rows)).split() == text.split()


# events


def usage_end(status: str = "ok", error: str = "") -> TurnEnded:
    return TurnEnded(turn=1, status=status, text="", steps=1, usage=Usage(), duration_ms=1, error=error)  # type: ignore[arg-type] # one of the literals


@given(st.lists(st.text(max_size=20), max_size=10))
def test_no_control_character_from_outside_reaches_the_screen(pieces: list[str]) -> None:
    transcript = Transcript(Catalog("en"), lambda: 40)
    shown: list[str] = []
    theme = Theme("none")
    for piece in pieces:
        for event in (Content(piece), Thought(piece), ToolOutput("c", piece)):
            transcript.handle(event)
            shown += [theme.line(row) for row in [*transcript.drain(3), *transcript.live(3)]]
    transcript.handle(CommandDone("/x", "".join(pieces)))
    transcript.handle(usage_end("cancelled", "".join(pieces)))
    shown += [theme.line(row) for row in transcript.drain(0)]
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", "".join(shown))


def test_a_restarted_answer_is_not_mixed_with_the_first() -> None:
    from coder.protocol.events import ContentRestarted

    transcript = Transcript(Catalog("en"), lambda: 80)
    for event in (Content("half an ans"), ContentRestarted(), Content("the answer"), usage_end()):
        transcript.handle(event)
    text = "\n".join(map(plain, transcript.drain(0)))
    assert text == "the answer"
    assert "".join(transcript.answer) == "the answer"


def test_what_was_written_of_an_answer_that_begins_again_is_said_to_be_void() -> None:
    from coder.protocol.events import ContentRestarted

    transcript = Transcript(Catalog("en"), lambda: 80)
    transcript.handle(Content("one paragraph\n\nhalf an ans"))
    assert "\n".join(map(plain, transcript.drain(12))).rstrip("\n") == "one paragraph"
    for event in (ContentRestarted(), Content("the answer"), usage_end()):
        transcript.handle(event)
    text = "\n".join(map(plain, transcript.drain(0)))
    assert "half" not in text
    assert "ignore the text above" in text
    assert text.endswith("the answer")


# editing


@given(st.text(max_size=30), st.integers(0, 30))
def test_a_trailing_backslash_becomes_a_new_line_at_the_end_only(text: str, at: int) -> None:
    caret = Caret(text, min(at, len(text)))
    result = continued_line(caret)
    if result is not None:
        assert text.endswith("\\")
        assert result.text == text[:-1] + "\n"
        assert result.at == len(result.text)
    assert continued_line(Caret(text + "\\\\", len(text) + 2)) is None or text.endswith("\\")


@given(st.lists(st.text(min_size=1, max_size=40), min_size=1, max_size=5))
def test_pastes_come_back_whole(pasted: list[str]) -> None:
    known: dict[str, str] = {}
    text = ""
    for one in pasted:
        label = paste_label(f"[pasted {one.count(chr(10)) + 1} lines]", known)
        known[label] = one
        text += f"<{label}>"
    assert expanded(text, known) == "".join(f"<{one}>" for one in pasted)
    last = without_label(Caret(text[:-1], len(text) - 1), known)
    assert last is not None
    assert last.text.endswith("<")


def test_what_collapses() -> None:
    assert not collapses("one line")
    assert not collapses("one line\n")
    assert collapses("two\nlines")
    assert collapses("x" * 2000)


@given(st.lists(st.sampled_from(["a", "b", "/x", "!y"]), max_size=8))
def test_queued_messages_are_joined_and_commands_stand_alone(queue: list[str]) -> None:
    sent = batches(queue)
    assert "\n\n".join(sent).split("\n\n") == (queue or [""])
    for text in sent:
        assert "\n\n" not in text or not re.search(r"(^|\n)[/!]", text)
    for first, second in pairwise(sent):
        assert first[0] in "/!" or second[0] in "/!"


def test_a_cancel_gives_everything_back() -> None:
    assert restored_draft(["a", "b"], "c") == "a\n\nb\n\nc"
    assert restored_draft(["a"], " ") == "a"


def test_answers_to_an_approval() -> None:
    def answer(text: str, *, always: bool = True) -> tuple[str, str] | None:
        return approval_answer(text, can_always=always)

    assert answer(" Y ") == ("yes", "")
    assert answer("no, not this one") == ("no", "not this one")
    assert answer("always") == ("always", "")
    assert answer("always", always=False) is None
    assert answer("yes please delete it all") is None
    assert answer("") is None


def test_which_menu_is_asked_for() -> None:
    def asked(text: str) -> tuple[str, str, int] | None:
        request = menu_request(Caret(text, len(text)))
        return (request.kind, request.query, request.start) if request else None

    assert asked("/mo") == ("command", "mo", 1)
    assert asked("/model g") == ("argument", "g", 7)
    assert asked("see @src/a") == ("file", "src/a", 5)
    assert asked(r"@my\ fi") == ("file", "my fi", 1)
    assert asked('@"my fi') == ("file", "my fi", 1)
    assert asked('@"my file.md"') is None
    assert asked("a@b") is None
    assert asked("plain") is None
    assert completed_text(Caret("see @src/a now", 10), 5, escaped_path("src/a b")) == Caret(
        'see @"src/a b" now', 15
    )


# menus and files


def items(*names: str) -> list[MenuItem]:
    return [MenuItem(name, name) for name in names]


def test_ranking() -> None:
    found = [item.insert for item in ranked(items("modes", "model", "mode", "compact", "demo"), "mode")]
    assert found[0] == "mode"
    assert set(found[:3]) == {"mode", "model", "modes"}
    assert "compact" not in found
    assert [item.insert for item in ranked(items("permissions", "compact"), "prm")] == ["permissions"]


@given(st.integers(1, 30), st.lists(st.sampled_from([1, -1]), max_size=40), st.integers(1, 8))
def test_the_chosen_entry_is_always_visible(count: int, moves: list[int], rows: int) -> None:
    menu = Menu(items(*map(str, range(count))), 0, "")
    for move in moves:
        menu.move(move)
    assert [chosen for _, chosen in menu.visible(rows)].count(True) == 1
    assert len(menu.visible(rows)) <= rows


PATHS = st.lists(st.text(alphabet="abcAB/._ ", min_size=1, max_size=12), unique=True, max_size=30)


@given(PATHS, st.text(alphabet="abc/.", max_size=4))
def test_every_path_found_has_the_letters_in_order_and_whole_matches_come_first(
    paths: list[str], query: str
) -> None:
    text = "\n" + "\n".join(paths) + "\n"
    found = find_paths(text, text.lower(), query, 100)
    in_order = re.compile(".*".join(map(re.escape, query)))
    assert set(found) == {path for path in paths if in_order.search(path.lower())}
    if query in paths:
        assert found[0].lower().rstrip("/") == query.rstrip("/") or "/" in query


# the terminal


def test_rows_after_a_reflow() -> None:
    assert rows_after_reflow([10, 90, 5], (3, 2), 80) == 3
    assert rows_after_reflow([10, 90, 100], (90, 2), 40) == 6
    assert reflows({"TMUX": "x"})
    assert reflows({"TERM": "tmux-256color"})
    assert not reflows({"TERM": "xterm"})


def test_themes() -> None:
    assert chosen_theme("dark", {"NO_COLOR": "1"}) == "none"
    assert chosen_theme("auto", {"COLORFGBG": "0;15"}) == "light"
    assert chosen_theme("auto", {}) == "dark"
    assert Theme("none").paint("strong bad", "x") == "x"


@pytest.mark.parametrize("width", [30, 40, 80])
def test_a_tool_s_summary_is_one_row_the_argument_gives_way(width: int) -> None:
    command = "for i in 1 2 3; do echo 第二行 $i; sleep 0.3; done; touch made.txt and more of it"
    event = ToolCallChanged("1", "bash", "success", command, "exit 0", duration_ms=1100)
    line = tool_lines(event, Catalog("en"), width)[0]
    shown = "".join(text for _, text in line)
    assert line_width(line) <= width
    assert shown.startswith("✓ run for i ")
    assert shown.endswith("… · exit 0 · 1.1s")
    assert command in "".join(text for _, text in tool_lines(event, Catalog("en"))[0])
