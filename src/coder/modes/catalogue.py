"""All definitions of a session, loaded lazily once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection

import msgspec

from coder.modes.discover import ModeRoots, discover, read_text
from coder.modes.parse import Mode, parse_mode
from coder.modes.template import commands_in
from coder.protocol.modes import ModeDefinition

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
        import asyncio
        import time

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
