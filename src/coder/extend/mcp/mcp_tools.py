"""Adapts an MCP server's tool to `Tool`: spec, preview and result."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from coder.base.files import make_private
from coder.base.text import head_and_tail
from coder.extend.mcp.shapes import CallOutcome, McpError, RemoteTool
from coder.protocol.messages import FunctionSpec, Image, ToolSpec
from coder.texts import Text
from coder.tools.images import Batch, Unusable, decoded, described
from coder.tools.tool import (
    MCP_PREFIX,
    Arguments,
    OnOutput,
    Preview,
    Tool,
    ToolContext,
    ToolResult,
    failed,
    pretty,
    summed_up,
)

KEEP_CHARACTERS = 32_000  # of a result: about 8,000 tokens, as for a command's output


class Caller(Protocol):
    """The server a tool belongs to."""

    known: dict[str, RemoteTool]

    @property
    def name(self) -> str: ...

    def call(
        self, tool: str, arguments: dict[str, Any], on_progress: Callable[[str], None]
    ) -> Awaitable[CallOutcome]: ...


class McpTool(Tool):
    """Of kind `unknown`: a server's claims about its tools are not trusted."""

    def __init__(
        self, name: str, server: Caller, remote: RemoteTool, *, covered: bool, changed: bool = False
    ) -> None:
        """`covered`: a local server, whose changes to files undo covers. `changed`: it was offered as another
        tool before, so that what the settings allow by its name was meant for that one (rug pull)."""
        self.server = server
        self.remote = remote
        self.covered = covered
        self.changed = changed
        self.own_name = f"{MCP_PREFIX}{server.name}__{remote.name}"
        about = f"[MCP server {server.name}] {remote.description}".rstrip()
        self.spec = ToolSpec(
            function=FunctionSpec(name=name, description=about, parameters=remote.parameters)
        )

    def accept(self) -> None:
        """The person has approved a call of it as it is now."""
        self.changed = False
        self.server.known[self.remote.name] = self.remote

    def preview(self, args: Arguments, context: ToolContext) -> Preview:
        return Preview(subject=f"{self.server.name} › {self.remote.name}\n{pretty(args)}")

    async def run(self, args: Arguments, context: ToolContext, on_output: OnOutput) -> ToolResult:
        begun = time.monotonic()
        try:
            outcome = await self.server.call(self.remote.name, dict(args), on_output)
        except McpError as fault:
            return failed(str(fault), fault.phrase, server=self.server.name)
        meta: dict[str, Any] = {
            "server": self.server.name,
            "parts": outcome.parts,
            "duration_ms": round((time.monotonic() - begun) * 1000),
        }
        text, images = outcome.text, tuple[Image, ...]()
        if outcome.images and context.sees_images:
            text, images = await asyncio.to_thread(_with_images, text, outcome.images)
        text, kept = _bounded(text or "(no output)", context)
        if kept is not None:
            meta["output_file"] = str(kept)
        return summed_up(
            Text("tool.mcp_done" if outcome.ok else "tool.mcp_failed", n=len(outcome.text)),
            text if outcome.ok else f"error: {text}",
            ok=outcome.ok,
            detail=text,
            detail_kind="output",
            meta=meta,
            images=images,
        )


def _with_images(text: str, sent: Sequence[tuple[str, str]]) -> tuple[str, tuple[Image, ...]]:
    """The images that can be shown; in the text each is named in its place."""
    taken = Batch()
    for number, (words, data) in enumerate(sent, 1):
        name = f"image {number}"
        try:
            image = taken.add(name, partial(decoded, data, name))
        except Unusable as fault:
            text = text.replace(words, f"[not shown: {fault}]", 1)
        else:
            text = text.replace(words, f"[{name}: {described(image)}, shown beside this result]", 1)
    return text, tuple(taken.images)


def _bounded(text: str, context: ToolContext) -> tuple[str, Path | None]:
    """The text for the model; if it is truncated, the whole goes to a file for `read`."""
    if len(text) <= KEEP_CHARACTERS:
        return text, None
    cut = head_and_tail(text, KEEP_CHARACTERS)
    path = context.outputs / f"mcp-{time.time_ns():x}.txt"
    data = text.encode("utf-8", errors="replace")[: context.limits.output_limit_bytes]
    try:
        make_private(path.parent)
        path.touch(0o600, exist_ok=False)
        path.write_bytes(data)
    except OSError:  # a full disk must not fail the call
        return cut, None
    return f"{cut}\n[output was cut; more of it is in {path}]", path
