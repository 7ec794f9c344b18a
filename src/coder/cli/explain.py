"""`coder explain "shell line"`: what the policy would do with it, segment by segment, and why."""

from __future__ import annotations

import msgspec

from coder.cli.common import parser_for, settings_from
from coder.cli.errors import Exit
from coder.config.allowlist import Allowlist
from coder.policy.decide import OPERATING_MODES, PRESETS
from coder.policy.explain import as_text, explain


def run(arguments: list[str]) -> int:
    parser = parser_for("explain", "Say what the policy would do with a shell line, and why.")
    parser.add_argument("line", metavar="LINE")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--mode", choices=OPERATING_MODES, default="default")
    parser.add_argument("--permissions", choices=PRESETS, default="")
    chosen = parser.parse_args(arguments)
    options, settings = settings_from(chosen)
    permission = settings.loaded.config.permission
    found = explain(
        chosen.line,
        options.cwd,
        chosen.permissions or permission.preset,
        chosen.mode,
        overrides=permission.tools,
        allowlist=[*permission.command_allowlist, *Allowlist(settings.home, options.cwd).names()],
    )
    if chosen.json:
        print(
            msgspec.json.encode({name: found[name] for name in ("decision", "risks", "segments")}).decode(
                "utf-8"
            )
        )
    else:
        print(as_text(found))
    return Exit.ANSWERED
