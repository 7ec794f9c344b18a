"""A server made with the official SDK, of the legacy and the modern protocol: our client must work with it.

Run as a program: `python mcp_sdk_server.py stdio`, or `http PORT`.
"""

from __future__ import annotations

import asyncio
import sys

from mcp.server.mcpserver import Context, Image, MCPServer
from mcp_types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult
from pydantic import BaseModel

server = MCPServer("sdk", version="9.9", instructions="Use with care.")


class Sum(BaseModel):
    """A result with a structure of its own."""

    total: int


@server.tool()
def add(a: int, b: int) -> Sum:
    """Add two numbers."""
    return Sum(total=a + b)


@server.tool()
async def slow(steps: int, ctx: Context) -> str:
    """Take a while and say so."""
    for step in range(steps):
        await ctx.report_progress(step + 1, steps, "working")
        await asyncio.sleep(0.01)
    return "done"


@server.tool()
async def never(ctx: Context) -> str:
    """Go on until cancelled; what was cancelled is told by `ends`."""
    try:
        await ctx.report_progress(1)
        await asyncio.sleep(3600)
    finally:
        ended.append("never")
    return "over"


ended: list[str] = []


@server.tool()
def ends() -> str:
    """What was cancelled."""
    return ",".join(ended)


@server.tool()
def boom() -> str:
    """Fail."""
    raise ValueError("it broke")


@server.tool()
def picture() -> Image:
    """A picture that is none."""
    return Image(data=b"x" * 1234, format="png")


@server.tool()
def question() -> InputRequiredResult | str:
    """Want an answer of a person."""
    asked = ElicitRequestFormParams(message="Sure?", requested_schema={"type": "object", "properties": {}})
    return InputRequiredResult(input_requests={"sure": ElicitRequest(params=asked)})


@server.tool()
async def grow(ctx: Context) -> str:
    """Have one tool more, and tell of it."""
    server.add_tool(ends, name="grown")
    await ctx.notify_tools_changed()
    await ctx.session.send_tool_list_changed()
    return "grown"


@server.prompt()
def weigh(thing: str, scale: str = "grams") -> str:
    """Weigh a thing."""
    return f"Weigh {thing} in {scale}."


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        server.run("stdio")
    else:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[2]))
