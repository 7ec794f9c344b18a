"""`coder local`: fetch a small model once, so that `--model local` answers with no key and no server."""

from __future__ import annotations

import asyncio
import sys
from importlib.util import find_spec
from pathlib import Path

import msgspec

from coder import (
    LOCAL_MODEL,
    LOCAL_NAME,
    Exit,
    Options,
    PlainRenderer,
    Settings,
    ask_at_start,
    gguf_of,
    install_line,
    is_fetched,
    parser_for,
    safe,
    settings_from,
    show,
)
from coder.addons.local.fetch_model import QWEN, NotFetched, Weights, fetch
from coder.texts import Catalog

_MB = 1_000_000


def about(weights: Weights, texts: Catalog) -> str:
    return texts.say(
        "local.about",
        name=weights.name,
        size=str(weights.size // _MB),
        n=len(weights.hashes),
        licence=weights.licence,
        url=weights.licence_url,
    )


def fetch_shown(weights: Weights, home: Path, texts: Catalog) -> bool:
    """Progress and what went wrong go to stderr; whether the model is there now."""
    shown = _Progress(weights, texts)
    try:
        asyncio.run(fetch(weights, home, shown.told))
    except NotFetched as error:
        shown.end()
        print(safe(error.text(texts)), file=sys.stderr)
        return False
    shown.end()
    return True


class _Progress:
    """One line that is rewritten on a terminal; elsewhere a line for each part."""

    def __init__(self, weights: Weights, texts: Catalog) -> None:
        self._weights, self._texts = weights, texts
        self._live = sys.stderr.isatty()
        self._last = ""

    def told(self, done: int) -> None:
        size, part = self._weights.size, self._weights.part_size
        if not self._live and done % part and done != size:
            return
        text = self._texts.say(
            "local.progress", share=str(100 * done // size), done=str(done // _MB), size=str(size // _MB)
        )
        if text != self._last:
            self._last = text
            print(
                f"\r{text}" if self._live else text,
                end="" if self._live else "\n",
                file=sys.stderr,
                flush=True,
            )

    def end(self) -> None:
        if self._live and self._last:
            print(file=sys.stderr)


def run(arguments: list[str]) -> int:
    parser = parser_for("local", arguments)
    parser.options.add_argument("--yes", action="store_true", help=parser.say("cli.help.local_yes"))
    chosen = parser.parse_args(arguments)
    _, settings = settings_from(chosen)
    say, home = settings.texts.say, settings.home
    fetched, served = is_fetched(home), find_spec("xllamacpp") is not None
    if not fetched:
        show(about(QWEN, settings.texts), fit=True)
    if not served:  # said before the download, not after it
        show(say("local.no_server", line=install_line("local")), sys.stderr, fit=True)
    if not fetched:
        if not chosen.yes and not (sys.stdin.isatty() and ask_at_start(say("local.ask"), settings.texts)):
            if not sys.stdin.isatty():
                show(say("local.say_yes"), sys.stderr)
            return Exit.USAGE
        if not fetch_shown(QWEN, home, settings.texts):
            return Exit.FAILED
    show(say("local.there", file=gguf_of("local", home)))
    return Exit.ANSWERED if served else Exit.FAILED


def offer(options: Options, settings: Settings, renderer: PlainRenderer) -> Options | None:
    """The options with the local model, which is fetched if the person wants it."""
    if find_spec("xllamacpp") is None:
        return None
    renderer.line("")
    say = settings.texts.say
    fetched = is_fetched(settings.home)
    if fetched:
        wanted = ask_at_start(say("first.local", name=LOCAL_NAME), settings.texts)
    else:
        renderer.paragraph(about(QWEN, settings.texts))
        wanted = ask_at_start(say("first.local_fetch"), settings.texts)
        fetched = bool(wanted) and fetch_shown(QWEN, settings.home, settings.texts)
    if not (wanted and fetched):
        return None
    renderer.paragraph(say("first.local_chosen"))
    return msgspec.structs.replace(options, model=LOCAL_MODEL)
