"""Many tools of MCP servers: found and called by two tools, instead of being declared in every request.

The declarations of these two stay the same whatever the servers list, so that the provider's prompt cache
holds. A call by `mcp_call` is resolved before it is judged: policy, approval and record have the tool meant.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from coder.extend.mcp.mcp_tools import McpTool
from coder.texts import Text
from coder.tools.calls.arguments import BadArguments, as_object
from coder.tools.tool import (
    MCP_CALL,
    Arguments,
    OnOutput,
    Tool,
    ToolContext,
    ToolResult,
    failed,
    spec,
    summed_up,
)

MAX_DECLARED = 40  # tools of all servers: from there on their declarations cost more than they help
FIND = "mcp_find"
_MOST = 8  # definitions in one answer
_LONGEST = 24_000  # characters of them: about 6,000 tokens
_NAMES = 200


class FindTool(Tool):
    """Searches what is not declared. It looks at what the servers have already said, and asks none."""

    kind = "looks"
    concurrent = True
    keys = ("query",)

    def __init__(self, tools: Sequence[McpTool], servers: Sequence[str]) -> None:
        self._tools = tools
        about = (
            f"Find tools of the MCP servers ({', '.join(servers)}) by words of their names and descriptions. "
            f"Answers with definitions; call one with {MCP_CALL}. Without a query: all names."
        )
        query = {"type": "string", "description": "words, for example: create issue"}
        self.spec = spec(FIND, about, {"query": query}, [])

    async def run(self, args: Arguments, context: ToolContext, on_output: OnOutput) -> ToolResult:
        words = _words(str(args.get("query", "")))
        if not words:
            names = [tool.spec.name for tool in self._tools]
            text = "\n".join(names[:_NAMES])
            if len(names) > _NAMES:
                text += f"\n[… {len(names) - _NAMES} more; give a query]"
            return summed_up(Text("tool.mcp_found", n=len(names)), text)
        found = self._matching(words)
        return summed_up(Text("tool.mcp_found", n=len(found)), _defined(found) or "no tool has these words")

    def _matching(self, words: set[str]) -> list[McpTool]:
        """Best first: words of the name count more than those of the description."""
        scored: list[tuple[int, McpTool]] = []
        for tool in self._tools:
            function = tool.spec.function
            name, about = _words(function.name), _words(function.description)
            score = sum(3 * (word in name) + (word in about) for word in words)
            score += sum(word in function.name.lower() for word in words)
            scored.append((score, tool))
        scored.sort(key=lambda pair: -pair[0])
        return [tool for score, tool in scored if score > 0]


def _defined(tools: Sequence[McpTool]) -> str:
    lines: list[str] = []
    room = _LONGEST
    for tool in tools[:_MOST]:
        line = msgspec.json.encode(tool.spec.function).decode("utf-8")
        if len(line) > room and lines:
            break
        lines.append(line)
        room -= len(line)
    rest = [tool.spec.name for tool in tools[len(lines) : len(lines) + 20]]
    return "\n".join([*lines, *([f"Also: {', '.join(rest)}"] if rest else [])])


def _words(text: str) -> set[str]:
    return set(re.findall(r"[^\W_]+", text.lower()))


class CallTool(Tool):
    """Stands for the tool that it names: see `meant`."""

    def __init__(self) -> None:
        about = f"Call a tool that {FIND} found, with arguments as its definition says."
        properties = {
            "tool": {"type": "string", "description": "its name: mcp__…"},
            "arguments": {"type": "object", "description": "its arguments", "additionalProperties": True},
        }
        self.spec = spec(MCP_CALL, about, properties, ["tool"])

    async def run(self, args: Arguments, context: ToolContext, on_output: OnOutput) -> ToolResult:
        return failed(f"{MCP_CALL} was not resolved to the tool that it names")


def meant(arguments: Any, tools: Mapping[str, Tool]) -> tuple[Tool, dict[str, Any]]:
    """The tool that a call of `mcp_call` names, and its arguments. Raises `BadArguments`."""
    given = as_object(arguments)
    name = given.get("tool")
    tool = tools.get(name) if isinstance(name, str) else None
    if not isinstance(tool, McpTool):
        raise BadArguments(f"{MCP_CALL}: there is no tool {name!r}; find its name with {FIND}")
    unknown = [key for key in given if key not in ("tool", "arguments")]
    if unknown:
        raise BadArguments(f"{MCP_CALL}: {unknown[0]} belongs into `arguments`")
    return tool, as_object(given.get("arguments") or {})
