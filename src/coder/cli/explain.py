"""`coder explain "shell line"`: what the policy would do with it, segment by segment, and why."""

from __future__ import annotations

import shlex

from coder.cli.common import parser_for, settings_from
from coder.config.allowlist import Allowlist
from coder.config.schema import OPERATING_MODES, PRESETS
from coder.policy.explain import as_data, as_text, explain
from coder.policy.sandbox.backends import probe
from coder.ui.streams import Exit, UsageError, show, show_json


def run(arguments: list[str]) -> int:
    parser = parser_for("explain", arguments)
    parser.arguments.add_argument("line", metavar="LINE", help=parser.say("cli.help.line"))
    add = parser.options.add_argument
    add("--json", action="store_true", help=parser.say("cli.help.json_object"))
    add("--mode", choices=OPERATING_MODES, default="default", help=parser.say("cli.help.explain_mode"))
    add("--permissions", choices=PRESETS, default="", help=parser.say("cli.help.explain_preset"))
    chosen, more = parser.parse_known_args(arguments)
    if more and " " in chosen.line and more[0].startswith("--"):
        parser.error(f"unrecognized arguments: {more[0]}")
    if more:
        raise UsageError("cli.unquoted", line=shlex.quote(shlex.join([chosen.line, *more])))
    options, settings = settings_from(chosen)
    config = settings.loaded.config
    permission = config.permission
    on = config.sandbox.mode != "off"
    level = probe(settings.home, workspace=options.cwd, backend=config.sandbox.backend) if on else None
    found = explain(
        chosen.line,
        options.cwd,
        chosen.permissions or permission.preset,
        chosen.mode,
        overrides=permission.tools,
        allowlist=[*permission.command_allowlist, *Allowlist(settings.home, options.cwd).names()],
        verify_allow=config.workflow.verify_allow,
        confined=level is not None and level.confines,
    )
    if chosen.json:
        show_json(as_data(found))
    else:
        show(as_text(found, settings.texts))
    return Exit.ANSWERED
