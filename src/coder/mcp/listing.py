"""Lists a server's usable tools, page by page, within limits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from coder.mcp.schemas import clean_schema
from coder.mcp.shapes import Json, McpFault, RemoteTool, bounded, single_line

_MAX_PAGES = 200
_MAX_TOOLS = 2_000
_LONGEST_NAME = 128  # as the specification has it
_DESCRIPTION = 6_000  # characters; part of every request of a session

AskPage = Callable[[Json], Awaitable[Json]]


class Listing:
    """The tools found so far. `left_out` counts unusable ones: invalid or duplicate name, too many."""

    def __init__(self) -> None:
        self.tools: dict[str, RemoteTool] = {}
        self.raw_schemas: dict[str, object] = {}
        self.left_out = 0

    def add(self, raw: object) -> None:
        tool = read_tool(raw)
        if tool is None or tool.name in self.tools or len(self.tools) >= _MAX_TOOLS:
            self.left_out += 1
            return
        self.tools[tool.name] = tool
        self.raw_schemas[tool.name] = raw.get("inputSchema") if isinstance(raw, dict) else None


async def list_tools(name: str, ask: AskPage) -> Listing:
    """All pages; raises `McpFault` if they do not end or are invalid."""
    listing = Listing()
    seen: set[str] = set()
    params: Json = {}
    for _ in range(_MAX_PAGES):
        page = await ask(params)
        tools = page.get("tools")
        if not isinstance(tools, list):
            raise McpFault("mcp.invalid_list", name=name)
        for raw in tools:
            listing.add(raw)
        cursor = page.get("nextCursor")
        if not isinstance(cursor, str) or not cursor:
            return listing
        if cursor in seen:
            break
        seen.add(cursor)
        params = {"cursor": cursor}
    raise McpFault("mcp.endless_list", name=name)


def read_tool(raw: object) -> RemoteTool | None:
    """None if its name is unusable."""
    name = raw.get("name") if isinstance(raw, dict) else None
    if not isinstance(raw, dict) or not isinstance(name, str):
        return None
    if not name.strip() or len(name) > _LONGEST_NAME or not name.isprintable():
        return None
    hints = raw.get("annotations")
    hints = hints if isinstance(hints, dict) else {}
    return RemoteTool(
        name=name,
        description=bounded(raw.get("description"), _DESCRIPTION),
        parameters=clean_schema(raw.get("inputSchema")),
        title=single_line(raw.get("title"), 100) or single_line(hints.get("title"), 100),
        read_only_hint=hints.get("readOnlyHint") is True,
    )
