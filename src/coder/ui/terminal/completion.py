"""The editor with its completion sources."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from coder.config import ConfigError
from coder.config.allowlist import project_directory
from coder.engine.engine import Engine
from coder.engine.setup import Options, Settings, listed_models, provider_of
from coder.models.model import ModelError
from coder.ui.terminal.input.editor import Editor
from coder.ui.terminal.input.input_history import ProjectHistory
from coder.ui.terminal.input.menu import Arguments, FileIndex, MenuItem, Menus, ranked
from coder.ui.terminal.local_commands import BuiltIn, argument_menus
from coder.ui.terminal.modes.mode_menu import Modes
from coder.ui.terminal.render.escapes import flat, safe

MOST = 500  # names kept of a server's list


class ModelNames:
    """The configured names at once; the server's once it has answered."""

    def __init__(
        self,
        known: Sequence[str],
        listed: Callable[[], Awaitable[Sequence[str]]],
        changed: Callable[[], object],
    ) -> None:
        """`changed` is called when the server has answered."""
        self._known = list(known)
        self._listed = listed
        self._changed = changed
        self._asking: asyncio.Task[None] | None = None

    def names(self, current: str) -> list[str]:
        if self._asking is None:
            self._asking = asyncio.get_running_loop().create_task(self._ask())
        return list(dict.fromkeys([current, *self._known]))

    async def _ask(self) -> None:
        try:
            names = await self._listed()
        except (ConfigError, ModelError):
            return
        self._known += sorted(names)[:MOST]
        self._changed()


def make_editor(
    options: Options,
    settings: Settings,
    engine: Engine,
    modes: Modes,
    model: Callable[[], str],
    changed: Callable[[], None],
) -> Editor:
    """`model`: the current one; `changed` is called when a menu may have other entries."""
    view, texts, loop = engine.view, settings.texts, asyncio.get_running_loop()
    files = FileIndex(view.root, view.environment, lambda: loop.call_soon_threadsafe(changed))
    arguments = {**_completions(options, settings, engine, model, changed), "modes": modes.menu.arguments}

    def find(query: str) -> list[MenuItem]:
        """Resources of an MCP server (`@server:…`), then files."""
        server, colon, _ = query.partition(":")
        listed = view.resources(server, changed) if colon else []
        items = [MenuItem(safe(f"{server}:{uri}"), f"{server}:{uri}", flat(name)) for uri, name in listed]
        return [*ranked(items, query), *files.search(query)]

    return Editor(
        ProjectHistory(project_directory(settings.home, view.root) / "history"),
        Menus([BuiltIn(texts), modes.menu], arguments, find),
        lambda n: texts.say("terminal.pasted", n=n),
    )


def _completions(
    options: Options,
    settings: Settings,
    engine: Engine,
    model: Callable[[], str],
    changed: Callable[[], None],
) -> dict[str, Arguments]:
    """Argument completion by command name."""
    view = engine.view
    models = ModelNames(
        view.configured_models,
        lambda: listed_models(provider_of(options, settings), None, settings.home),
        changed,
    )
    return argument_menus(
        lambda: models.names(model()),
        lambda: [(info.session_id, info.title) for info in view.sessions(30)],
        view.allowed_commands,
    )
