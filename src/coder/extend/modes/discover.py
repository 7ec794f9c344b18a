"""Discover mode and prompt files, nearest first, without reading them.

Each ancestor of the working directory may have `.coder/modes` and `.codex/modes` (and `prompts`), then come
the two homes. The nearest wins; at the same level `.coder` does.
"""

from __future__ import annotations

import asyncio
import os
import re
import stat
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Literal

import msgspec

from coder.base.safe_open import open_beneath, owner_of, real_path
from coder.base.text import shown
from coder.extend.modes.parse import Mode, parse_mode
from coder.extend.modes.template import ModeFault, commands_in
from coder.protocol.modes import ModeCategory, ModeDefinition, ModeScope

MAX_DEPTH = 8
MAX_FILES = 5_000  # of one directory
MAX_BYTES = 131_072  # of one file; rendered text is limited to a quarter of it

_PART = re.compile(r"[A-Za-z0-9_-]+")
_OWNERS = (".coder", ".codex")
_DIRECTORIES: Mapping[ModeCategory, str] = {"mode": "modes", "prompt": "prompts"}


class Found(msgspec.Struct, frozen=True):
    """A file, the id derived from its path, and its scope."""

    mode_id: str
    path: str
    scope: ModeScope
    category: ModeCategory = "mode"
    bound: str = ""  # symlinks may not leave this directory; empty: unrestricted


class _Root(msgspec.Struct, frozen=True):
    """A directory of modes. Symlinks may not leave `bound` (empty: unrestricted)."""

    directory: str
    scope: ModeScope
    bound: str


class ModeRoots(msgspec.Struct, frozen=True):
    """The working directory and the two homes."""

    cwd: Path
    homes: list[Path]


def places(cwd: Path, environ: Mapping[str, str], coder_home: Path) -> ModeRoots:
    """`$CODER_HOME` as resolved, and `$CODEX_HOME`, else `~/.codex`."""
    # os.path's expanduser keeps an unknown `~user` where pathlib's raises
    named = os.path.expanduser(environ.get("CODEX_HOME") or f"{environ.get('HOME') or '~'}/.codex")  # noqa: PTH111  - text in, text out
    return ModeRoots(cwd=Path(os.path.realpath(cwd)), homes=[coder_home, Path(named).absolute()])


def discover(where: ModeRoots) -> list[Found]:
    """All files, nearest first; an overridden file follows the one that overrides it."""
    found: list[Found] = []
    for category in _DIRECTORIES:
        for root in _roots(where, _DIRECTORIES[category]):
            before = len(found)
            for parts, path in _files(root):
                mode_id = "/" + ":".join(parts if category == "mode" else ("prompts", *parts))
                found.append(Found(mode_id, path, root.scope, category, root.bound))
                if len(found) - before >= MAX_FILES:
                    break  # a project must not crowd out the person's own
            found[before:] = sorted(found[before:], key=lambda one: one.mode_id)
    return found


def read_text(path: str, bound: str = "") -> str | ModeFault:
    """The file's text, or why it cannot be read. Bounded; does not block on a FIFO."""
    try:
        descriptor = open_beneath(Path(path), Path(bound) if bound else None)
    except OSError as error:
        return ModeFault("modes.unreadable", code="file", why=error.strerror or error)
    try:
        info = os.fstat(descriptor)
        if not stat.S_ISREG(info.st_mode):
            return ModeFault("modes.no_file", code="file")
        if info.st_size > MAX_BYTES:
            return ModeFault("modes.too_big", code="file", size=info.st_size, limit=MAX_BYTES)
        data = os.read(descriptor, MAX_BYTES + 1)
    except OSError as error:
        return ModeFault("modes.unreadable", code="file", why=error.strerror or error)
    finally:
        os.close(descriptor)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return ModeFault("modes.no_utf8", code="file", line=data.count(b"\n", 0, error.start) + 1)
    if "\0" in text:  # UTF-16 without a BOM, or binary
        return ModeFault("modes.no_utf8", code="file", line=text.count("\n", 0, text.index("\0")) + 1)
    return text.replace("\r\n", "\n") if "\r" in text else text


# -- directories ------------------------------------------------------------------------------------------


def _roots(where: ModeRoots, name: str) -> Iterator[_Root]:
    homes = {real_path(home / name) for home in where.homes}
    mine = owner_of(where.cwd)
    for ancestor in (where.cwd, *where.cwd.parents):
        scope = ModeScope("project", f"(project:{shown(ancestor.name) or '/'})", shown(str(ancestor)))
        for owner in _OWNERS:
            directory = ancestor / owner / name
            if not os.path.lexists(directory):
                continue
            if real_path(directory) in homes:
                continue  # the person's own: it comes last, as global
            owners = {owner_of(ancestor / owner), owner_of(directory)}
            if ancestor != where.cwd and not owners <= {0, os.geteuid(), mine}:
                continue  # another user's, planted in a world-writable parent
            yield _Root(str(directory), scope, real_path(ancestor))
    seen: set[str] = set()
    for home in where.homes:
        real = real_path(home / name)
        if real not in seen:
            seen.add(real)
            yield _Root(str(home / name), ModeScope("global", "(global)", shown(str(home))), "")


def _files(root: _Root) -> Iterator[tuple[tuple[str, ...], str]]:
    """Name parts and path of each `.md`. Follows symlinks that stay inside and form no loop."""
    real = real_path(root.directory)
    if _inside(root, real):
        yield from _walk(root, root.directory, (), (real,))


def _walk(
    root: _Root, directory: str, parts: tuple[str, ...], chain: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], str]]:
    try:
        with os.scandir(directory) as entries:
            listed = sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return
    for entry in listed:
        kind = _kind(entry)
        stem = entry.name.removesuffix(".md") if kind == "file" else entry.name
        if kind is None or not _PART.fullmatch(stem) or (kind == "file" and stem == entry.name):
            continue
        real = real_path(entry.path) if entry.is_symlink() else ""
        if real and not _inside(root, real):
            continue
        if kind == "file":
            yield (*parts, stem), entry.path
        elif len(parts) + 1 < MAX_DEPTH:
            real = real or f"{chain[-1]}/{entry.name}"
            if real not in chain:
                yield from _walk(root, entry.path, (*parts, stem), (*chain, real))


def _kind(entry: os.DirEntry[str]) -> Literal["file", "folder"] | None:
    """Special files, such as a FIFO called x.md, count as files: their entry reports the error."""
    try:
        if entry.is_dir():
            return "folder"
    except OSError:
        return None  # a symlink loop
    return None if entry.is_symlink() and not Path(entry.path).exists() else "file"


def _inside(root: _Root, real: str) -> bool:
    """A project's symlink must not expose a private file elsewhere."""
    return not root.bound or root.bound == "/" or real == root.bound or real.startswith(root.bound + "/")


BUILT_IN = "(built-in)"


class Catalogue:
    """Modes and saved prompts by name; overridden ones stay listed."""

    def __init__(self, where: ModeRoots, built_in: Collection[str] = ()) -> None:
        """`built_in`: command names, without `/`, that take precedence."""
        self._where = where
        self._built_in = frozenset(built_in)
        self._modes: list[Mode] | None = None
        self._reached: dict[str, Mode] = {}
        self._reading = threading.Lock()

    @property
    def modes(self) -> list[Mode]:
        """All, nearest first, overridden and broken ones included."""
        return self._all()

    def _all(self, after_each: Callable[[], object] = lambda: None) -> list[Mode]:
        with self._reading:
            if self._modes is None:
                self._modes = self._read(after_each)
            return self._modes

    @property
    def definitions(self) -> list[ModeDefinition]:
        return [mode.definition for mode in self.modes]

    def project_commands(self) -> dict[str, list[str]]:
        """Commands of the project's modes, by mode, for the trust question."""
        asked: dict[str, list[str]] = {}
        for mode in self.modes:
            if mode.definition.scope.kind == "project" and mode.definition.category == "mode":
                commands = commands_in(mode.body)
                if commands:
                    asked.setdefault(mode.definition.mode_id, []).extend(commands)
        return asked

    async def prepare(self) -> None:
        """Load in a thread; yields the GIL after each file, so that the prompt stays responsive."""
        if self._modes is None:
            await asyncio.to_thread(self._all, lambda: time.sleep(0))

    async def reload(self) -> None:
        """Read the files again."""
        fresh = Catalogue(self._where, self._built_in)
        await fresh.prepare()
        with self._reading:
            self._modes, self._reached = fresh._modes, fresh._reached

    def find(self, name: str) -> Mode | None:
        """By id or by `/name`, `/modes:name`, `/prompts:name`; with or without `/`.

        A saved prompt is also found by its bare name where nothing else has it. Built-in names are not
        checked: the caller has tried them first.
        """
        if not self.modes:
            return None
        name = "/" + name.removeprefix("/")
        bare = "/" + name.removeprefix("/modes:") if name.startswith("/modes:") else name
        for wanted in (name, bare, "/prompts:" + name[1:]):
            if wanted in self._reached:
                return self._reached[wanted]
        return None

    def _read(self, after_each: Callable[[], object]) -> list[Mode]:
        modes: list[Mode] = []
        for found in discover(self._where):
            mode = parse_mode(found, read_text(found.path, found.bound))
            modes.append(self._placed(mode))
            after_each()
        return modes

    def _placed(self, mode: Mode) -> Mode:
        """Fill in what shadows it and its command."""
        definition = mode.definition
        winner = self._reached.get(definition.mode_id)
        if winner is not None:
            placed = msgspec.structs.replace(
                definition,
                shadowed_by=winner.definition.scope.label,
                shadowed_by_path=winner.definition.path,
            )
        elif definition.mode_id[1:] in self._built_in:
            command = "/modes:" + definition.mode_id[1:]
            placed = msgspec.structs.replace(definition, shadowed_by=BUILT_IN, command=command)
        else:
            placed = msgspec.structs.replace(definition, command=definition.mode_id)
        mode = msgspec.structs.replace(mode, definition=placed)
        self._reached.setdefault(definition.mode_id, mode)
        return mode
