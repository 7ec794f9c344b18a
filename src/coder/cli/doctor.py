"""`coder doctor`: what works here and what does not, a line each."""

from __future__ import annotations

import asyncio
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import msgspec

from coder import __version__
from coder.base.http.address import parse_address
from coder.base.http.errors import HttpError
from coder.base.process.binaries import origin_of
from coder.base.process.programs import find_program
from coder.base.text import shown
from coder.cli.common import columns, options_from, parser_for
from coder.config import ConfigError
from coder.config.errors import config_errors_in, raised
from coder.config.files import read_bounded
from coder.config.jsonc import decode_jsonc
from coder.config.load import ENVIRONMENT, PROJECT_FILE, Loaded, home_directory, load_config
from coder.config.loosening import PresetTable
from coder.config.models import LOCAL_MODEL, gguf_of
from coder.config.providers import Provider
from coder.context.conversation import TokenCounter, UnknownTokenizer
from coder.engine.setup import Options, Settings, installed_plugins, listed_models, provider_of, read_settings
from coder.history.store import SessionStore
from coder.models.model import ModelError
from coder.policy.decide import preset_table
from coder.policy.sandbox.backends import probe
from coder.policy.sandbox.caches import layers_in_use
from coder.policy.workspace import state_directory
from coder.texts import Catalog, pick_language
from coder.tools.search.ripgrep import find_ripgrep
from coder.ui.streams import Exit, show
from coder.ui.terminal.render.escapes import flat
from coder.ui.terminal.render.width import text_width

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
        home = home_directory(options.environ)
        examined = examine(options.cwd, home, options.environ, options.config_file, preset_table)
        loaded = examined.loaded
        texts = Catalog(pick_language(options.lang, loaded.config.ui.lang, options.environ))
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
    yield "sandbox", level.backend != "none", level.describe().text(settings.texts)
    if level.backend == "bwrap":
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
    where = str(gguf_of(model, settings.home)) if provider.name == LOCAL_MODEL else _shown(provider)
    yield "provider", True, f"{provider.name} {where} ({settings.texts.say(key)})"
    known = not names or model in names
    yield "model", known, model if known else settings.texts.say("doctor.model_unlisted", model=model)


def _shown(provider: Provider) -> str:
    """The URL without password and keys."""
    try:
        return parse_address(provider.base_url).shown
    except HttpError:
        return provider.name


def _tokenizer(texts: Catalog) -> tuple[str, bool, str]:
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


def _binary(name: str, program: str, texts: Catalog) -> tuple[str, bool, str]:
    said, good = origin_of(Path(program))
    return name, good, said.text(texts)


def _record(options: Options) -> tuple[str, bool, str]:
    directory = SessionStore(options.cwd, options.log_dir).history
    nearest = next(p for p in (directory, *directory.parents) if p.exists())
    return "record", os.access(nearest, os.W_OK), str(directory)


_NOWHERE: Final = Path("/no-such-folder/of-coder")  # has no settings


class Examined(msgspec.Struct, frozen=True):
    """The errors of each file, and the configuration of the files without any."""

    faults: list[ConfigError]
    loaded: Loaded


def examine(
    cwd: Path, home: Path, environ: Mapping[str, str], config_file: Path | None, preset_table: PresetTable
) -> Examined:
    """Never raises for invalid files or variables."""
    own = _faults_of(home / "config.json", str(home / "config.json"))
    project = _faults_of(cwd / PROJECT_FILE, PROJECT_FILE)
    named = _faults_of(config_file, str(config_file), must_be=True) if config_file else []
    set_here = raised(lambda: load_config(_NOWHERE, _NOWHERE, environ, {}, None, preset_table, trusted=False))
    good = {} if set_here else environ
    loaded = load_config(
        _NOWHERE if project else cwd,
        _NOWHERE if own else home,
        {name: value for name, value in good.items() if name in ENVIRONMENT},
        {},
        None if named else config_file,
        preset_table,
        trusted=False,
    )
    return Examined([*own, *project, *named, *set_here], loaded)


def _faults_of(path: Path, name: str, *, must_be: bool = False) -> list[ConfigError]:
    label = shown(name)
    try:
        data = read_bounded(path, label)
        settings = decode_jsonc(data, label) if data is not None else None
    except ConfigError as error:
        return [error]
    if data is None and must_be:
        return [ConfigError("config.file_missing", file=label)]
    if settings is None:
        return []
    return list(config_errors_in(settings, label, data or b""))
