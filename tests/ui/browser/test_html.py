"""Events as HTML: what is said of them is true."""

from __future__ import annotations

import re
from html import unescape

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coder.base.diff import unified
from coder.protocol.history import HistoryEvent
from coder.texts import Catalog
from coder.ui.browser.event_html import EventHtml
from coder.ui.browser.html import TurnFigures, diff_html, plot

_ROW = re.compile(r'<span class="(\w+)"><i>(\d*)</i><i>(\d*)</i>(.*?)\n</span>', re.DOTALL)


def rows_of(diff: str) -> list[tuple[str, str, str, str]]:
    """Kind, old and new number, and text of each row."""
    return [
        (kind, old, new, unescape(re.sub(r"</?mark>", "", html)))
        for kind, old, new, html in _ROW.findall(diff_html(diff))
    ]


# Lines that look like a diff's own; short, so that files have lines in common.
_LINES = st.lists(
    st.sampled_from(["", "a", "b", "-- a", "++ b", "- x", "@@ -1 +1 @@", "\\ No newline"]), max_size=8
)


@pytest.mark.thorough
@given(files=st.lists(st.tuples(_LINES, _LINES), min_size=1, max_size=3), last=st.booleans())
@settings(max_examples=300, deadline=None)
def test_law_the_rows_of_a_diff_are_its_files(files: list[tuple[list[str], list[str]]], last: bool) -> None:
    """Of several files one after the other, as a patch has them."""
    texts = [["\n".join(lines) + ("\n" if last and lines else "") for lines in pair] for pair in files]
    diffs = [unified(old, new, f"a/{at}", f"b/{at}").text(999) for at, (old, new) in enumerate(texts)]
    rows = rows_of("\n".join(filter(None, diffs)))
    at, heads = -1, []
    for kind, old, new, text in rows:
        if kind == "file":
            at = int(text[6:])
            heads.append(text)
            continue
        for number, lines in ((old, texts[at][0].split("\n")), (new, texts[at][1].split("\n"))):
            if number and kind != "at":
                assert lines[int(number) - 1] == text[1:]
        assert (kind == "add") == (bool(new) and not old)
        assert (kind == "del") == (bool(old) and not new)
    assert heads == [line for diff in diffs if diff for line in diff.split("\n")[:2]]
    changed = sum(line[:1] in ("+", "-") for diff in diffs for line in diff.split("\n")[2:])
    assert sum(kind in ("add", "del") for kind, *_ in rows) == changed


def test_a_patch_of_two_files() -> None:
    """The head of the second is no removed and no added line, and a line of dashes in a hunk is one."""
    first = unified("-- x\nb\n", "b\n", "a/1", "b/1").text(99)
    second = unified("", "# Notes\n", "/dev/null", "b/2").text(99)
    assert [row[:3] for row in rows_of(f"{first}\n{second}")] == [
        ("file", "", ""),
        ("file", "", ""),
        ("at", "", ""),
        ("del", "1", ""),
        ("same", "2", "1"),
        ("file", "", ""),
        ("file", "", ""),
        ("at", "", ""),
        ("add", "", "1"),
    ]


def rendered(kind: str, content: str = "", **meta: object) -> str:
    event = HistoryEvent("2026-03-01T09:00:00.000Z", "s", kind, 1, 0, content, None, dict(meta))
    return EventHtml(Catalog("en")).html(event)


@pytest.mark.parametrize(
    ("meta", "who"),
    [
        ({"answer": "yes"}, "yes (by the person)"),
        ({"answer": "auto"}, "yes (by the settings, without asking)"),
        ({"answer": "no", "because": "no terminal"}, "no (without asking: no terminal)"),
    ],
)
def test_who_approved_is_said(meta: dict[str, str], who: str) -> None:
    html = rendered("approval", approval_id="1", tool="bash", subject="make", reasons=[], **meta)
    assert f"approval of bash make: {who}" in html


def test_times_are_the_persons_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in the list of sessions: half of the page in UTC would be false for nearly everybody."""
    import time

    monkeypatch.setenv("TZ", "Asia/Shanghai")
    time.tzset()
    try:
        html = rendered("turn_start", "hello")
    finally:
        monkeypatch.undo()
        time.tzset()
    assert '<time datetime="2026-03-01T09:00:00.000Z">2026-03-01 17:00:00</time>' in html


def test_results_of_calls_made_at_once_say_whose_they_are() -> None:
    render = EventHtml(Catalog("en"))

    def html(kind: str, content: str = "", **meta: object) -> str:
        return render.html(HistoryEvent("t", "s", kind, 1, 0, content, None, dict(meta)))

    for name in ("a", "b"):
        html("action", tool="read", input={"path": f"{name}.py"}, call_id=name)
    for name in ("b", "a"):
        result = html("observation", "text", tool="read", call_id=name, ok=True, denied=False)
        assert f"<small>read {name}.py</small>" in result
    html("action", tool="read", input={"path": "c.py"}, call_id="c")
    assert "<small>" not in html("observation", "text", tool="read", call_id="c", ok=True, denied=False)


def test_a_subagents_task_is_no_turn_of_the_person() -> None:
    inner = {"type": "turn_start", "step": 0, "role": "user", "meta": {}}
    html = rendered("subagent", "find it", task_id="1", agent="explore", event=inner)
    assert 'class="sub"' in html
    assert "Turn" not in html
    assert "explore" in html


def test_the_legend_names_what_there_is() -> None:
    bars = [TurnFigures(n, 1000, 800, 50, 0.0) for n in range(1, 4)]
    assert "key cost" not in plot(bars, Catalog("en"))
    dear = plot([*bars, TurnFigures(4, 2000, 0, 500, 0.25)], Catalog("en"))
    assert 'class="key cost"' in dear
    assert "highest: 2,500 tokens · $0.2500" in dear
    assert "turn 4: sent 2,000, of these cached 0; received 500 · $0.2500" in dear
    assert "3 turns per bar" in plot([TurnFigures(n, 1, 0, 1, 0.0) for n in range(300)], Catalog("en"))
