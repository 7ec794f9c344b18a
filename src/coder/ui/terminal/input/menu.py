"""Completion menus: sources, matching and ranking."""

from __future__ import annotations

import os
import re
import select
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from coder.base.process.programs import DEVNULL, PIPE, Runs, start
from coder.ui.terminal.input.editing import MenuKind, MenuRequest, escaped_path
from coder.ui.terminal.render.escapes import safe

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
        prefixed = [one for one in self.items if one.insert.startswith(self.query.lower())]
        return self.moved or prefixed == [item]


class Menus:
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


SHOWN = 50
_STALL_SECONDS = 1.0  # without output from ripgrep
_FRESH_SECONDS = 15.0  # lifetime of the list
_MAX_FILES = 400_000
_COMPILED = re.compile(r"(?:^|/)__pycache__/|\.pyc$")
_MAX_RANKED = 2_000  # substring matches considered


class FileIndex:
    """Paths of the workspace's files and directories, without ignored ones."""

    def __init__(self, root: Path, environ: Mapping[str, str], changed: Callable[[], object]) -> None:
        """`changed` is called from the background thread when the list has grown."""
        self._root = root
        self._environ = dict(environ)
        self._changed = changed
        self._text = "\n"  # all paths, newline-separated, so that one `find` searches them all
        self._lower = "\n"
        self._listed = float("-inf")
        self._matches = CachedMatches()
        self._thread: threading.Thread | None = None

    def refresh(self) -> None:
        """Start listing, unless it is running or the list is fresh."""
        alive = self._thread is not None and self._thread.is_alive()
        if alive or time.monotonic() - self._listed < _FRESH_SECONDS:
            return
        self._thread = threading.Thread(target=self._list, name="file list", daemon=True)
        self._thread.start()

    def search(self, query: str) -> list[MenuItem]:
        self.refresh()
        text, lower = self._text, self._lower
        if self._matches.covers(text, query):  # a longer query can only narrow the matches
            among = "\n" + "\n".join(self._matches.paths) + "\n"
            return [_item(path) for path in find_paths(among, lower_same_length(among), query, SHOWN)]
        found, whole = matching(text, lower, query, SHOWN)
        self._matches = CachedMatches(text, query, found if whole else [], whole)
        return [_item(path) for path in best(found, query, SHOWN)]

    def _list(self) -> None:
        paths: list[str] = []
        directories: set[str] = set()
        first = not self._text.strip()
        shown_at = 0
        for path in self._paths():
            if _COMPILED.search(path):  # even if no .gitignore lists them
                continue
            paths.append(path)
            above = path.rpartition("/")[0]
            while above and above not in directories:
                directories.add(above)
                paths.append(above + "/")
                above = above.rpartition("/")[0]
            # Publish the first screenful at once, then at exponentially growing sizes, as joining costs.
            if first and len(paths) >= max(200, 4 * shown_at):
                shown_at = len(paths)
                self._publish(paths)
            if len(paths) >= _MAX_FILES:
                break
        self._publish(sorted(paths, key=lambda path: (path.count("/"), path)))
        self._listed = time.monotonic()

    def _publish(self, paths: list[str]) -> None:
        text = "\n" + "\n".join(path for path in paths if "\n" not in path) + "\n"
        self._text, self._lower = text, lower_same_length(text)
        self._changed()

    def _paths(self) -> Iterator[str]:
        from coder.base.ignore import SearchRoot
        from coder.tools.search.ripgrep import common_options, find_ripgrep

        program = find_ripgrep(self._environ.get("PATH", ""), self._root)
        if program is None:
            yield from self._walk()
            return

        command = [
            program,
            *common_options(SearchRoot(self._root, self._root)),
            "--files",
            "--null",
            "--",
            ".",
        ]
        try:
            child = start(
                command, runs=Runs.HARDENED, cwd=self._root, stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL
            )
        except OSError:
            yield from self._walk()
            return
        with child:
            assert child.stdout is not None
            rest, listed = b"", set[str]()
            while self._has_more(child.stdout.fileno()):
                chunk = os.read(child.stdout.fileno(), 65_536)
                if not chunk:
                    return
                *records, rest = (rest + chunk).split(b"\0")
                for record in records:
                    path = os.fsdecode(record).removeprefix("./")
                    listed.add(path)
                    yield path
            child.kill()
        yield from (path for path in self._walk() if path not in listed)

    def _has_more(self, stream: int) -> bool:
        """False if ripgrep hangs on a `.gitignore` that is a FIFO."""
        from coder.base.ignore import odd_ignore_file

        silent = not select.select([stream], [], [], _STALL_SECONDS)[0]
        return not (silent and odd_ignore_file(self._root))

    def _walk(self) -> Iterator[str]:
        from coder.tools.search.walk import Walk

        base = len(os.fspath(self._root).rstrip("/")) + 1
        for path in Walk(self._root, self._root, 20.0).files():
            yield path[base:]


class CachedMatches(msgspec.Struct, frozen=True):
    """The matches of the last query, if they are complete (`whole`)."""

    text: str = ""
    query: str = ""
    paths: list[str] = []
    whole: bool = False

    def covers(self, text: str, query: str) -> bool:
        return self.whole and self.text is text and bool(self.query) and query.startswith(self.query)


def lower_same_length(text: str) -> str:
    """Lower case with unchanged offsets: letters with a longer lower case stay."""
    lower = text.lower()
    return (
        lower if len(lower) == len(text) else "".join(c.lower() if len(c.lower()) == 1 else c for c in text)
    )


def find_paths(text: str, lower: str, query: str, limit: int) -> list[str]:
    """The best matches. `text` has newline-separated paths, `lower` is the same in lower case."""
    return best(matching(text, lower, query, limit)[0], query, limit)


def best(paths: list[str], query: str, limit: int) -> list[str]:
    query = query.lower()
    return sorted(paths, key=lambda path: _rank(path, query))[:limit] if query else paths[:limit]


def matching(text: str, lower: str, query: str, limit: int) -> tuple[list[str], bool]:
    """Matching paths (at least `limit`, if there are so many), and whether they are all."""
    query = query.lower().replace("\n", "")
    if not query:
        return [path for path in text[1:20_000].split("\n")[:limit] if path], False
    found = _containing(text, lower, query)
    if len(found) >= limit:
        return found, False
    if not all(letter in lower for letter in query):
        return found, True
    seen = set(found)
    apart = _in_order(text, lower, query, limit * 4)
    return [*found, *(path for path in apart if path not in seen)], len(apart) < limit * 4


def _containing(text: str, lower: str, query: str) -> list[str]:
    found: list[str] = []
    at = lower.find(query)
    while at >= 0 and len(found) < _MAX_RANKED:
        start, end = text.rfind("\n", 0, at) + 1, text.find("\n", at)
        found.append(text[start:end])
        at = lower.find(query, end)
    return found


def _in_order(text: str, lower: str, query: str, limit: int) -> list[str]:
    """Subsequence matches. The pattern does not backtrack."""
    pattern = "".join(f"[^\n{re.escape(c)}]*{re.escape(c)}" for c in query)
    found: list[str] = []
    for match in re.finditer(f"\n{pattern}", lower):
        start = match.start() + 1
        found.append(text[start : text.find("\n", start)])
        if len(found) >= limit:
            break
    return found


def _rank(path: str, query: str) -> tuple[int, int, str]:
    whole = path.lower().rstrip("/")
    name = whole.rpartition("/")[2]
    for points, fits in enumerate(
        (
            whole == query,
            name == query,
            whole.startswith(query),
            name.startswith(query),
            query in name,
            query in whole,
        )
    ):
        if fits:
            return points, len(path), path
    return 9, len(path), path


def _item(path: str) -> MenuItem:
    return MenuItem(label=safe(path), insert=escaped_path(path))
