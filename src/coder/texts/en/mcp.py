"""What can go wrong with servers of the Model Context Protocol, in English."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    # starting and reaching a server
    "mcp.no_program": "The MCP server {name} cannot be started: no program {program}. Check its command.",
    "mcp.no_start": "The MCP server {name} cannot be started ({program}): {why}.",
    "mcp.refused": "The MCP server {name} says no: {why}.",
    "mcp.slow": "The MCP server {name} did not answer within {seconds} s{said}",
    "mcp.version": "The MCP server {name} speaks only version {theirs} of the protocol; known here: {ours}.",
    # a server that has gone
    "mcp.cut_off": "The MCP server {name} ended its answer before the result came; try again.",
    "mcp.denied": "The MCP server {name} ({address}) refuses us ({status}); check `headers` in its settings.",
    "mcp.elsewhere": "The MCP server {name} wants posts to another origin than its url's; that is not done.",
    "mcp.login": "The MCP server {name} ({address}) wants you to log in: coder mcp login {name}",
    "mcp.oauth": "The login at the MCP server {name} failed: {why}.",
    "mcp.oauth_client": "The MCP server {name} registers no programs by itself: register one with it, for "
    "the redirect http://127.0.0.1/callback, and set its id as mcp.servers.{name}.client_id.",
    "mcp.oauth_late": "Nobody logged in at the MCP server {name} within {seconds} s; try again: coder mcp "
    "login {name}",
    "mcp.session_lost": "The MCP server {name} forgets its sessions as they begin; it cannot be used.",
    "mcp.status": "{address} answers with HTTP status {status}",
    "mcp.unreachable": "The MCP server {name} cannot be reached: {why}. Check its url.",
    "mcp.closed": "The connection to the MCP server {name} is closed.",
    "mcp.died": "The MCP server {name} has ended (exit status {status}){said}",
    "mcp.hung_up": "The MCP server {name} stopped talking and was ended{said}",
    "mcp.said": "; it said: {words}",
    "mcp.said_nothing": " without a word on its stderr.",
    # its tools
    "mcp.endless_list": "The MCP server {name} lists its tools without an end; it cannot be used.",
    "mcp.invalid": "The MCP server {name} gave an answer that is none.",
    "mcp.invalid_list": "The MCP server {name} gave a list of tools that is none.",
    "mcp.slow_list": "The MCP server {name} did not list its tools within {seconds} s.",
    # a call
    "mcp.call_refused": "The MCP server {name} refuses the call of {tool}: {why}",
    "mcp.invalid_result": "The MCP server {name} gave a result of {tool} that does not follow the protocol.",
    "mcp.long_message": "The MCP server {name} sent a message of over {limit} MB; ask for less at a time.",
    "mcp.slow_call": "{tool} of the MCP server {name} did not answer within {seconds} s and was cancelled.",
    "mcp.wants_input": (
        "{tool} of the MCP server {name} wants an answer from a person, which this client cannot give; "
        "call it with all that it needs, or do without it."
    ),
}
