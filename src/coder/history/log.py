"""The session's log: stamps events with time, session, turn and step and passes them to the sinks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from coder.base.safe_open import real_path, stream_of
from coder.history.sinks import HistorySink, close_sink
from coder.protocol.entries import NAMES, AnyEntry, Instructions, ModeState, SessionEnd, SessionStart
from coder.protocol.history import HistoryEvent, decode_event
from coder.texts import Text


def now() -> str:
    return as_time(time.time())


def local_time(when: float, *, seconds: bool = False) -> str:
    """Local time to the minute, or to the second; `-` for a timestamp out of range."""
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S" if seconds else "%Y-%m-%d %H:%M", time.localtime(when))
    except (OverflowError, ValueError, OSError):
        return "-"


def as_time(seconds: float) -> str:
    """ISO-8601 in UTC, to the millisecond."""
    return f"{_to_the_second(int(seconds))}.{int(seconds * 1000) % 1000:03d}Z"


@lru_cache(maxsize=1)
def _to_the_second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


_TYPE_WITHIN = 300  # bytes of a line: the type follows the time and the session's id
_PREAMBLE = (Instructions, ModeState)  # may precede the first input


class SessionLog:
    """Appends events; keeps none. `on_event` is called once the sinks have written an event."""

    def __init__(
        self,
        session_id: str,
        sinks: Sequence[HistorySink],
        on_event: Callable[[HistoryEvent], None],
        shared: Sequence[HistorySink] = (),
        seal: Callable[[HistoryEvent], HistoryEvent] | None = None,
        warn: Callable[[Text], None] | None = None,
    ) -> None:
        """`shared` sinks outlive the session: their owner closes them. `seal` signs the first event.
        `warn` is told of a shared sink that raised: what is recorded is true all the same."""
        self.session_id = session_id
        self.turn = 0
        self.step = 0
        self._own = list(sinks)
        self._shared = list(shared)
        self._on_event = on_event
        self._seal = seal
        self._warn = warn
        self._faulty: list[HistorySink] = []  # those that were warned of
        # Lazy creation: a session without input leaves no file.
        self._pending: list[HistoryEvent] = []

    def append(
        self,
        entry: AnyEntry,
        content: str = "",
        *,
        role: str | None = None,
        more: Mapping[str, Any] | None = None,
    ) -> HistoryEvent:
        """`more`: fields after those of the entry, such as a tool's own."""
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
            event.__dict__["entry"] = entry  # fill the cached property
        if isinstance(entry, SessionStart) or (self._pending and isinstance(entry, _PREAMBLE)):
            self._pending.append(event)
        elif not (self._pending and isinstance(entry, SessionEnd)):
            while self._pending:
                first = self._pending[0]
                if self._seal is not None and isinstance(first.entry, SessionStart):
                    first = self._seal(first)
                self._write(first)
                del self._pending[0]  # only now: a write that failed on a full disk is retried
            self._write(event)
        return event

    def _write(self, event: HistoryEvent) -> None:
        for sink in self._own:
            sink.append(event)
        for sink in self._shared:
            with self._guarded(sink):
                sink.append(event)
        self._on_event(event)

    def flush(self) -> None:
        for sink in self._own:
            sink.flush()
        for sink in self._shared:
            with self._guarded(sink):
                sink.flush()

    @contextmanager
    def _guarded(self, sink: HistorySink) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            if self._warn is None:
                raise
            if sink not in self._faulty:
                self._faulty.append(sink)
                why = f"{type(error).__name__}: {error}"
                self._warn(Text("record.sink_failed", sink=type(sink).__name__, why=why))

    def close(self) -> None:
        for sink in self._own:
            close_sink(sink)

    def close_shared(self) -> None:
        """Close the shared sinks, for their owner."""
        for sink in self._shared:
            with self._guarded(sink):
                close_sink(sink)


def read_log(path: Path) -> Iterator[HistoryEvent]:
    """Stream the events of a log. Skips a torn last line and lines that do not decode."""
    return (event for _, event in numbered_log(path))


def numbered_log(path: Path, mentions: Sequence[bytes] = ()) -> Iterator[tuple[int, HistoryEvent]]:
    """`read_log` with line numbers. `mentions`: decode only lines that begin with one of these."""
    with stream_of(Path(real_path(path.parent)) / path.name) as file:
        for number, line in enumerate(file):
            if not line.endswith(b"\n"):
                return
            if mentions and not any(text in line[:_TYPE_WITHIN] for text in mentions):
                continue
            if (event := decode_event(line)) is not None:
                yield number, event
