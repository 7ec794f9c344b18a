"""Reads a record in pages, and its outline, so that a page can show a record of any size."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec

from coder.base.safe_open import real_path, stream_of
from coder.base.text import one_line
from coder.history.rewound import Rewinds
from coder.history.turn_so_far import changes_of, request_of
from coder.protocol import entries
from coder.protocol.history import HistoryEvent, decode_event
from coder.tools.images import MAX_BYTES, MAX_SIDE, Broken, measured
from coder.ui.browser.html import TurnFigures

_DRAWN = ("image/png", "image/jpeg", "image/gif", "image/webp")  # neither script nor references in them


class RecordedImage(NamedTuple):
    """An image's entry and its offset in the record. `drawn`: a browser may draw it."""

    entry: entries.Image
    at: int
    drawn: bool


def image_ids(event: HistoryEvent) -> list[str]:
    """The ids of the images of an input or a result."""
    entry = event.inner.entry
    return entry.images if isinstance(entry, (entries.TurnStart, entries.Observation)) else []


def collect_image(images: dict[str, RecordedImage], event: HistoryEvent, at: int) -> bool:
    """Whether the event is an image; it is then kept by its id."""
    entry = event.inner.entry
    if not isinstance(entry, entries.Image):
        return False
    images[entry.image_id] = RecordedImage(entry, at, image_of(event) is not None)
    return True


def image_of(event: HistoryEvent) -> tuple[str, bytes] | None:
    """Its type, detected from the content, and data; None if a browser should not draw it (no image, or too
    large)."""
    if not isinstance(event.inner.entry, entries.Image) or len(event.content) > MAX_BYTES * 4 // 3 + 4:
        return None
    try:
        data = base64.b64decode(event.content, validate=True)
        picture = measured(data)
    except (ValueError, Broken):
        return None
    if picture is None or picture.media_type not in _DRAWN or max(picture.width, picture.height) > MAX_SIDE:
        return None
    return picture.media_type, data


PAGE_EVENTS = 60
PAGE_BYTES = 1 << 18
_MOST_CHANGES = 200  # of one file that are listed
_MARK_EVERY = 50  # events between places that a page can begin at


class EventPage(msgspec.Struct, frozen=True):
    """Events with their offsets. `next`: where the following page begins."""

    events: list[tuple[int, HistoryEvent]]
    next: int


def opened_record(path: Path) -> BinaryIO:
    """Raises OSError; neither a symlink nor a pipe is opened."""
    return stream_of(Path(real_path(path.parent)) / path.name)


def read_event_page(path: Path, start: int, events: int = PAGE_EVENTS, size: int = PAGE_BYTES) -> EventPage:
    """From an offset named by an earlier page or the outline; within a line, from the next one."""
    found: list[tuple[int, HistoryEvent]] = []
    with opened_record(path) as file:
        at = _line_start(file, start)
        for place, event, end in _events(file, at):
            at = end
            if event is not None:
                found.append((place, event))
            if len(found) >= events or at - start >= size:
                break
    return EventPage(found, at)


def read_all(path: Path) -> Iterator[tuple[int, HistoryEvent]]:
    """Every event with its place. Raises OSError."""
    with opened_record(path) as file:
        yield from ((place, event) for place, event, _ in _events(file, 0) if event is not None)


def read_event(path: Path, start: int) -> HistoryEvent | None:
    page = read_event_page(path, start, 1)
    return page.events[0][1] if page.events else None


def directory_of(path: Path) -> str:
    """The session's directory; empty if the record does not have it. Raises OSError."""
    first = read_event(path, 0)
    return first.entry.cwd if first and isinstance(first.entry, entries.SessionStart) else ""


def _line_start(file: BinaryIO, start: int) -> int:
    if start <= 0:
        return 0
    file.seek(start - 1)
    if file.read(1) != b"\n":
        return start + len(file.readline())
    return start


def _events(file: BinaryIO, at: int) -> Iterator[tuple[int, HistoryEvent | None, int]]:
    """Place, event (None for a line that does not decode) and end of each whole line."""
    file.seek(at)
    for line in file:
        if not line.endswith(b"\n"):
            return
        yield at, decode_event(line), at + len(line)
        at += len(line)


class TurnRow(msgspec.Struct):
    """A turn in the outline. `event`: the number of events before it."""

    turn: int
    at: int
    event: int
    text: str
    prompt: int = 0
    cached: int = 0
    completion: int = 0
    cost: float = 0.0
    status: str = ""
    verification: str = ""

    @property
    def bar(self) -> TurnFigures:
        return TurnFigures(self.turn, self.prompt, self.cached, self.completion, self.cost)


class Outline:
    """Turns, changed files and images of a record; continues reading as it grows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._begin()

    def _begin(self) -> None:
        self.size = 0
        self.events = 0
        self.turns: list[TurnRow] = []
        self.files: dict[str, list[int]] = {}  # the turns that changed each
        self.changes: dict[str, list[int]] = {}  # and the places of the events
        self.marks: list[tuple[int, int]] = []  # events before, place
        self.images: dict[str, RecordedImage] = {}
        self.rewinds = Rewinds()
        self.closed = False  # the last event ends the session

    @property
    def rewound(self) -> list[tuple[int, int, int | None]]:
        """For the page's script, which replays rewinds step by step."""
        return [(one.start, one.end, one.back) for one in self.rewinds.all]

    def read_on(self) -> None:
        """Raises OSError."""
        with opened_record(self._path) as file:
            if os.fstat(file.fileno()).st_size < self.size:  # another file
                self._begin()
            for place, event, end in _events(file, self.size):
                self.size = end
                if event is not None:
                    self._take(place, event)

    def _take(self, place: int, event: HistoryEvent) -> None:
        entry = event.entry
        self.closed = isinstance(entry, entries.SessionEnd)
        if self.events % _MARK_EVERY == 0:
            self.marks.append((self.events, place))
        self.rewinds.take(place, event)
        if isinstance(entry, entries.TurnStart):
            self.turns.append(TurnRow(event.turn, place, self.events, one_line(event.content, 120)))
        self.events += 1
        if collect_image(self.images, event, place) or not self.turns:
            return
        turn = self.turns[-1]
        if request := request_of(event):
            turn.prompt += request.usage.prompt
            turn.cached += request.usage.cached
            turn.completion += request.usage.completion
            turn.cost += request.cost
        for path in changes_of(event):
            known = self.files.setdefault(path, [])
            if not known or known[-1] != event.turn:
                known.append(event.turn)
            places = self.changes.setdefault(path, [])
            if len(places) < _MOST_CHANGES:
                places.append(place)
        if isinstance(entry, entries.TurnEnd):
            turn.status, turn.verification = entry.status, entry.verification.status
