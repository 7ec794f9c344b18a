"""The built-in tools, imported lazily."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, TypeVar

from coder.tools.save_memory import SaveMemory
from coder.tools.skill import Skill
from coder.tools.tool import Arguments, Tool

if TYPE_CHECKING:
    from coder.tools.save_memory import MemoryFile
    from coder.tools.skill import SkillSource

T = TypeVar("T")
# In the order in which they are declared to the model.
_TOOLS = (
    "coder.tools.read:Read",
    "coder.tools.list:List",
    "coder.tools.glob:Glob",
    "coder.tools.grep:Grep",
    "coder.tools.write:Write",
    "coder.tools.edit:Edit",
    "coder.tools.patch:Patch",
    "coder.tools.bash:Bash",
    "coder.tools.job:JobTool",
    "coder.tools.todo:TodoRead",
    "coder.tools.todo:TodoWrite",
    "coder.tools.task:Task",
    "coder.tools.skill:Skill",
    "coder.tools.save_memory:SaveMemory",
    "coder.tools.fetch:Fetch",
)


@cache
def built_in_tools() -> dict[str, type[Tool]]:
    """What each declares, by name."""
    places = [place.partition(":") for place in _TOOLS]
    found: list[type[Tool]] = [getattr(import_module(module), name) for module, _, name in places]
    return {tool.spec.function.name: tool for tool in found}


def built_in(name: str) -> type[Tool]:
    """The tool of this name; for any other name the bare `Tool`, of which nothing is known."""
    return built_in_tools().get(name, Tool)


def declared(declaration: Callable[[Arguments], T], args: Arguments) -> T | None:
    """Call a tool's declaration (`paths`, `argument`, …) for a past call; None if it raises: that error is
    already the call's result."""
    try:
        return declaration(args)
    except Exception:
        return None


def make_tools(skills: SkillSource, memory: MemoryFile, *, few: bool = False) -> list[Tool]:
    made: dict[str, Tool] = {"skill": Skill(skills), "save_memory": SaveMemory(memory)}
    tools = [made.get(name) or tool() for name, tool in built_in_tools().items()]
    if not few:
        return tools
    from coder.tools.brief import FEW

    return [tool for tool in tools if tool.spec.name in FEW]
