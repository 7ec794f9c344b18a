"""The types of the record's entries: what is written is what an earlier version wrote, byte for byte; what is
read need not fit; and readers and writers know the same fields."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import coder
from coder.cli.show import lines_of
from coder.context.action_log import ActionLog
from coder.engine.resume import Choices, JobsLeft
from coder.history import log as session_log
from coder.history.log import SessionLog, read_log
from coder.history.replay import Replay
from coder.history.rewound import RecentTurns
from coder.history.sinks import encode
from coder.history.turn_so_far import NewestTurn
from coder.protocol import entries
from coder.protocol.history import HistoryEvent
from coder.texts import Catalog
from coder.ui.acp.updates import RecordReplay
from coder.ui.browser.event_html import EventHtml
from kit.record_sessions import RECORDS, Told

OLD = [path for path in RECORDS if path.stem != "unknown"]
FORMS: dict[str, type[entries.Entry]] = {name: form for form, name in entries.NAMES.items()}
OPEN = ("observation", "command")  # the fields of a tool's result follow their own


def lines() -> Iterator[tuple[bytes, HistoryEvent]]:
    """Every line of the old records, and those of subagents as lines of their own."""
    for path in OLD:
        for line, event in zip(path.read_bytes().splitlines(), read_log(path), strict=True):
            yield line, event
            if event.type == "subagent":
                yield encode(event.inner), event.inner


@pytest.mark.parametrize("kind", FORMS)
def test_what_is_written_is_the_same_bytes(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = 0
    for line, event in lines():
        if event.type != kind:
            continue
        seen += 1
        monkeypatch.setattr(session_log, "now", lambda ts=event.ts: ts)
        log = SessionLog(event.session_id, [], lambda _event: None)
        log.turn, log.step = event.turn, event.step
        entry: Any = msgspec.convert(event.meta, FORMS[kind])  # as it should be: nothing is made to fit
        more: dict[str, Any] = {}
        if kind in OPEN:
            own = [f.name for f in msgspec.structs.fields(FORMS[kind]) if f.required or f.name == "ok"]
            more = {name: value for name, value in event.meta.items() if name not in own}
            entry = FORMS[kind](**{name: event.meta[name] for name in own if name in event.meta})
        written = log.append(entry, event.content, role=event.role, more=more)
        assert encode(written) == line
    assert seen, "no record has one"


def test_every_field_is_written_by_somebody() -> None:
    """A field that no writer writes is one that a reader waits for in vain."""
    written = {name for _line, event in lines() for name in _written(FORMS[event.type], event.meta)}
    declared = {name for form in FORMS.values() for name in _declared(form)}
    assert declared - written == set()


def _structs(form: Any) -> list[type[msgspec.Struct]]:
    if isinstance(form, type) and issubclass(form, msgspec.Struct):
        return [form]
    return [found for one in get_args(form) for found in _structs(one)]


def _declared(form: type[msgspec.Struct]) -> Iterator[tuple[str, str]]:
    for field in msgspec.structs.fields(form):
        yield form.__name__, field.name
        for part in _structs(field.type):
            yield from _declared(part)


def _written(form: type[msgspec.Struct], value: Any) -> Iterator[tuple[str, str]]:
    for field in msgspec.structs.fields(form):
        if isinstance(value, dict) and field.name in value:
            yield form.__name__, field.name
            inside = value[field.name]
            for part in _structs(field.type):
                for one in inside if isinstance(inside, list) else [inside]:
                    yield from _written(part, one)


# what does not fit

ODD: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
SEEN = [event for _line, event in lines()]


@st.composite
def strange(draw: st.DrawFn) -> HistoryEvent:
    """A line that was once written, with some of its fields gone or of any other type."""
    event = draw(st.sampled_from(SEEN))
    meta = dict(event.meta)
    for name in draw(st.lists(st.sampled_from([*meta, "x"]), max_size=4)):
        meta[name] = draw(ODD)
    for name in draw(st.lists(st.sampled_from([*meta, "x"]), max_size=2)):
        meta.pop(name, None)
    for name, value in meta.items():
        if isinstance(value, dict) and value and draw(st.booleans()):
            meta[name] = {**value, draw(st.sampled_from(list(value))): draw(ODD)}
    return msgspec.structs.replace(event, meta=meta)


@pytest.mark.thorough
@given(st.lists(strange(), max_size=12))
def test_nothing_that_a_line_may_hold_stops_a_reader(events: list[HistoryEvent]) -> None:
    texts = Catalog("en")
    takers: list[Any] = [
        Replay(),
        ActionLog(),
        RecentTurns(),
        Choices(),
        NewestTurn(),
        JobsLeft(),
        RecordReplay(Told()),
    ]
    for event in events:
        assert isinstance(event.entry, FORMS[event.type])
        for taker in takers:
            taker.take(event)
        "".join([*lines_of(event, texts.say, "", {}), EventHtml(texts).html(event)]).encode()


def test_a_field_that_does_not_fit_costs_itself_alone() -> None:
    calls = [{"id": "a", "name": "read", "arguments": "{}"}, 7]
    meta = {"model": 3, "tokens": {"prompt": 5, "total": "x"}, "tool_calls": calls, "reasoning": "why"}
    entry = entries.entry_of("assistant", meta)
    assert isinstance(entry, entries.Assistant)
    assert entry.model is None
    assert entry.tokens is not None
    assert (entry.tokens.prompt, entry.tokens.completion, entry.tokens.total) == (5, 0, 0)
    assert [call.id for call in entry.tool_calls] == ["a"]
    assert entry.reasoning == "why"
    assert entries.entry_of("weather", {"model": "m"}) is None


def test_a_summary_that_does_not_say_what_it_keeps_replaces_nothing() -> None:
    state = Replay()
    state.take(HistoryEvent(ts="", session_id="s", turn=1, type="turn_start", content="hello"))
    state.take(HistoryEvent(ts="", session_id="s", turn=1, type="compaction", meta={"kept": "many"}))
    assert [message.content for message in state.messages] == ["hello"]


# who may read past the types

JSON_READERS = {
    "engine/sdk.py": "a step's actions are JSON",
    "engine/subagent.py": "wraps a line in a line",
    "protocol/history.py": "makes an entry of it",
    "history/signature.py": "a seal is over the JSON",
    "history/sinks.py": "writes it",
    "ui/acp/updates.py": "shows the short fields as they are",
    "history/entries_to_events.py": "shows the fields of results as they are",
}


def test_readers_go_by_the_types() -> None:
    """`meta` of a line is a dictionary, in which no type checker finds a name that nobody writes."""
    source = Path(coder.__file__).parent
    found = set()
    for path in source.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if "HistoryEvent" in text or "read_log" in text else ():
            match node:
                case ast.Attribute(value=ast.Name(id="result"), attr="meta"):
                    pass  # a tool's
                case ast.Attribute(attr="meta"):
                    found.add(path.relative_to(source).as_posix())
    assert found == set(JSON_READERS)
