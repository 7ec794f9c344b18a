"""Composition root: builds an agent from options (configuration, provider, tools, record)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from coder import engine, extend
from coder.base.process.own_process import keep_secret
from coder.config import ConfigError
from coder.config.allowlist import Allowlist
from coder.config.files import ensure_directory
from coder.config.load import Loaded, home_directory
from coder.config.models import context_window_of, dialect_of, is_local, keep_dialect
from coder.config.providers import (
    NoProvider,
    Provider,
    child_environment,
    expandable_env,
    own_keys,
    plugin_of,
    provider_keys,
    resolve_provider,
    wire_of,
)
from coder.config.schema import OPERATING_MODES, Config, Dialect, McpSection, McpServer, OperatingMode
from coder.config.trust import TrustStore, load_with_trust
from coder.context.memory import Memory
from coder.engine.agent import (
    Agent,
    Capabilities,
    Connections,
    FrontEnd,
    ModelChoice,
    Place,
    PromptLimits,
    SandboxProbe,
    companion_of,
)
from coder.extend.skills import Skills
from coder.history.sinks import HistorySink
from coder.history.store import SessionStore
from coder.models.make import ListingModel, local_wire, make_model, make_wire
from coder.models.model import ChatModel
from coder.policy.decide import preset_table
from coder.policy.workspace import DirectoryWorkspace
from coder.protocol.events import AnyEvent, Notice
from coder.texts import AnyText, Catalog, JoinedText, Text, pick_language
from coder.tools.registry import make_tools
from coder.tools.tool import Tool

if TYPE_CHECKING:
    from coder.engine.mcp_session import TriedServers
    from coder.engine.plugins import PackageModel

SMALL_WINDOW = 16_384  # tokens up to which a model gets few tools and a short prompt
LIST_SECONDS = 3  # to wait for a server's list of models, with a person waiting for `/model`


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What a front end may choose. Empty and 0 mean: as configured."""

    cwd: Path
    environ: Mapping[str, str]
    mode: OperatingMode | None = None
    preset: str = ""
    model: str = ""
    effort: str = ""
    base_url: str = ""
    api_key: str = ""
    lang: str = ""
    config_file: Path | None = None
    log_dir: Path | None = None
    max_steps: int = 0
    max_prompt_tokens: int = 0
    warn_prompt_tokens: int = 0
    tokenizer: str = ""
    custom_modes: Sequence[str] = ()
    can_ask: bool = False
    session_kind: str = "once"
    sinks: Sequence[HistorySink] = ()
    tools: Sequence[Tool] = ()  # of the embedding program
    temperature: float | None = None
    mcp_servers: Mapping[str, McpServer] = {}  # beside those of the settings, for this session
    around_wire: Callable[[ChatModel], ChatModel] | None = None  # sees every request, below the retries

    def flags(self) -> dict[str, Any]:
        """As the topmost layer of the configuration."""
        values = {
            "permission.preset": self.preset,
            "provider.model": self.model,
            "provider.effort": self.effort,
            "provider.base_url": self.base_url,
            "provider.api_key": self.api_key,
            "runtime.max_steps": self.max_steps,
        }
        return {key: value for key, value in values.items() if value}


class Settings(msgspec.Struct, frozen=True):
    """The effective configuration and its sources."""

    loaded: Loaded
    home: Path
    texts: Catalog
    trusted: bool
    trust_status: str


def read_settings(options: Options) -> Settings:
    """Raises `ConfigError`."""
    if not options.cwd.is_dir():
        raise ConfigError("config.no_folder", directory=options.cwd)
    if options.mode is not None and options.mode not in OPERATING_MODES:
        raise ConfigError("mode.unknown", name=options.mode, names=", ".join(OPERATING_MODES))
    home = home_directory(options.environ)
    loaded, status = load_with_trust(
        options.cwd, home, options.environ, options.flags(), options.config_file, preset_table
    )
    lang = pick_language(options.lang, loaded.config.ui.lang, options.environ)
    return Settings(
        loaded=loaded, home=home, texts=Catalog(lang), trusted=status == "trusted", trust_status=status
    )


def open_agent(
    options: Options,
    settings: Settings,
    provider: Provider,
    emit: Callable[[AnyEvent], None],
    model: ChatModel | None = None,
) -> Agent:
    """Everything but the session. Makes no request; of the project it makes sure that `.coder` exists."""
    config = _with_servers(settings.loaded.config, options.mcp_servers)
    root = Path(os.path.realpath(options.cwd))
    person = options.environ.get("HOME")
    skills = Skills(root, settings.home, Path(person) if person else None, config.skills.paths)
    place = Place(
        workspace=DirectoryWorkspace(
            root, readable=skills.readable_directories(), person=person or "", own=str(settings.home)
        ),
        home=settings.home,
        store=SessionStore(root, options.log_dir),
        environment=closed_environment(options.environ, provider),
        allowed=Allowlist(settings.home, root),
        allowlist_file=settings.loaded.origin_of("permission.command_allowlist"),
        secrets=_secrets(config, options, provider, settings.home),
        trusted=settings.trusted,
        trust_relevant=settings.loaded.relevant,
    )
    memory = Memory(root, settings.home)
    sandbox = SandboxProbe(place, emit, config.sandbox.backend)
    connected = _connections(config, place, sandbox, options, settings, provider, chooses=model is None)
    agent = Agent(
        config,
        place,
        FrontEnd(emit=emit, can_ask=options.can_ask, kind=options.session_kind, sinks=options.sinks),
        model or _model_of(provider, settings, config, options),
        ModelChoice.of(config, provider.model, options.tokenizer),
        _capabilities(options, skills, memory, few=_few_tools(config, provider)),
        connected,
        sandbox,
        limits=PromptLimits(options.max_prompt_tokens, options.warn_prompt_tokens),
        extra={} if options.temperature is None else {"temperature": options.temperature},
        mode=options.mode,
    )
    with contextlib.suppress(OSError):  # the record says so itself when its first line cannot be written
        ensure_directory(root)
    _tell_of_settings(agent, settings)
    return agent


def _capabilities(options: Options, skills: Skills, memory: Memory, *, few: bool) -> Capabilities:
    """Raises `ConfigError` if a tool of the calling program reuses a name."""
    tools = make_tools(skills, memory, few=few)
    taken = {tool.spec.name for tool in tools}
    for tool in options.tools:
        if tool.spec.name in taken:
            raise ConfigError("config.tool_taken", name=tool.spec.name)
        taken.add(tool.spec.name)
    own = frozenset(tool.spec.name for tool in options.tools)
    return Capabilities([*tools, *options.tools], skills, memory, own, few)


def _model_of(provider: Provider, settings: Settings, config: Config, options: Options) -> ChatModel:
    """Raises `ConfigError` where a package's provider cannot be loaded."""
    return make_model(
        provider.base_url,
        provider.api_key,
        provider.headers,
        config.provider.timeout_ms,
        wire_of=partial(wire_of, provider),
        dialect_of=partial(dialect_of, config, settings.home, provider.base_url),
        found=partial(keep_dialect, settings.home, provider.base_url),
        names=_names_of(provider, settings),
        home=settings.home,
        around=options.around_wire,
        own=_of_package(provider, config.provider.timeout_ms),
    )


def _of_package(provider: Provider, timeout_ms: int = 120_000) -> PackageModel | None:
    if not provider.factory:
        return None

    return engine.plugins.provider_model(provider, timeout_ms)


def model_in(provider: Provider, settings: Settings, options: Options, dialect: Dialect) -> ChatModel:
    """The provider's model in the given dialect, ignoring settings and known capabilities."""
    config = settings.loaded.config
    own = msgspec.structs.replace(config.provider, dialect=dialect, models={})
    return _model_of(provider, settings, msgspec.structs.replace(config, provider=own), options)


def _few_tools(config: Config, provider: Provider) -> bool:
    """Whether the model gets few tools and a short prompt: as configured, or for its small window."""
    own = config.provider.models.get(provider.model)
    window = own.context_window if own is not None else None
    if window is None and is_local(provider.model):
        window = context_window_of(provider.model)
    return (own is not None and own.tools == "few") or (window is not None and window <= SMALL_WINDOW)


def _secrets(config: Config, options: Options, provider: Provider, home: Path) -> list[str]:
    """Secrets to redact everywhere: provider keys and MCP credentials."""
    keys = own_keys(options.environ, provider)
    if config.mcp.servers:
        from coder.extend.mcp.endpoint import secrets_of
        from coder.extend.mcp.tokens import TokenStore

        keys += secrets_of(config.mcp.servers, expandable_env(options.environ, provider))
        keys += TokenStore(home).secrets()
    return keys


def _with_servers(config: Config, servers: Mapping[str, McpServer]) -> Config:
    if not servers:
        return config
    return msgspec.structs.replace(config, mcp=McpSection({**config.mcp.servers, **servers}))


def _connections(
    config: Config,
    place: Place,
    sandbox: SandboxProbe,
    options: Options,
    settings: Settings,
    provider: Provider,
    *,
    chooses: bool,
) -> Connections:
    """What is configured, of it nothing started but the query of git. `chooses`: `/model` may reach other
    providers."""
    root = place.workspace.root
    git_state, ide, mcp, hooks, providers = None, None, None, None, None
    if any((directory / ".git").exists() for directory in (root, *root.parents)):
        git_state = engine.git_state.GitState(root, place.environment)
    if config.ide.enabled:
        ide = companion_of(root, options.environ)
    if config.mcp.servers:
        mcp = engine.mcp_session.make_servers(
            config,
            root,
            place.home,
            environment=place.environment,
            variables=expandable_env(options.environ, provider),
            own_keys=provider_keys(options.environ, provider),
            level=sandbox.find,
            keep_secret=place.keep_secret,
        )
    if any(source.settings.get("hooks") for source in settings.loaded.sources):
        hooks = extend.hooks.hooks_in(settings.loaded.sources, trusted=settings.trusted)
    if chooses:
        make = partial(_model_of, settings=settings, config=config, options=options)
        providers = (provider, config, options.environ, make)
    return Connections(git_state=git_state, ide=ide, mcp=mcp, hooks=hooks, providers=providers)


async def try_servers(options: Options, settings: Settings, only: str = "") -> TriedServers:
    """Connection test of every MCP server, without a provider. `only`: just this one, even if disabled."""
    try:
        provider = resolve_provider(settings.loaded.config, options.environ)
    except ConfigError:  # none is needed here; where there is one, its key is kept back as in a session
        provider = Provider("", "", settings.loaded.config.provider.api_key)
    config = settings.loaded.config
    if only:
        wanted = msgspec.structs.replace(config.mcp.servers[only], disabled=False)
        config = msgspec.structs.replace(config, mcp=McpSection({only: wanted}))
    servers = engine.mcp_session.make_servers(
        config,
        options.cwd.resolve(),
        settings.home,
        environment=closed_environment(options.environ, provider),
        variables=expandable_env(options.environ, provider),
        own_keys=provider_keys(options.environ, provider),
        level=engine.mcp_session.level_when_asked(settings.home, options.environ.get("PATH"), options.cwd),
    )
    return await engine.mcp_session.tried(servers)


async def log_in(options: Options, settings: Settings, name: str, show: Callable[[str], None] | None) -> None:
    """Log in at an MCP server (`show` gets the address for the browser), or out where that is None. Raises
    `McpError` and `OSError`."""
    from coder.extend.mcp.endpoint import Surroundings

    none = Provider("", "", settings.loaded.config.provider.api_key)
    keys, variables = provider_keys(options.environ, none), expandable_env(options.environ, none)
    around = Surroundings(options.cwd, {}, variables, keys, settings.home)
    await engine.mcp_session.login(name, settings.loaded.config.mcp.servers[name], around, show)


def _tell_of_settings(agent: Agent, settings: Settings) -> None:
    """Warn of settings that have no effect."""

    def warn(key: str, **values: AnyText) -> None:
        agent.emit(Notice(Text(key, **values), "warning"))

    unknown = [name for name in agent.config.permission.tools if name not in agent.tools and "__" not in name]
    if unknown:
        warn("permissions.no_tool", names=", ".join(unknown))
    if settings.loaded.ignored and settings.trust_status == "changed":
        changes = TrustStore(settings.home).difference(agent.root, settings.loaded.relevant)
        warn("trust.changed", changes=JoinedText(changes.texts(), "; "))
    elif settings.loaded.ignored:
        warn("trust.ignored", keys=", ".join(sorted({one.key for one in settings.loaded.ignored})))


def closed_environment(environ: Mapping[str, str], provider: Provider) -> dict[str, str]:
    """As `child_environment`; also keeps what it drops out of our own /proc/PID/environ."""
    keep_secret(own_keys(environ, provider))
    return child_environment(environ, provider)


def _names_of(provider: Provider, settings: Settings) -> list[str]:
    """Where key and address come from, for error messages."""
    found = []
    for name in (provider.key_from or "CODER_API_KEY", provider.base_from):
        file = settings.loaded.origin_of(name) if name.startswith("provider.") else ""
        found.append(f"{name} ({file})" if file else name)
    return [name for name in found if name]


async def with_model_named(provider: Provider) -> Provider:
    """Ask a self-hosted server for its model if none is configured."""
    if provider.model:
        return provider
    names = await listed_models(provider)
    return msgspec.structs.replace(provider, model=names[0] if names else "default")


async def listed_models(
    provider: Provider, seconds: float | None = None, home: Path | None = None
) -> list[str]:
    """The models that the server lists. Raises `ModelError`, or `TimeoutError` after `seconds`.
    `home` has the model that coder serves itself."""
    wire = _of_package(provider) or _wire(provider, home)
    try:
        async with asyncio.timeout(seconds):
            return await wire.list_models()
    finally:
        await wire.close()


def _wire(provider: Provider, home: Path | None) -> ListingModel:
    wire = wire_of(provider, "")
    if wire == "local" and home is not None:
        return local_wire(home)
    names = [name for name in (provider.key_from or "CODER_API_KEY", provider.base_from) if name]
    return make_wire(wire, provider.base_url, provider.api_key, provider.headers, names=names)


def provider_of(options: Options, settings: Settings) -> Provider:
    """Raises `ConfigError` if there is none."""
    try:
        provider = resolve_provider(settings.loaded.config, options.environ)
    except NoProvider:
        if any(one.key.startswith("provider.") for one in settings.loaded.ignored):
            raise ConfigError("config.no_provider_trusted") from None
        raise
    if not plugin_of(provider.base_url):
        return provider

    return engine.plugins.with_factory(provider, options.cwd)


def installed_plugins(options: Options) -> Iterator[tuple[str, AnyText | None]]:
    return engine.plugins.tried(installed(options.cwd))


def is_read_only_command(text: str) -> bool:
    """Whether a line may be a `Query`."""
    return engine.commands.table.is_read_only(text)


def built_in_commands(*, prompts: bool = True) -> dict[str, str]:
    """Slash commands with their arguments. `prompts`: also those that a custom mode of that name replaces."""
    return {
        one.name: one.arguments
        for one in engine.commands.table.COMMANDS.values()
        if prompts or one.prompt is None
    }


PLUGIN_GROUPS = ("coder.tools", "coder.commands", "coder.providers")
_MAX_POINTS = 65_536  # bytes of a package's entry points


class Plugin(msgspec.Struct, frozen=True):
    """An entry point, and the package that has it."""

    group: str
    name: str
    value: str
    package: str


def installed(root: Path) -> list[Plugin]:
    """Entry points from package metadata, without importing any. Packages in the workspace are skipped: a
    project must not grant itself anything."""
    found: dict[tuple[str, str], Plugin] = {}
    for directory in _directories(root):
        for package, text in _declarations(directory):
            for plugin in _read(package, text):
                found.setdefault((plugin.group, plugin.name), plugin)
    return list(found.values())


def _directories(root: Path) -> Iterator[str]:
    inside = os.path.realpath(root)
    for place in dict.fromkeys(sys.path):
        real = os.path.realpath(place or ".")
        if real != inside and not real.startswith(inside + os.sep):
            yield real


def _declarations(directory: str) -> Iterator[tuple[str, str]]:
    """Name and entry points of each package with one of our groups."""
    try:
        names = [entry.name for entry in os.scandir(directory) if entry.name.endswith(".dist-info")]
    except OSError:
        return
    for name in sorted(names):
        try:
            with Path(directory, name, "entry_points.txt").open("rb") as file:
                data = file.read(_MAX_POINTS)
        except OSError:
            continue
        if b"[coder." in data:
            yield name.removesuffix(".dist-info"), data.decode("utf-8", errors="replace")


def _read(package: str, text: str) -> Iterator[Plugin]:
    group = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            group = line.strip("[]")
        elif group in PLUGIN_GROUPS and "=" in line:
            name, value = (part.strip() for part in line.split("=", 1))
            if f"{name}{package}".isprintable():  # they are shown
                yield Plugin(group, name, value, package)
