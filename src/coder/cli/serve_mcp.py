"""`coder serve_mcp-mcp`: coder as an MCP server on stdio, for other agents."""

from __future__ import annotations

import asyncio
import os

from coder.cli.common import parser_for
from coder.cli.start import working_directory
from coder.config.schema import OPERATING_MODES, PRESETS
from coder.ui.mcp_server import McpChoices, serve_mcp


def run(arguments: list[str]) -> int:
    parser = parser_for("serve-mcp", arguments)
    say, add = parser.say, parser.options.add_argument
    add("--mode", choices=OPERATING_MODES, default="default", metavar="MODE", help=", ".join(OPERATING_MODES))
    add("--permissions", choices=PRESETS, default="", metavar="PRESET", help=", ".join(PRESETS))
    add("--model", default="", metavar="NAME", help=say("cli.help.model"))
    chosen = parser.parse_args(arguments)

    config, log_dir = chosen.config, chosen.log_dir
    settled = McpChoices(
        root=working_directory(chosen),
        environ=dict(os.environ),
        mode=chosen.mode,
        preset=chosen.permissions,
        model=chosen.model,
        config_file=config.absolute() if config else None,
        log_dir=log_dir.absolute() if log_dir else None,
    )
    return asyncio.run(serve_mcp(settled))
