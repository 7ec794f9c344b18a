"""Where the record goes: JSONL that outlives torn lines, full disks and second processes; XML of any text."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coder.base.files import write_atomically
from coder.history.log import SessionLog, read_log
from coder.history.sinks import HistoryError, JsonlHistorySink, LegacyXmlSink, valid_text
from coder.history.store import SessionStore
from coder.protocol import entries
from coder.protocol.history import HistoryEvent
from coder.protocol.messages import Tokens


def event(content: str = "hi", **fields: Any) -> HistoryEvent:
    return HistoryEvent(
        ts="2026-01-01T00:00:00.000Z", session_id="s", turn=1, step=0, type="note", content=content, **fields
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "log.jsonl"


def test_xml_has_every_field_of_an_event(tmp_path: Path) -> None:
    sink = LegacyXmlSink(tmp_path / "history.xml")
    meta = {"tool": "read", "input": {"path": 'a "b" <c> & é\n'}, "tokens": {"prompt": 3}}
    sink.append(event("text", role="assistant", meta=meta))
    sink.close()
    (element,) = ElementTree.fromstring((tmp_path / "history.xml").read_bytes())  # noqa: S314 - our own
    named = dict(element.attrib)
    assert json.loads(named.pop("meta")) == meta
    assert named == {
        "ts": "2026-01-01T00:00:00.000Z",
        "session_id": "s",
        "type": "note",
        "turn": "1",
        "step": "0",
        "role": "assistant",
        "tool": "read",
    }
    assert element.text == "text"


def test_one_line_an_event(path: Path) -> None:
    sink = JsonlHistorySink(path)
    assert not path.exists()  # opened by the first event
    sink.append(event("one\ntwo", role="user", meta={"a": [1, "é"]}))
    sink.append(event("three"))
    sink.flush()
    lines = path.read_text(encoding="utf-8").splitlines()
    assert json.loads(lines[0]) == {
        "ts": "2026-01-01T00:00:00.000Z",
        "session_id": "s",
        "turn": 1,
        "step": 0,
        "type": "note",
        "content": "one\ntwo",
        "role": "user",
        "meta": {"a": [1, "é"]},
    }
    assert [e.content for e in read_log(path)] == ["one\ntwo", "three"]
    sink.close()
    sink.close()


def test_a_log_has_one_writer(path: Path) -> None:
    first, second = JsonlHistorySink(path), JsonlHistorySink(path)
    first.append(event())
    with pytest.raises(HistoryError, match="open in another process"):
        second.append(event())
    first.close()
    second.append(event("now"))
    second.close()
    assert [e.content for e in read_log(path)] == ["hi", "now"]


def test_a_lock_that_a_fork_of_a_killed_writer_still_holds_is_waited_for(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.parent.mkdir()
    path.touch()
    held = os.open(path, os.O_RDWR)
    fcntl.flock(held, fcntl.LOCK_EX)
    monkeypatch.setattr("coder.history.sinks.time.sleep", lambda _: os.close(held))
    sink = JsonlHistorySink(path)
    sink.append(event())
    sink.close()
    assert [e.content for e in read_log(path)] == ["hi"]


def test_lines_that_are_no_events_are_passed_over(path: Path) -> None:
    sink = JsonlHistorySink(path)
    sink.append(event("one"))
    sink.close()
    with path.open("ab") as file:
        file.write(b"\n[]\n{}\n\xff\xfe\n" + b'{"type": "note"}\n' + b"\0" * 50 + b"\n")
    sink.append(event("two"))
    sink.close()
    with path.open("ab") as file:
        file.write(b'{"ts": "torn')
    assert [e.content for e in read_log(path)] == ["one", "two"]


def test_a_disk_that_is_full_in_the_middle_of_a_line(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = JsonlHistorySink(path)
    sink.append(event("one"))
    whole = path.read_bytes()
    write = os.write
    budget = [10]

    def short(fd: int, data: Any) -> int:
        if not budget[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        done = write(fd, bytes(data)[: budget[0]])
        budget[0] -= done
        return done

    monkeypatch.setattr(os, "write", short)
    with pytest.raises(HistoryError, match="the disk is full"):
        sink.append(event("two"))
    assert path.read_bytes() == whole  # the part of the line is taken back
    monkeypatch.undo()
    sink.append(event("three"))
    sink.close()
    assert [e.content for e in read_log(path)] == ["one", "three"]


@pytest.mark.parametrize("where", ["a file", "nowhere"])
def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path, where: str) -> None:
    blocked = tmp_path / "blocked"
    blocked.write_text("x", encoding="utf-8")
    directory = blocked if where == "a file" else Path("/proc/nowhere")
    with pytest.raises(HistoryError, match=r"--log-dir"):
        JsonlHistorySink(directory / "log.jsonl").append(event())


ANY_TEXT = st.text(st.characters())  # all of Unicode, lone surrogates among it


@given(ANY_TEXT, st.dictionaries(ANY_TEXT, ANY_TEXT, max_size=3))
def test_any_text_can_be_recorded(text: str, meta: dict[str, str]) -> None:
    with TemporaryDirectory() as directory:
        path = Path(directory) / "log.jsonl"
        sink = JsonlHistorySink(path)
        sink.append(event(text, meta=dict(meta)))
        sink.append(event("next"))
        sink.close()
        first, second = read_log(path)
    assert second.content == "next"
    assert first.content == valid_text(text)
    if text.isprintable():
        assert first.content == text


def test_bytes_that_are_no_text_stay_recognisable() -> None:
    assert valid_text(b"caf\xe9".decode("utf-8", "surrogateescape")) == "caf\\xe9"
    assert valid_text("\ud800x") == "\\ud800x"
    assert valid_text("好") == "好"


def in_xml(text: str) -> str:
    """What XML 1.0 can carry of a text."""
    shown = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return "".join(c for c in shown if c in "\t\n\r" or (c >= " " and c not in "\ufffe\uffff"))


@given(st.lists(st.tuples(ANY_TEXT, ANY_TEXT, ANY_TEXT), max_size=3))
def test_the_xml_history_is_well_formed_for_any_text(rows: list[tuple[str, str, str]]) -> None:
    with TemporaryDirectory() as directory:
        path = Path(directory) / "history.xml"
        sink = LegacyXmlSink(path)
        for content, role, tool in rows:
            sink.append(event(content, role=role, meta={"tool": tool}))
        sink.flush()
        sink.close()
        sink.close()
        root = ElementTree.fromstring(path.read_bytes())  # noqa: S314 - we have just written it
    assert [e.text or "" for e in root] == [in_xml(content) for content, _, _ in rows]
    assert [e.get("role", "") for e in root] == [in_xml(role) for _, role, _ in rows]
    assert [e.get("tool", "") for e in root] == [in_xml(tool) for _, _, tool in rows]


def test_the_xml_history_says_where_it_cannot_be_written() -> None:
    sink = LegacyXmlSink(Path("/dev/full"))
    with pytest.raises(HistoryError, match="/dev/full"):
        sink.append(event("x" * 100_000))
    with pytest.raises((HistoryError, OSError)):
        sink.close()


# the session's log

CONFIG = entries.Config(model="m", cwd="/", tokenizer="t", tools=[])
MODES = {"mode": "once", "operating_mode": "default", "preset": "balanced"}
START = entries.SessionStart(**MODES, model="m", cwd="/", tokenizer="t", tools=[], config=CONFIG)
END = entries.SessionEnd(**MODES, config=CONFIG, turns=0, tokens=Tokens(0, 0, 0))
TURN = entries.TurnStart(prompt_id="p", tokens=entries.PromptTokens(prompt=1))


class Kept:
    """A sink in memory."""

    def __init__(self) -> None:
        self.events: list[HistoryEvent] = []
        self.closed = False

    def append(self, event: HistoryEvent) -> None:
        self.events.append(event)

    def flush(self) -> None: ...

    def close(self) -> None:
        self.closed = True


def test_the_log_starts_with_the_first_thing_that_happens() -> None:
    sink, told = Kept(), list[HistoryEvent]()
    log = SessionLog("s", [sink], told.append)
    log.append(START, "prompt")
    assert sink.events == []
    log.turn = 1
    log.append(TURN, "hi", role="user")
    assert [(e.type, e.turn) for e in sink.events] == [("session_start", 0), ("turn_start", 1)]
    assert told == sink.events
    log.close()
    assert sink.closed


def test_a_session_in_which_nothing_happened_leaves_nothing() -> None:
    sink = Kept()
    log = SessionLog("s", [sink], lambda _event: None)
    log.append(START, "prompt")
    log.append(END)
    assert sink.events == []


def test_the_start_is_not_lost_where_it_could_not_be_written(path: Path) -> None:
    path.parent.write_text("in the way", encoding="utf-8")
    log = SessionLog("s", [JsonlHistorySink(path)], lambda _event: None)
    log.append(START, "prompt")
    with pytest.raises(HistoryError):
        log.append(TURN, "hi")
    path.parent.unlink()
    log.append(TURN, "hi again")
    log.close()
    assert [e.type for e in read_log(path)] == ["session_start", "turn_start"]


# what is replaced as a whole


def test_an_atomic_write_leaves_the_old_or_the_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "snapshot.json"
    write_atomically(path, b"old")

    def full(fd: int, data: bytes) -> None:
        os.write(fd, data[:3])
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr("coder.base.files.write_all", full)
    with pytest.raises(OSError, match="full"):
        write_atomically(path, b"something new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]  # no temporary file is left
    monkeypatch.undo()
    write_atomically(path, b"new", 0o640)
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_store_lists_what_is_there_and_nothing_else(tmp_path: Path) -> None:
    store = SessionStore(tmp_path)
    assert store.infos() == []
    assert store.latest() is None
    store.history.mkdir(parents=True)
    for name in ("a", "b"):
        sink = JsonlHistorySink(store.log_path(name))
        log = SessionLog(name, [sink], lambda _event: None)
        log.append(START, "prompt")
        log.turn = 1
        log.append(TURN, f"question {name}\nmore")
        log.close()
        os.utime(store.log_path(name), (1000, 1000 if name == "a" else 2000))
    (store.history / "notes.txt").write_text("x", encoding="utf-8")
    (store.history / "empty.jsonl").touch()
    os.utime(store.history / "empty.jsonl", (0, 0))
    infos = store.infos()
    assert [(i.session_id, i.title, i.turns) for i in infos] == [
        ("b", "question b more", 1),
        ("a", "question a more", 1),
    ]
    assert store.latest() == "b"
    assert store.exists("a")
    assert not any(store.exists(name) for name in ("", "c", "..", "../history/a", "a\0", "x" * 999, ".a"))
