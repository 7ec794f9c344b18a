"""What is said of MCP servers as the person set them up, in English."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    # where a server is reached
    "servers.ambiguous_name": "MCP server {name}: rename it, without `__` and without `_` at its end, so "
    "that mcp__server__tool names one tool only.",
    "servers.logged_in": "You are logged in at the MCP server {name}.",
    "servers.logged_out": "The tokens of the MCP server {name} are forgotten.",
    "servers.no_login": "MCP server {name}: a login is for an address without an Authorization header; it "
    "has none to log in at.",
    "servers.open_page": "Open this page in a browser on this machine to log in:\n{url}",
    "servers.no_endpoint": "MCP server {name} has neither `command` nor `url`: set one of them.",
    "servers.no_prompt": "The MCP server {name} has no prompt {prompt}; it has: {names}.",
    "servers.prompt_needs": "{prompt} needs: {names}. Type them in order, or as name=value.",
    "servers.two_endpoints": "MCP server {name} has both `command` and `url`: set one of them.",
    "servers.type_wants": "MCP server {name}: type {type} wants `{wants}`.",
    "servers.bad_url": "MCP server {name}: `url` must begin with http:// or https://.",
    "servers.no_program": "MCP server {name}: the program {program} was not found.",
    "servers.workspace_program": (
        "MCP server {name}: {program} is on PATH only inside the workspace. If you mean that one, give "
        "its path as `command`."
    ),
    "servers.no_folder": "MCP server {name}: the folder {directory} does not exist.",
    "servers.no_variable": "MCP server {name}: {where} names the variable {variable}, which is not set.",
    "servers.own_key": "MCP server {name}: {where} would hold the provider's own key, "
    "which no server is given.",
    "servers.no_sandbox": "MCP server {name} was not started: {why}",
    # what became of it
    "servers.in_plan": "MCP server {name} does not run in plan mode.",
    "servers.switched_off": "MCP server {name} is switched off: take out mcp.servers.{name}.disabled first.",
    "servers.unavailable": "MCP server {name} does not run: {why}",
    "servers.confined": "{why} It runs in the sandbox: name the folders that it must write under "
    'mcp.servers.{name}.writable (for npx: "~/.npm", for uvx: "~/.cache/uv").',
    "servers.failed": "Tools are missing, see /mcp: {why}",
    "servers.too_many": "Of the {n} tools of MCP server {name} the first {kept} are offered: {most} is the "
    "bound for all servers together. Name the ones you want under mcp.servers.{name}.tools.",
    "servers.unusable": "{n} tools of MCP server {name} cannot be offered: their names are missing or taken.",
    "servers.unusable.one": "1 tool of MCP server {name} cannot be offered: its name is missing or taken.",
    "servers.waiting": "Waiting for MCP servers: {names}.",
    # `/mcp` and `coder mcp`
    "servers.more_resources": "… and {n} more resources",
    "servers.more_resources.one": "… and 1 more resource",
    "servers.none": "No MCP servers are configured. To add one: coder mcp add NAME -- PROGRAM ARG…",
    "servers.state.off": "off",
    "servers.state.waiting": "not started",
    "servers.state.starting": "starting",
    "servers.state.ready": "ready",
    "servers.state.failed": "failed",
    "servers.state.ended": "ended",
    "servers.tools": "{n} tools",
    "servers.tools.one": "1 tool",
    "servers.added": "{name} was added to {file}. Try it with: coder mcp",
    "servers.removed": "{name} was removed.",
    "servers.there_already": "{file} has an MCP server {name} already; first: coder mcp remove {name}",
    "servers.not_yours": "There is no MCP server {name} in {file}.",
    "servers.restarted": "{name} was started again.",
    "servers.no_server": "There is no MCP server {name}; there are: {names}.",
    "servers.usage": "Usage: /mcp [restart NAME]",
    "servers.otel_failed": "OpenTelemetry could not be set up, so nothing is sent: {why}",
    "servers.otel_missing": ("OTEL_EXPORTER_OTLP_ENDPOINT is set, but nothing is sent: spans need {line}"),
    "servers.otel_protocol": (
        "OTEL_EXPORTER_OTLP_PROTOCOL is {protocol}, but spans are sent by http/protobuf alone; nothing is "
        "sent."
    ),
}
