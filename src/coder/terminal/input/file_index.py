"""The files that `@` offers: listed once in the background, searched at each key."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import msgspec

from coder.terminal.input.editing import escaped_path
from coder.terminal.input.menu import MenuItem
from coder.terminal.render.sanitize import safe

SHOWN = 50
_SILENCE = 1.0  # seconds without a path
_FRESH_SECONDS = 15.0  # after this a new `@` lists the files again
_MAX_FILES = 400_000
_LOOKED_AT = 2_000  # matches that are ranked; more fit only a query too short to rank anything


class FileIndex:
    """Names of the workspace's files and folders, what `.gitignore` hides left out."""

    def __init__(self, root: Path, environ: Mapping[str, str], changed: Callable[[], object]) -> None:
        """`changed` is called from another thread when there is more to search."""
        self._root = root
        self._environ = dict(environ)
        self._changed = changed
        self._text = "\n"  # every path between newlines, so that one search runs over all of them
        self._lower = "\n"
        self._listed = float("-inf")
        self._narrowed = Narrowed()
        self._thread: threading.Thread | None = None

    def refresh(self) -> None:
        """Begin to list, unless that is going on or has just been done."""
        alive = self._thread is not None and self._thread.is_alive()
        if alive or time.monotonic() - self._listed < _FRESH_SECONDS:
            return
        self._thread = threading.Thread(target=self._list, name="file list", daemon=True)
        self._thread.start()

    def search(self, query: str) -> list[MenuItem]:
        self.refresh()
        text, lower = self._text, self._lower
        if self._narrowed.covers(text, query):  # one letter more: what did not fit before does not fit now
            among = "\n" + "\n".join(self._narrowed.paths) + "\n"
            return [_item(path) for path in find_paths(among, lowered(among), query, SHOWN)]
        found, whole = matching(text, lower, query, SHOWN)
        self._narrowed = Narrowed(text, query, found if whole else [], whole)
        return [_item(path) for path in best(found, query, SHOWN)]

    def _list(self) -> None:
        paths: list[str] = []
        folders: set[str] = set()
        first = not self._text.strip()
        shown_at = 0
        for path in self._paths():
            paths.append(path)
            above = path.rpartition("/")[0]
            while above and above not in folders:
                folders.add(above)
                paths.append(above + "/")
                above = above.rpartition("/")[0]
            # The first screenful at once, then as the list grows: joining it is not free.
            if first and len(paths) >= max(200, 4 * shown_at):
                shown_at = len(paths)
                self._publish(paths)
            if len(paths) >= _MAX_FILES:
                break
        self._publish(sorted(paths, key=lambda path: (path.count("/"), path)))
        self._listed = time.monotonic()

    def _publish(self, paths: list[str]) -> None:
        text = "\n" + "\n".join(path for path in paths if "\n" not in path) + "\n"
        self._text, self._lower = text, lowered(text)
        self._changed()

    def _paths(self) -> Iterator[str]:
        from coder.tools.search.ignore import Place
        from coder.tools.search.ripgrep import common_options, find_ripgrep

        program = find_ripgrep(self._environ.get("PATH", ""), self._root)
        if program is None:
            yield from self._walked()
            return
        import subprocess

        command = [program, *common_options(Place(self._root, self._root)), "--files", "--null", "--", "."]
        try:
            child = subprocess.Popen(
                command,
                cwd=self._root,
                env=self._environ,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        except OSError:
            yield from self._walked()
            return
        with child:
            assert child.stdout is not None
            rest, given = b"", set[str]()
            while self._has_more(child.stdout.fileno()):
                chunk = os.read(child.stdout.fileno(), 65_536)
                if not chunk:
                    return
                *records, rest = (rest + chunk).split(b"\0")
                for record in records:
                    path = os.fsdecode(record).removeprefix("./")
                    given.add(path)
                    yield path
            child.kill()
        yield from (path for path in self._walked() if path not in given)

    def _has_more(self, stream: int) -> bool:
        """False where nothing will come, because ripgrep waits for a `.gitignore` that is a pipe."""
        import select

        from coder.tools.search.ignore import odd_ignore_file

        silent = not select.select([stream], [], [], _SILENCE)[0]
        return not (silent and odd_ignore_file(self._root))

    def _walked(self) -> Iterator[str]:
        from coder.tools.search.walk import Walk

        base = len(os.fspath(self._root).rstrip("/")) + 1
        for path in Walk(self._root, self._root, 20.0).files():
            yield path[base:]


class Narrowed(msgspec.Struct, frozen=True):
    """Every path of `text` that fits `query`, where they are few enough to know that."""

    text: str = ""
    query: str = ""
    paths: list[str] = []
    whole: bool = False

    def covers(self, text: str, query: str) -> bool:
        return self.whole and self.text is text and bool(self.query) and query.startswith(self.query)


def lowered(text: str) -> str:
    """In lower case, with every letter where it was: a few change their length."""
    lower = text.lower()
    return (
        lower if len(lower) == len(text) else "".join(c.lower() if len(c.lower()) == 1 else c for c in text)
    )


def find_paths(text: str, lower: str, query: str, limit: int) -> list[str]:
    """The paths that fit best. `text` has each between newlines, `lower` is the same in lower case."""
    return best(matching(text, lower, query, limit)[0], query, limit)


def best(paths: list[str], query: str, limit: int) -> list[str]:
    query = query.lower()
    return sorted(paths, key=lambda path: _rank(path, query))[:limit] if query else paths[:limit]


def matching(text: str, lower: str, query: str, limit: int) -> tuple[list[str], bool]:
    """The paths that fit (more than `limit`, if there are more), and whether they are all that do."""
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
    while at >= 0 and len(found) < _LOOKED_AT:
        start, end = text.rfind("\n", 0, at) + 1, text.find("\n", at)
        found.append(text[start:end])
        at = lower.find(query, end)
    return found


def _in_order(text: str, lower: str, query: str, limit: int) -> list[str]:
    """Paths that have the letters in order. A letter is looked for in what is left of the line only, so the
    search does not go back over it."""
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
