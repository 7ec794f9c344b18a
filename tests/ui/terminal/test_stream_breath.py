"""The transcript breathes: one blank line between what the model says and what it did, never two; and what
the terminal itself says in between breaks no answer."""

from __future__ import annotations

import pytest

from coder.protocol.events import AnyEvent, CommandDone, Content, Thought, ToolCallChanged, TurnEnded
from coder.protocol.messages import Usage
from coder.texts import Catalog
from coder.ui.terminal.render.escapes import safe_output
from coder.ui.terminal.render.transcript import Transcript
from coder.ui.terminal.render.width import Line, plain

WIDTH, LIVE = 40, 5
READ = ToolCallChanged("1", "read", "success", "a.txt")
DIFF = ToolCallChanged("2", "write", "success", "b.txt", detail="@@ -0,0 +1 @@\n+x", detail_kind="diff")
LONG = " ".join(f"w{at}" for at in range(40))


def rows(*events: AnyEvent | list[Line]) -> list[str]:
    """What reached scrollback, with a frame after each event; a list is an echo of the terminal's own."""
    transcript = Transcript(Catalog("en"), lambda: WIDTH)
    out: list[Line] = []
    for event in events:
        if isinstance(event, list):
            transcript.echo(event, apart=True)
        else:
            transcript.handle(event)
        out += transcript.drain(LIVE)
    transcript.handle(TurnEnded(1, "ok", "", 1, Usage(), 0))
    return [plain(row) for row in [*out, *transcript.drain(LIVE)]]


def test_prose_and_thoughts_stand_apart_from_tool_calls() -> None:
    shown = rows(Thought("hm"), READ, READ, Thought("so"), DIFF, Content("done\n\nreally"))
    assert shown == [
        *("  hm", "", "✓ read a.txt · 0.0s", "✓ read a.txt · 0.0s", "", "  so", ""),
        *("✓ write b.txt · 0.0s", "  1 + x", "", "done", "", "really"),
    ]


@pytest.mark.parametrize("blank", ["\n", "\n\n", " \n\n\n"])
def test_a_model_that_says_nothing_leaves_no_gap(blank: str) -> None:
    read = "✓ read a.txt · 0.0s"
    assert rows(DIFF, Content(blank), READ) == ["✓ write b.txt · 0.0s", "  1 + x", read]
    assert rows(Content("a"), READ, Thought(blank), Content("b")) == ["a", "", read, "", "b"]
    assert rows(Content("a"), Thought(blank), READ) == ["a", "", read]


@pytest.mark.parametrize("say", [Content, Thought])
def test_blank_lines_before_the_first_word_break_no_paragraph(say: type[Content | Thought]) -> None:
    shown = rows(say("\n\n"), *(say(char) for char in LONG))
    assert "" not in shown
    assert " ".join(row.strip() for row in shown) == LONG


def test_a_line_of_the_terminal_s_own_cuts_no_word_and_no_code() -> None:
    note: list[Line] = [[], [("", "note")]]
    assert rows(Content("one tw"), note, Content("o three")) == ["", "note", "", "one two three"]
    shown = rows(Content("```py\na = 1\n"), note, Content("# b\n```\n"))
    assert shown == ["```py", "a = 1", "", "note", "", "# b", "```"]


def test_the_answer_is_copied_whole_although_something_was_said_in_between() -> None:
    transcript = Transcript(Catalog("en"), lambda: WIDTH)
    transcript.handle(Content("first half, "))
    transcript.echo([[("", "note")]], apart=True)
    transcript.handle(Content("second half"))
    assert "".join(transcript.answer) == "first half, second half"
    transcript.handle(READ)
    transcript.handle(Content("another"))
    assert "".join(transcript.answer) == "another"


def test_a_progress_bar_is_its_last_state() -> None:
    assert safe_output("a\r\nb\r\n") == "a\nb\n"
    assert safe_output("10%\r20%\r50%\r100%\ndone\x1b[0m") == "…100%\ndone␛[0m"
    assert safe_output("evil\rgood") == "evil\\x0dgood"  # not a bar: nothing is hidden
    bar = ToolCallChanged("3", "bash", "success", "make", detail="\r1%\r9%\r99%\nok\n", detail_kind="output")
    assert rows(bar) == ["✓ run make · 0.0s", "  │ …99%", "  │ ok"]
    assert rows(CommandDone("!make", "\r1%\r9%\r99%", ok=True)) == ["…99%"]
    assert rows(CommandDone("/diff", "+a\r", ok=True)) == ["+a\\x0d"]
