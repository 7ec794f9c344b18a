"""The session's log: stamps events with time, session, turn and step and hands them to the sinks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from coder.protocol.entries import NAMES, AnyEntry, Instructions, ModeState, SessionEnd, SessionStart
from coder.protocol.history import HistoryEvent
from coder.record.sinks import HistorySink


def now() -> str:
    return as_time(time.time())


def local_time(seconds: float) -> str:
    """To the minute, for a person to read; `-` for a file's time that no calendar has."""
    try:
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))
    except (OverflowError, ValueError, OSError):
        return "-"


def as_time(seconds: float) -> str:
    """ISO-8601 in UTC, to the millisecond."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{int(seconds * 1000) % 1000:03d}Z"


_BEGINNINGS = (Instructions, ModeState)  # what a session may start with before anything is said


class SessionLog:
    """Appends; remembers nothing. `told` hears of every event after it is safe in the first sink."""

    def __init__(
        self,
        session_id: str,
        sinks: Sequence[HistorySink],
        told: Callable[[HistoryEvent], None],
        shared: Sequence[HistorySink] = (),
        seal: Callable[[HistoryEvent], HistoryEvent] | None = None,
    ) -> None:
        """`shared` sinks outlive the session: they are written to, but whoever brought them closes them.
        `seal` is put on the first event, when it is written."""
        self.session_id = session_id
        self.turn = 0
        self.step = 0
        self._own = list(sinks)
        self._sinks = [*sinks, *shared]
        self._told = told
        self._seal = seal
        # A session in which nothing was said leaves no file: its beginnings wait for the first event of use.
        self._held: list[HistoryEvent] = []

    def append(
        self,
        entry: AnyEntry,
        content: str = "",
        *,
        role: str | None = None,
        more: Mapping[str, Any] | None = None,
    ) -> HistoryEvent:
        """`more`: fields that follow those of the entry, as a tool's result has them."""
        meta = msgspec.to_builtins(entry)
        event = HistoryEvent(
            ts=now(),
            session_id=self.session_id,
            turn=self.turn,
            step=self.step,
            type=NAMES[type(entry)],
            content=content,
            role=role,
            meta={**meta, **more} if more else meta,
        )
        if not more:
            event.__dict__["entry"] = entry  # known already
        if isinstance(entry, SessionStart) or (self._held and isinstance(entry, _BEGINNINGS)):
            self._held.append(event)
        elif not (self._held and isinstance(entry, SessionEnd)):
            while self._held:
                first = self._held[0]
                if self._seal is not None and isinstance(first.entry, SessionStart):
                    first = self._seal(first)
                self._write(first)
                del self._held[0]  # only now: a disk that was full may have room again
            self._write(event)
        return event

    def _write(self, event: HistoryEvent) -> None:
        for sink in self._sinks:
            sink.append(event)
        self._told(event)

    def flush(self) -> None:
        for sink in self._sinks:
            sink.flush()

    def close(self) -> None:
        for sink in self._own:
            sink.close()


def read_log(path: Path) -> Iterator[HistoryEvent]:
    """The events of a log, one at a time. A torn last line, and any that is no event, is passed over."""
    decoder = msgspec.json.Decoder(HistoryEvent)
    with path.open("rb") as file:
        for line in file:
            if not line.endswith(b"\n"):
                return
            try:
                yield decoder.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue
