"""First run without a provider: explains what to set, and offers a local model server if one is running."""

from __future__ import annotations

import asyncio
import socket

import msgspec

from coder.config.provider import NoProvider
from coder.engine.setup import Options, Settings
from coder.terminal.ask.question import ask_at_start
from coder.terminal.render.plain import PlainRenderer

# Default ports of local model servers.
USUAL_PORTS = ((11434, "Ollama"), (8080, "llama.cpp"), (1234, "LM Studio"), (8000, "vLLM"))
_CONNECT_SECONDS = 0.2
_ANSWER_SECONDS = 1.0


def first_run(options: Options, settings: Settings, renderer: PlainRenderer) -> Options | None:
    """The options with a local server, if one was found and accepted."""
    say = settings.texts.say
    renderer.paragraph(say("first.welcome"))
    renderer.line("")
    renderer.paragraph(NoProvider().text(settings.texts))
    for port, name in USUAL_PORTS:
        url = f"http://127.0.0.1:{port}/v1"
        if not (_listens(port) and _is_a_model_server(url)):
            continue
        renderer.line("")
        wanted = ask_at_start(say("first.offer", name=name, url=url), settings.texts)
        if wanted:
            renderer.paragraph(say("first.chosen", url=url))
            return msgspec.structs.replace(options, base_url=url)
        if wanted is None:
            return None
        renderer.paragraph(say("first.demo"))
    return None


def _listens(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=_CONNECT_SECONDS):
            return True
    except OSError:
        return False


def _is_a_model_server(url: str) -> bool:
    """Other programs use these ports too, so the server must list models."""
    from coder.config.provider import Provider
    from coder.engine.setup import listed_models
    from coder.model.base import ModelError

    try:
        return bool(asyncio.run(listed_models(Provider("", url, ""), _ANSWER_SECONDS)))
    except (ModelError, TimeoutError):
        return False
