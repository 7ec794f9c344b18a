"""`coder cache [clear]`: the layers in which package managers of sandboxed commands write."""

from __future__ import annotations

from coder.cli.common import parser_for, settings_from
from coder.policy.sandbox.caches import clear_layers, layers_in_use
from coder.policy.workspace import state_directory
from coder.ui.streams import Exit, show

MEGABYTE = 1_000_000


def run(arguments: list[str]) -> int:
    parser = parser_for("cache", arguments)
    parser.arguments.add_argument(
        "action", metavar="clear", nargs="?", choices=("clear",), help=parser.say("cli.help.cache_action")
    )
    chosen = parser.parse_args(arguments)
    _, settings = settings_from(chosen)
    home, say = state_directory(settings.home), settings.texts.say
    if chosen.action == "clear":
        freed = clear_layers(home)
        show(say("cli.cache.cleared", size=f"{freed / MEGABYTE:.1f}"))
        if busy := layers_in_use(home):
            show(say("cli.cache.busy", n=len(busy)))
    else:
        found = layers_in_use(home)
        size = sum(one.bytes for one in found) / MEGABYTE
        show(say("cli.cache.size", n=len(found), size=f"{size:.1f}", path=home / "caches"))
    return Exit.ANSWERED
