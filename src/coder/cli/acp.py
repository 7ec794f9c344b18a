"""`coder acp`: the Agent Client Protocol on stdio, for editors."""

from __future__ import annotations

import os
import sys

from coder.cli.arguments import Parser, add_directory_options
from coder.cli.start import texts_for, working_directory
from coder.config.schema import OPERATING_MODES, PRESETS
from coder.ui import acp
from coder.ui.streams import show


def run(arguments: list[str]) -> int:
    chosen = _parser(arguments).parse_args(arguments)
    directory = working_directory(chosen)
    import asyncio
    import gc

    gc.freeze()
    gc.enable()
    config, log_dir = chosen.config, chosen.log_dir
    settled = acp.acp_server.AcpChoices(
        environ=dict(os.environ),
        mode=chosen.mode,
        preset=chosen.permissions,
        model=chosen.model,
        lang=chosen.lang,
        config_file=config.absolute() if config else None,
        log_dir=log_dir.absolute() if log_dir else None,
    )
    os.chdir(directory)
    if sys.stdin.isatty():
        show(texts_for(arguments).say("acp.terminal"), sys.stderr)
    return asyncio.run(acp.acp_server.serve_acp(settled))


def _parser(arguments: list[str]) -> Parser:
    """Help texts only for --help: choosing their language reads the settings."""
    wanted = {"-h", "--help"} & set(arguments)
    parser = Parser("coder acp", texts_for(arguments).say if wanted else None)
    say, add = parser.say, parser.options.add_argument
    parser.description = say("cli.about.acp")
    add("-h", "--help", action="help", help=say("cli.help.help"))
    add("--mode", choices=OPERATING_MODES, metavar="MODE", help=", ".join(OPERATING_MODES))
    add("--permissions", choices=PRESETS, default="", metavar="PRESET", help=", ".join(PRESETS))
    add("--model", default="", metavar="NAME", help=say("cli.help.model"))
    add_directory_options(parser)
    return parser
