"""First run without a provider: explains what to set, and offers a model server that runs here, or a small
model that coder serves itself."""

from __future__ import annotations

import asyncio
import shutil
import socket
import sys
from importlib.util import find_spec

import msgspec

from coder.config.models import FETCHED, NAME, is_fetched
from coder.config.providers import KNOWN, LOCAL_EXAMPLE, Provider
from coder.engine.setup import Options, Settings, listed_models
from coder.models.model import ModelError
from coder.ui.terminal.ask.question import ask_at_start
from coder.ui.terminal.render.plain import PlainRenderer


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
        _to_type(renderer, command)
        renderer.paragraph(say(f"first.way_{way}", keys=_OTHER_KEYS), margin=4)
    renderer.line("")
    renderer.paragraph(say("first.keep"))
    renderer.paragraph(say("first.demo"))
    _to_type(renderer, f"{name} demo")
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
    if find_spec("xllamacpp") is not None:
        renderer.line("")
        return _own_model(options, settings, renderer)
    return None


def _to_type(renderer: PlainRenderer, command: str) -> None:
    """On a row of its own, and in one piece to be copied."""
    renderer.line(f"  {renderer.palette.paint('strong', command)}")


def _own_model(options: Options, settings: Settings, renderer: PlainRenderer) -> Options | None:
    """The options with the model that coder serves itself, which is fetched where that is wanted."""
    say = settings.texts.say
    fetched = is_fetched(settings.home)
    if fetched:
        wanted = ask_at_start(say("first.local", name=NAME), settings.texts)
    else:
        from coder.addons.local.fetch_model import QWEN
        from coder.addons.local.local_command import about, fetch_shown

        renderer.paragraph(about(QWEN, settings.texts))
        wanted = ask_at_start(say("first.local_fetch"), settings.texts)
        fetched = bool(wanted) and fetch_shown(QWEN, settings.home, settings.texts)
    if not (wanted and fetched):
        return None
    renderer.paragraph(say("first.local_chosen"))
    return msgspec.structs.replace(options, model=FETCHED)


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
