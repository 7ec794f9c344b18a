"""Starts the interactive session: asks for trust, resolves the provider, picks the REPL for this terminal."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import sys
from typing import Any

import msgspec

from coder.base.addons import addons, function
from coder.base.text import shown
from coder.config import ConfigError
from coder.config.providers import KNOWN, LOCAL_EXAMPLE, NoProvider, Provider
from coder.config.trust import TrustStore, whole_value
from coder.engine.custom_modes import mode_commands
from coder.engine.engine import Engine
from coder.engine.setup import (
    Options,
    Settings,
    listed_models,
    open_agent,
    provider_of,
    read_settings,
    with_model_named,
)
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


def command_name() -> str:
    """With its path if `coder` is not on PATH, as after `./dev demo`."""
    if shutil.which("coder"):
        return "coder"
    return f"{sys.executable} -m coder" if sys.argv[0].endswith("__main__.py") else sys.argv[0]


# Default ports of local model servers.
USUAL_PORTS = ((11434, "Ollama"), (8080, "llama.cpp"), (1234, "LM Studio"), (8000, "vLLM"))
_WAYS = {
    "key": f"export {KNOWN[0].key_variable}=…",
    "server": f"export CODER_BASE_URL={LOCAL_EXAMPLE}",
}
_OTHER_KEYS = ", ".join(["CODER_API_KEY", *(known.key_variable for known in KNOWN[1:3])])
_CONNECT_SECONDS = 0.2
_ANSWER_SECONDS = 1.0


def first_run(options: Options, settings: Settings, renderer: PlainRenderer) -> Options | None:
    """The options with a local server, if one was found and accepted."""
    say = settings.texts.say
    renderer.paragraph(say("first.welcome"))
    renderer.line("")
    name = command_name()
    for way, command in {**_WAYS, "local": f"{name} local"}.items():
        _show_command(renderer, command)
        renderer.paragraph(say(f"first.way_{way}", keys=_OTHER_KEYS), margin=4)
    renderer.line("")
    renderer.paragraph(say("first.keep"))
    renderer.paragraph(say("first.demo"))
    _show_command(renderer, f"{name} demo")
    for port, server in USUAL_PORTS:
        url = f"http://127.0.0.1:{port}/v1"
        if not (_listens(port) and _is_a_model_server(url)):
            continue
        renderer.line("")
        wanted = ask_at_start(say("first.offer", name=server, url=url), settings.texts)
        if wanted:
            renderer.paragraph(say("first.chosen", url=url))
            return msgspec.structs.replace(options, base_url=url)
        if wanted is None:
            return None
    for addon in addons():
        if addon.first_run:
            chosen: Options | None = function(addon.first_run)(options, settings, renderer)
            return chosen
    return None


def _show_command(renderer: PlainRenderer, command: str) -> None:
    """A command on a row of its own, to be copied."""
    renderer.line(f"  {renderer.palette.paint('strong', command)}")


def _listens(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=_CONNECT_SECONDS):
            return True
    except OSError:
        return False


def _is_a_model_server(url: str) -> bool:
    """Other programs use these ports too, so the server must list models."""
    try:
        return bool(asyncio.run(listed_models(Provider("", url, ""), _ANSWER_SECONDS)))
    except (ModelError, TimeoutError):
        return False
