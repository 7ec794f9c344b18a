"""File completion for `@`: paths are listed in a background thread and searched at each key."""

from __future__ import annotations

import os
import re
import select
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import msgspec

from coder.base.process.programs import DEVNULL, PIPE, Runs, start
from coder.ui.terminal.input.editing import escaped_path
from coder.ui.terminal.input.menu import MenuItem
from coder.ui.terminal.render.escapes import safe

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
