"""Protocol version negotiation (capability probe), and the metadata of each version's requests.

Until 2025-11-25 a session began with an `initialize` handshake. Since 2026-07-28 there is none: each request
states its version, and `server/discover` describes the server. As the specification says (Backward
Compatibility), we probe with `server/discover` first and fall back to `initialize`, which costs a legacy
server one error.
"""

from __future__ import annotations

import asyncio
from base64 import b64encode
from typing import Any

from coder import __version__
from coder.base.rpc import RpcError
from coder.extend.mcp.jsonrpc import Transport
from coder.extend.mcp.shapes import Hello, Json, McpError, bounded, single_line

MODERN = "2026-07-28"
LEGACY = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
_UNSUPPORTED_VERSION = -32022
_MODERN_ERRORS = (-32020, -32021)  # mismatched headers, missing capability
_META = "io.modelcontextprotocol/"
_INSTRUCTIONS = 8_000  # characters; part of every request of a session
_NAME = 80


def client_info() -> Json:
    return {"name": "coder", "version": __version__}


def modern_params(params: Json) -> Json:
    """Add the metadata of modern requests. We declare no client capabilities."""
    meta = {
        f"{_META}protocolVersion": MODERN,
        f"{_META}clientInfo": client_info(),
        f"{_META}clientCapabilities": {},
    }
    return {**params, "_meta": meta}


def modern_headers(method: str, params: Json) -> dict[str, str]:
    """The headers that repeat a request's fields, for routing."""
    headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method}
    name = params.get("name")
    if method == "tools/call" and isinstance(name, str):
        headers["Mcp-Name"] = header_value(name)
    return headers


def header_value(text: str) -> str:
    """Encode as a header value: plain if safe, else marked Base64."""
    plain = text.isascii() and text.isprintable() and text == text.strip()
    if plain and not (text.startswith("=?base64?") and text.endswith("?=")):
        return text

    return f"=?base64?{b64encode(text.encode('utf-8', 'replace')).decode('ascii')}?="


async def negotiate(name: str, wire: Transport, patience: float) -> Hello:
    """Negotiate the version and open the session. If the probe was read but not answered, the legacy
    handshake runs beside it: some servers ignore unknown methods."""
    probe = asyncio.create_task(discover(name, wire))
    handshake: asyncio.Task[Hello] | None = None
    try:
        await asyncio.wait({probe}, timeout=patience)
        while not probe.done() and wire.unread():
            await asyncio.wait({probe}, timeout=patience)
        if probe.done() and (hello := probe.result()) is not None:
            return hello
        handshake = asyncio.create_task(legacy_handshake(name, wire))
        hello = await _first(probe, handshake)
        wire.settle(hello.version, modern=hello.modern)  # both may have been answered
        return hello
    finally:
        for task in (probe, handshake):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)


async def _first(probe: asyncio.Task[Hello | None], handshake: asyncio.Task[Hello]) -> Hello:
    """The first success of the two."""
    if not probe.done():
        await asyncio.wait({probe, handshake}, return_when=asyncio.FIRST_COMPLETED)
    if probe.done() and (hello := probe.result()) is not None:
        return hello
    try:
        return await handshake
    except McpError:
        hello = None if probe.done() else await probe
        if hello is None:
            raise
        return hello


async def discover(name: str, wire: Transport) -> Hello | None:
    """The probe; None for a legacy server."""
    method = "server/discover"
    try:
        result = await wire.request(
            method, modern_params({}), headers=modern_headers(method, {}), courtesy=False
        )
    except RpcError as error:
        if error.code in _MODERN_ERRORS:
            raise McpError("mcp.refused", name=name, why=error.message) from None
        offered = _versions(error.data, "supported") if error.code == _UNSUPPORTED_VERSION else []
        if offered and not set(offered) & set(LEGACY):
            raise _no_version(name, offered) from None
        return None
    except McpError as fault:
        if fault.phrase.key == "mcp.invalid":  # not a modern answer
            return None
        raise
    if MODERN not in _versions(result, "supportedVersions"):
        return None
    meta = result.get("_meta")
    wire.settle(MODERN, modern=True)
    return _hello(MODERN, result, meta.get(f"{_META}serverInfo") if isinstance(meta, dict) else None)


async def legacy_handshake(name: str, wire: Transport) -> Hello:
    """The legacy handshake; the server chooses the version."""
    result = await _initialize(name, wire, LEGACY[0])
    version = result.get("protocolVersion")
    if version not in LEGACY:
        raise _no_version(name, [single_line(version, 40)])
    wire.settle(str(version), modern=False)
    await wire.notify("notifications/initialized")
    return _hello(str(version), result, result.get("serverInfo"))


async def _initialize(name: str, wire: Transport, version: str) -> Json:
    """Some servers reject a version instead of offering another, but list the supported ones: retry with
    those."""
    params: Json = {"protocolVersion": version, "capabilities": {"roots": {}}, "clientInfo": client_info()}
    try:
        return await wire.request("initialize", params, courtesy=False)
    except RpcError as error:
        known = [one for one in _versions(error.data, "supported") if one in LEGACY]
        if not known or version in known or version != LEGACY[0]:
            raise McpError("mcp.refused", name=name, why=error.message) from None
    return await _initialize(name, wire, max(known))


def _versions(data: Any, key: str) -> list[str]:
    named = data.get(key) if isinstance(data, dict) else None
    return [one for one in named if isinstance(one, str)] if isinstance(named, list) else []


def _no_version(name: str, offered: list[str]) -> McpError:
    theirs = single_line(", ".join(offered), 100)
    return McpError("mcp.version", name=name, theirs=theirs, ours=", ".join((MODERN, *LEGACY)))


def _hello(version: str, result: Json, info: Any) -> Hello:
    info = info if isinstance(info, dict) else {}
    words = (single_line(info.get("name"), _NAME), single_line(info.get("version"), _NAME))
    capabilities = result.get("capabilities")
    return Hello(
        version=version,
        modern=version == MODERN,
        server=" ".join(word for word in words if word),
        instructions=bounded(result.get("instructions"), _INSTRUCTIONS),
        capabilities=capabilities if isinstance(capabilities, dict) else {},
    )


Path = tuple[str, ...]
_MARK = "x-mcp-header"
_DATA = {"default", "examples", "enum", "const", "required", "type", "description", "title"}
_NAMED = ("$defs", "definitions", "patternProperties", "dependentSchemas")
_TOKEN = frozenset("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_SAFE = 2**53 - 1  # the largest integer exact in a double


def marked_parameters(schema: object) -> dict[Path, str] | None:
    """The paths of marked parameters and their headers; None if a mark is invalid."""
    found: dict[Path, str] = {}
    taken: set[str] = set()
    todo: list[tuple[Path | None, Any]] = [((), schema)]
    while todo:
        path, node = todo.pop()
        if isinstance(node, dict) and _MARK in node:
            header = node[_MARK]
            if not path or not _may_be(header, node) or header.lower() in taken:
                return None
            found[path] = header
            taken.add(header.lower())
        todo += _below(path, node)
    return found


def _below(path: Path | None, node: Any) -> list[tuple[Path | None, Any]]:
    """The subschemas, with their path if it consists of properties only."""
    if isinstance(node, list):
        return [(None, one) for one in node]
    below: list[tuple[Path | None, Any]] = []
    for key, value in node.items() if isinstance(node, dict) else ():
        if key == "properties" and isinstance(value, dict):
            below += [(None if path is None else (*path, name), one) for name, one in value.items()]
        elif key in _NAMED and isinstance(value, dict):
            below += [(None, one) for one in value.values()]
        elif key not in _DATA and isinstance(value, dict | list):
            below.append((None, value))
    return below


def _may_be(header: object, node: Json) -> bool:
    fits = isinstance(header, str) and header != "" and set(header) <= _TOKEN
    return fits and node.get("type") in ("string", "integer", "boolean")


def param_headers(marked: dict[Path, str], arguments: Json) -> dict[str, str]:
    """The headers of a call; none for missing arguments."""
    headers: dict[str, str] = {}
    for path, header in marked.items():
        value: Any = arguments
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        if isinstance(value, bool):
            value = "true" if value else "false"
        if isinstance(value, int) and abs(value) <= _SAFE:
            value = str(value)
        if isinstance(value, str):
            headers[f"Mcp-Param-{header}"] = header_value(value)
    return headers
