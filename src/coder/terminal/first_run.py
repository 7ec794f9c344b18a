"""Nothing says who should answer: one screen that says what to set, and offers what is found here."""

from __future__ import annotations

import socket
import sys

import msgspec

from coder.config.provider import NoProvider
from coder.engine.setup import Options, Settings
from coder.terminal.safe import safe
from coder.terminal.view import LineView

# Where servers of one's own listen unless told otherwise.
USUAL_PORTS = ((11434, "Ollama"), (8080, "llama.cpp"), (1234, "LM Studio"), (8000, "vLLM"))
_CONNECT_SECONDS = 0.2


def first_run(options: Options, settings: Settings, view: LineView) -> Options | None:
    """The options with a local server in them, where one was found and the person wants it."""
    say = settings.texts.say
    view.line(say("first.welcome"))
    view.line("")
    view.line(NoProvider().text(settings.texts))
    view.line("")
    for port, name in USUAL_PORTS:
        if not _listens(port):
            continue
        url = f"http://127.0.0.1:{port}/v1"
        if _wanted(say("first.offer", name=name, url=url)):
            return msgspec.structs.replace(options, base_url=url)
    view.line(safe(say("first.demo")))
    return None


def _listens(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=_CONNECT_SECONDS):
            return True
    except OSError:
        return False


def _wanted(question: str) -> bool:
    sys.stdout.write(question)
    sys.stdout.flush()
    try:
        return sys.stdin.readline().strip().lower() in ("y", "yes", "是")
    except KeyboardInterrupt:
        return False
