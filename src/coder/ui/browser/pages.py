"""The page's questions to the server: lists, outlines and pages of events, as HTML and figures."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from coder.history.log import local_time
from coder.history.search.database import SearchIndexError, query_marks
from coder.history.search.projects import Project
from coder.history.search.query import search
from coder.history.store import SessionStore
from coder.protocol.history import HistoryEvent
from coder.texts import Catalog
from coder.ui.browser.event_html import EventHtml
from coder.ui.browser.html import escape_controls, escaped, figures_summary, plot, tag
from coder.ui.browser.records import (
    PAGE_EVENTS,
    Outline,
    RecordedImage,
    collect_image,
    directory_of,
    image_ids,
    image_of,
    read_event,
    read_event_page,
)

_LISTED = 200
_KEPT_OUTLINES = 8
_LOOKED_BACK = 1 << 15  # bytes before a page that may have the calls of its first results
_POLL = 0.2  # seconds between checks of a followed record
_LIVE = 600  # seconds after which a session that was not closed counts as killed
_FOLLOW = 20.0  # seconds until the page asks again


class UnknownPage(Exception):
    """There is no such session, place or question."""


class PageApi:
    """`projects`: whose sessions can be seen, starting with that of the current directory."""

    def __init__(self, home: Path, projects: Sequence[Project], texts: Catalog) -> None:
        self._home = home
        self._projects = list(projects)
        self._stores = [SessionStore(Path(one.root), Path(one.history)) for one in projects]
        self._texts = texts
        self._outlines: dict[Path, Outline] = {}
        self._lock = threading.Lock()

    def answer(self, question: str, query: dict[str, str]) -> dict[str, Any]:
        """Raises `UnknownPage`, OSError or ValueError."""
        if question == "list":
            return self._list(query.get("q", ""), everywhere=query.get("all") == "1")
        path = self._path(query.get("s", ""))
        start = int(query.get("from", "0"))
        match question:
            case "events":
                return self._events(path, start, int(query.get("n", PAGE_EVENTS)))
            case "follow":
                return self._follow(path, start)
            case "event":
                return self._event(path, start)
            case "outline":
                return {"title": escape_controls(self._title(query["s"])), **self._outline(path)}
        raise UnknownPage

    def image(self, query: dict[str, str]) -> tuple[str, bytes]:
        """Type and content of the image at a place. Raises as `answer` does."""
        event = read_event(self._path(query.get("s", "")), int(query.get("from", "0")))
        found = image_of(event) if event is not None else None
        if found is None:
            raise UnknownPage
        return found

    def key_of(self, session_id: str) -> str:
        """The page's name for a session of the first project."""
        return f"0/{session_id}"

    def _path(self, key: str) -> Path:
        """A record's file. `exists` rejects ids with a slash."""
        number, _, session_id = key.partition("/")
        if not number.isdecimal() or int(number) >= len(self._stores):
            raise UnknownPage
        store = self._stores[int(number)]
        if not store.exists(session_id):
            raise UnknownPage
        return store.log_path(session_id)

    def _title(self, key: str) -> str:
        number, _, session_id = key.partition("/")
        return self._stores[int(number)].title(session_id) or session_id

    # lists

    def _list(self, words: str, *, everywhere: bool) -> dict[str, Any]:
        numbers = range(len(self._projects) if everywhere else 1)
        rows = self._found(words, numbers) if words.strip() else self._newest(numbers)
        return {"html": "".join(rows), "count": len(rows)}

    def _newest(self, numbers: Sequence[int]) -> list[str]:
        infos = [(info, number) for number in numbers for info in self._stores[number].infos(_LISTED)]
        infos.sort(key=lambda pair: pair[0].updated_at, reverse=True)
        return [
            self._row(number, info.session_id, info.title, info.updated_at, info.turns, [])
            for info, number in infos[:_LISTED]
        ]

    def _found(self, words: str, numbers: Sequence[int]) -> list[str]:
        directories = [self._projects[number].history for number in numbers]
        try:
            found = search(self._home, directories, words, 50)
        except SearchIndexError as error:
            return [tag("li", escaped(error.text(self._texts)))]
        rows, marks = [], query_marks(words)
        for one in found:
            hits = [
                (hit.turn, self._texts.say(f"lookback.kind.{hit.kind}"), highlight_words(hit.line, marks))
                for hit in one.hits
            ]
            number = directories.index(one.directory)
            rows.append(self._row(number, one.session_id, one.title, one.updated_at, one.turns, hits))
        return rows

    def _row(
        self, number: int, name: str, title: str, when: float, turns: int, hits: list[tuple[int, str, str]]
    ) -> str:
        say = self._texts.say
        key = f"{number}/{name}"
        about = f"{local_time(when)} · {say('viewer.turns', n=turns)}"
        if number:
            about += f" · {self._projects[number].root}"
        parts = [
            tag("a", escaped(title or name), href="#", data_open=key),
            tag("small", escaped(about), " ", tag("code", escaped(name))),
            tag("button", escaped(say("viewer.beside")), type="button", class_="beside", data_beside=key),
        ]
        parts += [
            tag("a", escaped(f"{who}: "), html, href="#", class_="hit", data_open=key, data_go=turn)
            for turn, who, html in hits
        ]
        return tag("li", *parts)

    # one session

    def _events(self, path: Path, start: int, count: int) -> dict[str, Any]:
        page = read_event_page(path, start, max(1, min(count, PAGE_EVENTS)))
        render = EventHtml(self._texts, images=self._images(path, page.events), root=directory_of(path))
        if start > 0:
            earlier = read_event_page(path, max(0, start - _LOOKED_BACK), _LOOKED_BACK, _LOOKED_BACK)
            for at, event in earlier.events:
                if at < start:
                    render.before(event)
        html = "".join(render.html(event, at) for at, event in page.events)
        return {"html": html, "next": page.next, "count": len(page.events), "end": page.next >= _size(path)}

    def _event(self, path: Path, start: int) -> dict[str, Any]:
        event = read_event(path, start)
        if event is None:
            raise UnknownPage
        return {"html": EventHtml(self._texts, 0, self._images(path, [(start, event)])).html(event, start)}

    def _images(self, path: Path, events: Iterable[tuple[int, HistoryEvent]]) -> dict[str, RecordedImage]:
        """Images that the events name and do not contain: they may come long before."""
        own: dict[str, RecordedImage] = {}
        for at, event in events:
            if not collect_image(own, event, at) and any(name not in own for name in image_ids(event)):
                return self._read_outline(path).images
        return {}

    def _follow(self, path: Path, start: int) -> dict[str, Any]:
        """Wait until the record is longer than `start`. If it is shorter it was replaced, and is read
        anew."""
        until = time.monotonic() + _FOLLOW
        while time.monotonic() < until:
            if (size := _size(path)) < start:
                return {"html": "", "next": 0, "count": 0, "end": False}
            if size > start:
                answer = self._events(path, start, PAGE_EVENTS)
                if answer["count"]:
                    return answer
            time.sleep(_POLL)
        return {"html": "", "next": start, "count": 0, "end": True}

    def _read_outline(self, path: Path) -> Outline:
        with self._lock:
            outline = self._outlines.pop(path, None) or Outline(path)
            outline.read_on()
            self._outlines[path] = outline
            while len(self._outlines) > _KEPT_OUTLINES:
                del self._outlines[next(iter(self._outlines))]
        return outline

    def _outline(self, path: Path) -> dict[str, Any]:
        outline = self._read_outline(path)
        with self._lock:  # another request may read on
            bars = [row.bar for row in outline.turns]
            return {
                "size": outline.size,
                "live": not outline.closed and time.time() - path.lstat().st_mtime < _LIVE,
                "events": outline.events,
                "turns": [
                    {"turn": row.turn, "at": row.at, "event": row.event, "status": row.status,
                     "check": row.verification, "text": escape_controls(row.text)}
                    for row in outline.turns
                ],
                "marks": outline.marks,
                "rewound": outline.rewound,
                "plot": plot(bars, self._texts),
                "summary": escape_controls(figures_summary(bars, self._texts)),
                "files": [
                    {"path": escape_controls(path), "turns": turns, "at": outline.changes[path]}
                    for path, turns in outline.files.items()
                ],
            }  # fmt: skip


def highlight_words(line: str, marks: list[str]) -> str:
    """As HTML, with the words of a search marked."""
    if not marks:
        return escaped(line)
    pieces = re.split("(" + "|".join(map(re.escape, marks)) + ")", line, flags=re.IGNORECASE)
    return "".join(
        tag("mark", escaped(piece), class_="found") if at % 2 else escaped(piece)
        for at, piece in enumerate(pieces)
    )


def _size(path: Path) -> int:
    return path.lstat().st_size
