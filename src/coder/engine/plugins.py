"""Tools and commands of installed packages, by the entry points `coder.tools` and `coder.commands`.

Loaded only where a package has any (`setup.installed`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from coder.engine.setup import Plugin, installed
from coder.protocol.events import Notice
from coder.texts import Phrase, Said
from coder.tools.base import Tool, ToolContext, is_mcp

if TYPE_CHECKING:
    from coder.engine.agent import Agent
    from coder.engine.session import Session

RunCommand = Callable[[str, ToolContext], Awaitable[str] | str]


def _loaded(plugin: Plugin) -> Any:
    from importlib import import_module

    module, _, attribute = plugin.value.partition(":")
    found: Any = import_module(module.strip())
    for name in filter(None, attribute.strip().split(".")):
        found = getattr(found, name)
    return found


def add_tools(session: Session) -> None:
    """Once per agent, before its first turn. A package that fails is reported and skipped."""
    agent = session.agent
    added: list[str] = []
    for plugin in agent.plugins or ():
        if plugin.group != "coder.tools":
            continue
        try:
            made = _loaded(plugin)
            tools = [made] if isinstance(made, Tool) else list(made())
        except Exception as error:  # somebody else's code
            _tell(agent, plugin, f"{type(error).__name__}: {error}")
            continue
        for tool in tools:
            if not isinstance(tool, Tool) or is_mcp(tool.spec.name) or tool.spec.name in agent.tools:
                _tell(agent, plugin, Phrase("plugins.no_tool"))
                continue
            agent.tools[tool.spec.name] = tool
            added.append(tool.spec.name)
    if added:
        agent.own_tools = agent.own_tools | set(added)
        session.conversation.use_tools(agent.specs)


async def run_command(session: Session, name: str, args: str) -> tuple[Said, bool] | None:
    """Run a package's `/name`; None if no package has it."""
    agent = session.agent
    known = installed(agent.root) if agent.plugins is None else agent.plugins
    plugin = next((one for one in known if (one.group, one.name) == ("coder.commands", name)), None)
    if plugin is None:
        return None
    try:
        answer = _loaded(plugin)(args, session.context)
        return str(await answer if hasattr(answer, "__await__") else answer), True
    except Exception as error:  # somebody else's code
        why = f"{type(error).__name__}: {error}"
        return Phrase("plugins.failed", name=plugin.name, package=plugin.package, why=why), False


def _tell(agent: Agent, plugin: Plugin, why: Said) -> None:
    said = Phrase("plugins.failed", name=plugin.name, package=plugin.package, why=why)
    agent.emit(Notice(said, "warning"))
