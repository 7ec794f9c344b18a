"""Makes the REPL's editor, with what its menus complete."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from coder.config.allowlist import project_directory
from coder.engine.engine import Engine
from coder.engine.setup import Options, Settings, listed_models, provider_of
from coder.terminal.input.editor import Editor
from coder.terminal.input.file_index import FileIndex
from coder.terminal.input.history import ProjectHistory
from coder.terminal.input.menu import Arguments, Menus
from coder.terminal.local_commands import BuiltIn, argument_menus
from coder.terminal.models import ModelNames
from coder.terminal.modes.wiring import Modes


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
    return Editor(
        ProjectHistory(project_directory(settings.home, view.root) / "history"),
        Menus([BuiltIn(texts), modes.menu], arguments, files.search),
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
