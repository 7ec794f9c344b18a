"""Completion menus: sources, matching and ranking."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from coder.ui.terminal.input.editing import MenuKind, MenuRequest, escaped_path

ROWS = 8
_MODES_FIRST = 3  # custom modes that a bare `/` lists before the commands
_FREE_ARGUMENTS = ("model", "diff")  # commands that take arguments outside the menu


class MenuItem(msgspec.Struct, frozen=True):
    """`insert` is the text it inserts, `scope` its origin ("user", "project", …), `hint` its arguments,
    `about` its description. `replaceable`: not shown if another source has an entry of that name."""

    label: str
    insert: str
    about: str = ""
    scope: str = ""
    hint: str = ""
    style: str = ""  # of the label: "dim", "bad"
    replaceable: bool = False


class MenuSource(Protocol):
    """A source of slash menu entries. `items` is called whenever the menu opens and should be quick;
    `insert` has no leading slash."""

    def items(self) -> Sequence[MenuItem]: ...


Arguments = Callable[[str], Sequence[MenuItem]]


class Menu(msgspec.Struct):
    """An open menu. `chosen` is -1 without a selection; `moved` is set once the person selected an entry."""

    items: list[MenuItem]
    start: int
    query: str
    kind: MenuKind = "command"
    chosen: int = 0
    moved: bool = False

    @property
    def chosen_item(self) -> MenuItem | None:
        return self.items[self.chosen] if self.chosen >= 0 else None

    def answers(self, request: MenuRequest | None) -> bool:
        return request is not None and (request.start, request.query) == (self.start, self.query)

    def choose(self, item: MenuItem | None) -> None:
        """Select the item if it is still listed."""
        if item is not None and item in self.items:
            self.chosen, self.moved = self.items.index(item), True

    def move(self, by: int) -> None:
        self.moved = True
        self.chosen = (
            (self.chosen + by) % len(self.items) if self.chosen >= 0 or by > 0 else len(self.items) - 1
        )

    def visible(self, rows: int) -> list[tuple[MenuItem, bool]]:
        """The visible entries, scrolled to the selected one."""
        top = max(0, min(self.chosen - rows // 2, len(self.items) - rows))
        return [(item, at == self.chosen) for at, item in enumerate(self.items)][top : top + rows]

    def complete(self) -> bool:
        """Whether accepting the entry would not change the text."""
        item = self.chosen_item
        return item is None or item.insert in (self.query, escaped_path(self.query))

    def runs(self) -> bool:
        """Whether Enter runs the entry instead of completing it: one that was selected, or the only one with
        the typed prefix, that needs no argument."""
        item = self.chosen_item
        if item is None or self.kind == "file" or (item.hint and not item.hint.startswith("[")):
            return False
        begun = [one for one in self.items if one.insert.startswith(self.query.lower())]
        return self.moved or begun == [item]


class Menus:
    """Finds the menu for a request."""

    def __init__(
        self,
        sources: Sequence[MenuSource],
        arguments: dict[str, Arguments],
        files: Callable[[str], Sequence[MenuItem]],
    ) -> None:
        self.sources = list(sources)
        self.arguments = arguments
        self.files = files

    def find(self, request: MenuRequest | None) -> Menu | None:
        if request is None:
            return None
        items = self._items(request)
        if not items:
            return None
        chosen = 0 if _preselects(request, items[0]) else -1
        return Menu(items, request.start, request.query, request.kind, chosen)

    def _items(self, request: MenuRequest) -> list[MenuItem]:
        if request.kind == "file":
            return list(self.files(request.query))
        if request.kind == "command":
            return ranked(self._commands(), request.query)
        values = self.arguments.get(request.command)
        return ranked(values(request.query), request.query) if values else []

    def _commands(self) -> list[MenuItem]:
        """The first source's entries after the first few of the others, which would not be visible at the
        end."""
        first, *others = [list(source.items()) for source in self.sources] or [[]]
        more = [item for items in others for item in items]
        named = {item.insert for item in more}
        first = [item for item in first if not (item.replaceable and item.insert in named)]
        return [*more[:_MODES_FIRST], *first, *more[_MODES_FIRST:]]


def _preselects(request: MenuRequest, best: MenuItem) -> bool:
    """Whether Enter accepts the first entry: not if the typed text may be meant literally (a description's
    word, a completed directory, an unlisted model)."""
    if request.kind == "command":
        name = " ".join(word for word in request.query.split() if not word.startswith("("))
        return not name or score(best.insert, name) > 0
    return bool(request.query) and not request.query.endswith("/") and request.command not in _FREE_ARGUMENTS


def ranked(items: Sequence[MenuItem], query: str) -> list[MenuItem]:
    """Matching items, best first (stable). A word that starts with `(` filters by scope prefix: `(proj`."""
    tags = [word.lower() for word in query.split() if word.startswith("(")]
    if tags:
        items = [item for item in items if all(item.scope.lower().startswith(tag) for tag in tags)]
        query = " ".join(word for word in query.split() if not word.startswith("("))
    if not query:
        return list(items)
    scored = [(max(score(item.insert, query), _description_score(item, query)), item) for item in items]
    return [item for points, item in sorted(scored, key=lambda pair: -pair[0]) if points > 0]


def _description_score(item: MenuItem, query: str) -> int:
    """Matches in the description rank lower, and only as substrings: any text contains any subsequence."""
    return score(item.about, query) - 400 if query.lower() in item.about.lower() else 0


def score(text: str, query: str) -> int:
    """Rank a match: equal, prefix, word prefix, substring, subsequence; 0 for none."""
    text, query = text.lower(), query.lower()
    if text == query:
        return 1000
    if text.startswith(query):
        return 900 - min(len(text), 99)
    at = text.find(query)
    if at > 0:
        return (800 if not text[at - 1].isalnum() else 700) - min(at, 99)
    return max(0, 500 - _spread(text, query)) if len(query) > 1 else 0


def _spread(text: str, query: str) -> int:
    """The spread of the subsequence `query` in `text`; 500 if it is none."""
    at = first = text.find(query[0])
    for letter in query[1:]:
        at = text.find(letter, at + 1) if at >= 0 else -1
    if at < 0:
        return 500
    return min(499, 5 * (at - first + 1 - len(query)) + first)
