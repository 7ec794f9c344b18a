"""Tools, commands and providers of installed packages, by their entry points.

Loaded only where a package has any (`setup.installed`).
"""

from __future__ import annotations

import asyncio
import re
from asyncio import CancelledError
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from itertools import islice
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import msgspec

from coder.base.text import one_line
from coder.config import ConfigError
from coder.config.providers import plugin_of
from coder.engine.setup import Plugin, built_in_commands, installed
from coder.models.model import ChatModel, Chunk, ModelError, ModelRequest, closing
from coder.protocol.events import Notice
from coder.texts import AnyText, Text
from coder.tools.tool import Tool, ToolContext, is_mcp

if TYPE_CHECKING:
    from coder.config.providers import Provider
    from coder.engine.agent import Agent
    from coder.engine.session import Session

_MOST_TOOLS = 100  # of one entry point
_PATIENCE = 2.0  # seconds of loading a package before a person is told which

RunCommand = Callable[[str, ToolContext], Awaitable[str] | str]


def _loaded(value: str) -> Any:
    from importlib import import_module

    module, _, attribute = value.partition(":")
    found: Any = import_module(module.strip())
    for name in filter(None, attribute.strip().split(".")):
        found = getattr(found, name)
    return found


def _apart(work: Callable[[], Any]) -> Future[tuple[Any, BaseException | None]]:
    """Run somebody else's code in a thread that does not keep us from ending if it hangs."""
    future: Future[tuple[Any, BaseException | None]] = Future()

    def run() -> None:
        try:
            future.set_result((work(), None))
        except BaseException as error:
            future.set_result((None, error))

    Thread(target=run, name="package", daemon=True).start()
    return future


def tried(plugins: Sequence[Plugin]) -> Iterator[tuple[str, AnyText | None]]:
    """Each by name, and why it cannot be used."""
    for one in plugins:
        yield f"{one.group.removeprefix('coder.')}: {one.name} ({one.package})", _fault_of(one)


def _fault_of(plugin: Plugin) -> AnyText | None:
    """Found by loading it."""
    if is_shadowed(plugin):
        return Text("plugins.shadowed")
    try:
        error = _apart(lambda: _loaded(plugin.value)).result(_PATIENCE)[1]
    except TimeoutError:
        return Text("plugins.slow", name=plugin.name, package=plugin.package)
    return None if error is None else _why(error)


def is_shadowed(plugin: Plugin) -> bool:
    """Whether it is a command that has a built-in one's name, which wins."""
    return plugin.group == "coder.commands" and plugin.name in built_in_commands()


async def about(plugin: Plugin) -> str:
    """The first line of a command's docstring; empty if it cannot be loaded soon."""
    loading = _apart(lambda: str(_loaded(plugin.value).__doc__ or ""))
    try:
        async with asyncio.timeout(_PATIENCE):
            text, _error = await asyncio.wrap_future(loading)
    except TimeoutError:
        return ""
    return one_line((text or "").strip().partition("\n")[0], 200)


async def add_tools(session: Session) -> None:
    """Once per agent, before its first turn. A package that fails is reported and skipped; one that hangs is
    named, and a cancel goes on without it."""
    agent = session.agent
    added: list[str] = []
    for plugin in agent.plugins or ():
        if is_shadowed(plugin):
            _tell(agent, plugin, Text("plugins.shadowed"))
        if plugin.group != "coder.tools":
            continue
        loading = asyncio.wrap_future(_apart(partial(_tools_of, plugin)))
        if (await asyncio.wait([loading], timeout=_PATIENCE))[1]:
            agent.emit(Notice(Text("plugins.slow", name=plugin.name, package=plugin.package), "warning"))
        found, error = await loading
        if error is not None:
            _tell(agent, plugin, _why(error))
            continue
        tools, usable = found
        taken = [tool for tool in usable if tool.spec.name in agent.tools]
        if taken or len(usable) < len(tools):
            _tell(agent, plugin, Text("plugins.no_tool"))
        for tool in usable:
            if tool not in taken:
                agent.tools[tool.spec.name] = tool
                added.append(tool.spec.name)
    if added:
        agent.own_tools = agent.own_tools | set(added)
        session.conversation.use_tools(agent.specs)


def _tools_of(plugin: Plugin) -> tuple[list[Any], list[Tool]]:
    """All, and those that can be used. Raises what the package raises."""
    made = _loaded(plugin.value)
    tools = [made] if isinstance(made, Tool) else list(islice(made(), _MOST_TOOLS))
    return tools, [tool for tool in tools if _can_be_offered(tool)]


def _can_be_offered(tool: Any) -> bool:
    """Whether providers take its declaration: one that they refuse would fail every request. Raises what the
    tool raises."""
    if not isinstance(tool, Tool):
        return False
    function = tool.spec.function
    msgspec.json.encode(function)
    is_name = re.fullmatch(r"[A-Za-z0-9_-]{1,64}", function.name) is not None
    return is_name and not is_mcp(function.name)


def _why(error: BaseException) -> str:
    """On one line, without control characters: it is shown to the person. Raises a cancel of ours again."""
    if isinstance(error, KeyboardInterrupt | CancelledError):
        raise error
    return one_line(f"{type(error).__name__}: {error}", 300)


async def run_command(session: Session, name: str, args: str) -> tuple[AnyText, bool] | None:
    """Run a package's `/name`; None if no package has it."""
    agent = session.agent
    known = installed(agent.root) if agent.plugins is None else agent.plugins
    plugin = next((one for one in known if (one.group, one.name) == ("coder.commands", name)), None)
    if plugin is None:
        return None
    try:
        answer = _loaded(plugin.value)(args, session.context)
        said = await answer if hasattr(answer, "__await__") else answer
        return "" if said is None else str(said), True
    except BaseException as error:  # somebody else's code
        return Text("plugins.failed", name=plugin.name, package=plugin.package, why=_why(error)), False


def _tell(agent: Agent, plugin: Plugin, why: AnyText) -> None:
    said = Text("plugins.failed", name=plugin.name, package=plugin.package, why=why)
    agent.emit(Notice(said, "warning"))


def with_factory(provider: Provider, root: Path) -> Provider:
    """With where the package makes its model. Raises `ConfigError`."""
    offered = {one.name: one.value for one in installed(root) if one.group == "coder.providers"}
    name = plugin_of(provider.base_url)
    if name not in offered:
        raise ConfigError("config.no_plugin", name=name, names=", ".join(offered) or Text("modes.none"))
    return msgspec.structs.replace(provider, factory=offered[name])


def provider_model(provider: Provider, timeout_ms: int) -> PackageModel:
    """Raises `ConfigError`."""
    try:
        make = _loaded(provider.factory)
        made = make(api_key=provider.api_key, headers=dict(provider.headers), timeout_ms=timeout_ms)
        made.stream  # noqa: B018 (fails here, not with the first request)
    except BaseException as error:  # somebody else's code
        why = _why(error)
        raise ConfigError("plugins.failed", name=provider.name, package=provider.factory, why=why) from None
    return PackageModel(provider.name, made)


class PackageModel:
    """A package's model. Whatever it raises is a failed request, never a failed program."""

    def __init__(self, name: str, inner: ChatModel) -> None:
        self._name = name
        self._inner = inner

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        try:
            async with closing(self._inner.stream(request)) as chunks:
                async for chunk in chunks:
                    yield chunk
        except ModelError:
            raise
        except Exception as error:
            raise self._fault(error) from error

    async def list_models(self) -> list[str]:
        """None if it does not tell."""
        tell = getattr(self._inner, "list_models", None)
        if tell is None:
            return []
        try:
            return [name for name in await tell() if isinstance(name, str)]
        except ModelError:
            raise
        except Exception as error:
            raise self._fault(error) from error

    async def close(self) -> None:
        close = getattr(self._inner, "close", None)
        if close is not None:
            await close()

    def _fault(self, error: Exception) -> ModelError:
        return ModelError(f"{self._name}: {type(error).__name__}: {error}", kind="protocol")
