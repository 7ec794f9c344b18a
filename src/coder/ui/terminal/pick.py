"""A list to choose from: typing searches it, arrows move, a preview follows.

Drawn in the live region instead of the menu; the draft is stashed meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol

import msgspec

from coder.texts import Catalog
from coder.ui.terminal.input.editor import Editor
from coder.ui.terminal.input.menu import score
from coder.ui.terminal.render.escapes import flat
from coder.ui.terminal.render.width import Line, clip, text_width

_MOST_ROWS = 10  # of the list
_MOST_PREVIEW = 12
_AROUND = 5  # rows of status and prompt, of the hint, and a blank one
_SEARCH_SECONDS = 0.15  # debounce of the slow search
_LEAST_LABEL = 12  # columns


class PickItem(msgspec.Struct, frozen=True):
    """`before` and `about` are dim, beside the label; `found` is a line of the search result."""

    key: str
    label: str
    before: str = ""
    about: str = ""
    found: str = ""


class PickSource(Protocol):
    """A source of choices: its question and key help in one line each, and the items."""

    @property
    def title(self) -> str: ...

    @property
    def hint(self) -> str: ...

    def items(self) -> Sequence[PickItem]:
        """All items, best first. May block: called by a thread."""
        ...

    def search(self, query: str) -> Sequence[PickItem]:
        """Items found by the query beyond those with it in their label. May block: called by a thread."""
        ...

    def preview(self, item: PickItem, width: int) -> list[Line]:
        """May block: called by a thread."""
        ...


class Picker:
    """At most one list is open."""

    def __init__(
        self, editor: Editor, texts: Catalog, size: Callable[[], tuple[int, int]], draw: Callable[[], None]
    ) -> None:
        self._editor, self._texts, self._size, self._draw = editor, texts, size, draw
        self._source: PickSource | None = None
        self._chosen: Callable[[str], None] = lambda _key: None
        self._items: list[PickItem] = []
        self._shown: list[PickItem] = []
        self._at = 0
        self._loading = False
        self._previews: dict[tuple[str, int], list[Line]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._searching: asyncio.TimerHandle | None = None
        editor.buffer.on_text_changed += lambda _buffer: self._query_changed()

    @property
    def open(self) -> bool:
        return self._source is not None

    def show(self, source: PickSource, chosen: Callable[[str], None]) -> None:
        """`chosen` gets the item's key, or "" if there is nothing to choose from. Until the items are loaded,
        typed text is a search and Enter chooses nothing."""
        if self.open:
            return
        self._source, self._chosen, self._items, self._previews = source, chosen, [], {}
        self._shown, self._loading = [], True
        self._editor.stash()
        self._draw()
        self._start(self._load(source))

    async def _load(self, source: PickSource) -> None:
        items = list(await asyncio.to_thread(source.items))
        if self._source is not source:
            return
        self._items, self._loading = items, False
        if items:
            self._filter([])
            return
        self.close()
        self._chosen("")

    def close(self, item: PickItem | None = None) -> None:
        if self._source is None:
            return
        self._source = None
        for task in self._tasks:
            task.cancel()
        self._editor.unstash()
        if item is not None:
            self._chosen(item.key)
        self._draw()

    # keys

    def move(self, by: int) -> None:
        if self._shown:
            self._at = max(0, min(self._at + by, len(self._shown) - 1))
        self._look()

    def page(self, by: int) -> None:
        self.move(by * self._room()[0])

    def accept(self) -> None:
        if self._shown:
            self.close(self._shown[self._at])

    def _query_changed(self) -> None:
        if self._source is None:
            return
        self._filter([])
        if self._searching is not None:
            self._searching.cancel()
        if self._query:
            query, loop = self._query, asyncio.get_running_loop()
            self._searching = loop.call_later(_SEARCH_SECONDS, lambda: self._start(self._search(query)))

    @property
    def _query(self) -> str:
        return " ".join(self._editor.buffer.text.split())

    def _filter(self, found: Sequence[PickItem]) -> None:
        """The items with the query in their label, then those found by the search."""
        query, before = self._query, self._shown[self._at].key if self._shown else ""
        ranked = [(score(f"{item.label} {item.key}", query) if query else 1, item) for item in self._items]
        own = [item for points, item in sorted(ranked, key=lambda one: -one[0]) if points > 0]
        hits = {item.key: item for item in found}
        self._shown = [hits.pop(item.key, item) for item in own]
        self._shown += hits.values()
        self._at = next((at for at, item in enumerate(self._shown) if found and item.key == before), 0)
        self._look()

    # background tasks

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _search(self, query: str) -> None:
        source = self._source
        found = await asyncio.to_thread(source.search, query) if source is not None else []
        if source is self._source and query == self._query and found:
            self._previews.clear()
            self._filter(found)

    def _look(self) -> None:
        """Fetch the preview of the selected item, unless it is cached."""
        self._draw()
        if self._shown and (self._shown[self._at].key, self._size()[0]) not in self._previews:
            self._start(self._fetch(self._shown[self._at], self._size()[0]))

    async def _fetch(self, item: PickItem, width: int) -> None:
        source = self._source
        if source is not None:
            lines = await asyncio.to_thread(source.preview, item, width - 2)
            self._previews[item.key, width] = lines
            self._draw()

    # rows

    def title(self) -> str:
        return self._source.title if self._source is not None else ""

    def prompt(self) -> str:
        return self._texts.say("terminal.pick_search") if self.open else ""

    def _room(self) -> tuple[int, int]:
        """Rows for the list and for the preview."""
        free = max(2, self._size()[1] - _AROUND)
        listed = max(1, min(_MOST_ROWS, free // 2, len(self._shown) or 1))
        return listed, max(0, min(_MOST_PREVIEW, free - listed))

    def rows(self) -> list[Line]:
        source, (columns, _) = self._source, self._size()
        if source is None:
            return []
        listed, previewed = self._room()
        top = max(0, min(self._at - listed // 2, len(self._shown) - listed))
        lines = [self._row(item, top + at == self._at) for at, item in enumerate(self._shown[top:][:listed])]
        if not self._shown and not self._loading:
            lines.append([("dim", "  " + self._texts.say("terminal.pick_nothing"))])
        place = f"  {min(self._at + 1, len(self._shown))}/{len(self._shown)} · "
        lines.append([("dim", place + source.hint)])
        if self._shown and previewed > 1:
            preview = self._previews.get((self._shown[self._at].key, columns), [])
            lines += [[("dim", "  ") if row else ("", ""), *row] for row in preview[:previewed]]
        return [clip(line, columns) for line in lines]

    def _row(self, item: PickItem, chosen: bool) -> Line:
        columns, _ = self._size()
        before = f"{item.before}  " if item.before and columns >= 60 else ""
        about = f"  {flat(item.about)}" if item.about else ""
        room = max(_LEAST_LABEL, columns - 2 - text_width(before) - text_width(about))
        label = clip([("chosen" if chosen else "", flat(item.label))], room)
        mark = ("chosen", "› ") if chosen else ("", "  ")
        return [mark, ("dim", before), *label, ("dim", about)]
