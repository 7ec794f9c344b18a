"""Starts the interactive session: asks for trust, resolves the provider, picks the REPL for this terminal."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

from coder.base.text import shown
from coder.config import ConfigError
from coder.config.providers import NoProvider
from coder.config.trust import TrustStore, whole_value
from coder.engine.custom_modes import mode_commands
from coder.engine.engine import Engine
from coder.engine.setup import Options, Settings, open_agent, provider_of, read_settings, with_model_named
from coder.history.sinks import HistoryError
from coder.models.model import ModelError
from coder.ui.terminal.ask.question import ask_at_start
from coder.ui.terminal.render.escapes import safe
from coder.ui.terminal.render.plain import PlainRenderer
from coder.ui.terminal.render.theme import theme_for
from coder.ui.terminal.repl import Repl

_USAGE = 2
_FAILED = 1


def run_interactive(
    options: Options, settings: Settings, resume: str | None, question: str, *, pick: bool = False
) -> int:
    """`pick`: let the person choose a session to resume."""
    theme = theme_for(settings.loaded.config.ui.theme, options.environ)
    renderer = PlainRenderer(sys.stdout, None, settings.texts, theme)
    try:
        settings = _ask_for_trust(options, settings, renderer)
        return asyncio.run(_run(options, settings, resume, question, renderer, pick=pick))
    except NoProvider:
        from coder.ui.terminal.first_run import first_run

        chosen = first_run(options, settings, renderer)
        if chosen is None:
            return _USAGE
        return run_interactive(chosen, read_settings(chosen), resume, question, pick=pick)
    except ConfigError as error:
        renderer.paragraph(error.text(settings.texts))
        return _USAGE
    except (ModelError, HistoryError) as error:
        renderer.paragraph(safe(error.text(settings.texts)))
        return _FAILED


async def _run(
    options: Options,
    settings: Settings,
    resume: str | None,
    question: str,
    renderer: PlainRenderer,
    *,
    pick: bool,
) -> int:
    provider = await with_model_named(provider_of(options, settings))
    engine = Engine(lambda emit: open_agent(options, settings, provider, emit))
    engine.start(resume)
    if options.custom_modes and (problems := await engine.enable_modes(options.custom_modes)):
        renderer.line(safe(" ".join(map(settings.texts.of, problems))))
        await engine.close()
        return _USAGE
    if _is_line_terminal():
        from coder.ui.terminal.line_repl import LineRepl

        return await LineRepl(options, settings, engine, renderer).run(
            question or ("/resume" if pick else "")
        )

    return await Repl(options, settings, engine).run(question, pick=pick)


def _is_line_terminal() -> bool:
    """Whether the terminal cannot move its cursor, or stdin or stdout is no terminal."""
    return os.environ.get("TERM", "dumb") in ("", "dumb", "unknown") or not (
        sys.stdin.isatty() and sys.stdout.isatty()
    )


def _ask_for_trust(options: Options, settings: Settings, renderer: PlainRenderer) -> Settings:
    """Ask once per directory, and again when its settings change; never if there is nothing to trust."""
    if settings.trusted or not settings.loaded.ignored:
        return settings
    say = settings.texts.say
    store = TrustStore(settings.home)
    relevant = {**settings.loaded.relevant, **_mode_commands(options, settings)}
    changed = settings.trust_status == "changed"
    renderer.line(
        say("trust.changed_question" if changed else "trust.question", directory=safe(str(options.cwd)))
    )
    lines = [f"{shown(key)} = {whole_value(value)}" for key, value in sorted(relevant.items())]
    if changed:
        lines = store.difference(options.cwd, relevant, whole=True).lines(settings.texts)
    renderer.write_decision(".coder", "\n".join(lines), say("trust.prompt"))
    if not ask_at_start(say("trust.prompt"), settings.texts):
        return settings
    store.trust(options.cwd, relevant)
    return read_settings(options)


def _mode_commands(options: Options, settings: Settings) -> dict[str, Any]:
    """The commands of the project's modes: trusting the directory allows them too."""
    from coder.extend.modes.discover import Catalogue, places

    return mode_commands(Catalogue(places(options.cwd, options.environ, settings.home)))
