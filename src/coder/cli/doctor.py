"""`coder doctor`: what works here and what does not, a line each."""

from __future__ import annotations

import asyncio
import os
import platform
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

from coder import __version__
from coder.cli.common import columns, options_from, parser_for
from coder.cli.errors import Exit
from coder.cli.streams import show
from coder.config import ConfigError
from coder.config.load import home_directory
from coder.config.models import FETCHED, gguf_of
from coder.config.provider import Provider
from coder.context.tokens import TokenCounter, UnknownTokenizer
from coder.engine.setup import Options, Settings, installed_plugins, listed_models, provider_of, read_settings
from coder.model.base import ModelError
from coder.policy.sandbox.caches import layers_in_use
from coder.policy.sandbox.ladder import probe
from coder.policy.scratch import state_directory
from coder.process.binaries import origin_of
from coder.process.programs import find_program
from coder.terminal.render.sanitize import flat
from coder.terminal.render.width import text_width
from coder.texts import Texts, pick_language
from coder.tools.search.ripgrep import find_ripgrep

_REACH_SECONDS = 5
_NEEDED = ("settings", "provider", "record")  # without which no session runs


def run(arguments: list[str]) -> int:
    parser = parser_for("doctor", arguments)
    chosen = parser.parse_args(arguments)
    options = options_from(chosen)
    settings, faults = _settings(options)
    found = list(_checks(options, settings, faults))
    say = settings.texts.say
    mark = "no" if settings.loaded.config.ui.plain else "✗"
    rows = [["ok" if good else mark, say(f"cli.doctor.{name}"), flat(text)] for name, good, text in found]
    hang = max(text_width(row[1]) for row in rows) + len("ok    ")
    show("\n".join(columns(rows)), fit=True, hang=hang)
    wrong = {name: say(f"cli.doctor.{name}") for name, good, _ in found if not good}
    needed = [wrong[name] for name in _NEEDED if name in wrong]
    key = "cli.doctor.mend" if needed else "cli.doctor.without" if wrong else "cli.doctor.fine"
    show(f"\n{say(key, names=', '.join(needed), mark=mark)}", fit=True)
    if faults:
        return Exit.USAGE
    return Exit.FAILED if needed else Exit.ANSWERED


def _settings(options: Options) -> tuple[Settings, list[ConfigError]]:
    """The settings, or if they are invalid, those of the valid files and the errors."""
    try:
        return read_settings(options), []
    except ConfigError as error:
        from coder.config.faults import examine
        from coder.policy.decide import preset_gives

        home = home_directory(options.environ)
        examined = examine(options.cwd, home, options.environ, options.config_file, preset_gives)
        loaded = examined.loaded
        texts = Texts(pick_language(options.lang, loaded.config.ui.lang, options.environ))
        return Settings(loaded, home, texts, trusted=False, trust_status="untrusted"), (
            examined.faults or [error]
        )


def _checks(
    options: Options, settings: Settings, faults: Sequence[ConfigError]
) -> Iterator[tuple[str, bool, str]]:
    say = settings.texts.say
    yield "coder", True, f"{__version__}, Python {platform.python_version()}, {platform.system()}"
    for fault in faults:
        yield "settings", False, fault.text(settings.texts)
    yield from _provider(options, settings)
    yield _tokenizer(settings.texts)
    ripgrep = find_ripgrep(options.environ.get("PATH", ""), options.cwd)
    yield _binary("ripgrep", ripgrep, settings.texts) if ripgrep else ("ripgrep", False, say("doctor.no_rg"))
    for name in ("git", "bash"):
        found = find_program(name, options.environ.get("PATH"), options.cwd)
        yield name, bool(found), found or say("doctor.missing", name=name)
    backend = settings.loaded.config.sandbox.backend
    level = probe(settings.home, options.environ.get("PATH"), options.cwd, backend)
    yield "sandbox", level.rung != "none", level.describe().text(settings.texts)
    if level.rung == "bwrap":
        yield _binary("bwrap", level.program, settings.texts)
    if layers := layers_in_use(state_directory(settings.home)):
        size = sum(one.bytes for one in layers) / 1_000_000
        yield "caches", True, say("cli.doctor.cache_size", n=len(layers), size=f"{size:.0f}")
    yield _record(options)
    if servers := [name for name, one in settings.loaded.config.mcp.servers.items() if not one.disabled]:
        yield "mcp", True, say("cli.doctor.mcp_servers", names=", ".join(servers))
    for name, why in installed_plugins(options):
        yield "plugins", why is None, name if why is None else f"{name}: {settings.texts.of(why)}"
    if settings.loaded.relevant:
        yield "trust", settings.trusted, say("status.trusted" if settings.trusted else "status.untrusted")


def _provider(options: Options, settings: Settings) -> Iterator[tuple[str, bool, str]]:
    try:
        provider = provider_of(options, settings)
    except ConfigError as error:
        yield "provider", False, error.text(settings.texts)
        return
    key = "doctor.key" if provider.api_key else "doctor.no_key"
    try:
        names = asyncio.run(listed_models(provider, _REACH_SECONDS, settings.home))
    except ModelError as error:
        yield "provider", False, f"{provider.name} {_shown(provider)}: {error.text(settings.texts)}"
        return
    except TimeoutError:
        late = settings.texts.say("cli.doctor.no_answer", seconds=_REACH_SECONDS)
        yield "provider", False, f"{provider.name} {_shown(provider)}: {late}"
        return
    model = provider.model or (names[0] if names else "")
    where = str(gguf_of(model, settings.home)) if provider.name == FETCHED else _shown(provider)
    yield "provider", True, f"{provider.name} {where} ({settings.texts.say(key)})"
    known = not names or model in names
    yield "model", known, model if known else settings.texts.say("doctor.model_unlisted", model=model)


def _shown(provider: Provider) -> str:
    """The URL without password and keys."""
    from coder.model.http.address import parse_address
    from coder.model.http.faults import HttpFault

    try:
        return parse_address(provider.base_url).shown
    except HttpFault:
        return provider.name


def _tokenizer(texts: Texts) -> tuple[str, bool, str]:
    counter = TokenCounter("o200k_base")
    try:
        counter.load()
    except UnknownTokenizer as error:
        return "tokenizer", False, error.text(texts)
    library = find_spec("splintr._core") if counter.loaded else None
    if library is None or library.origin is None:
        return "tokenizer", False, texts.say("cli.doctor.estimates")
    _, good, origin = _binary("tokenizer", library.origin, texts)
    return "tokenizer", good, f"o200k_base, {origin}"


def _binary(name: str, program: str, texts: Texts) -> tuple[str, bool, str]:
    said, good = origin_of(Path(program))
    return name, good, said.text(texts)


def _record(options: Options) -> tuple[str, bool, str]:
    from coder.record.store import SessionStore

    directory = SessionStore(options.cwd, options.log_dir).history
    nearest = next(p for p in (directory, *directory.parents) if p.exists())
    return "record", os.access(nearest, os.W_OK), str(directory)
