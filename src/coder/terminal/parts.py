"""Makes the REPL's editor, with what its menus complete, and its live region."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.key_binding import KeyBindingsBase

from coder.config.allowlist import project_directory
from coder.engine.engine import Engine
from coder.engine.setup import Options, Settings, listed_models, provider_of
from coder.terminal.input.editor import Editor
from coder.terminal.input.file_index import FileIndex
from coder.terminal.input.history import ProjectHistory
from coder.terminal.input.menu import Arguments, MenuItem, Menus, ranked
from coder.terminal.local_commands import BuiltIn, argument_menus
from coder.terminal.models import ModelNames
from coder.terminal.modes.wiring import Modes
from coder.terminal.render.frame_output import FrameOutput
from coder.terminal.render.live_region import LiveRegion, Parts
from coder.terminal.render.live_rows import LiveRows
from coder.terminal.render.sanitize import flat, safe
from coder.texts import Texts


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
    """Of arguments, by command name."""
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


def make_live_region(
    output: FrameOutput, buffer: Buffer, rows: LiveRows, keys: KeyBindingsBase, texts: Texts, *, vim: bool
) -> LiveRegion:
    parts = Parts(
        live=rows.live,
        status=rows.status,
        queue=rows.queue,
        menu=rows.menu,
        bar=rows.bar,
        prompt=rows.prompt,
    )
    search = texts.say("terminal.search"), texts.say("terminal.search_back")
    return LiveRegion(output, buffer, parts, keys, vim=vim, search=search)
