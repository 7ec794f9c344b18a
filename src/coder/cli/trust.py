"""`coder trust`: let this folder's own settings take effect, or no longer."""

from __future__ import annotations

from coder.cli.common import parser_for, settings_from
from coder.cli.errors import Exit
from coder.config.trust import TrustStore
from coder.engine.modes import mode_commands
from coder.modes.catalogue import Catalogue
from coder.modes.discover import places
from coder.terminal.safe import safe


def run(arguments: list[str]) -> int:
    parser = parser_for("trust", "Trust the settings that this folder brings along in .coder/config.json.")
    parser.add_argument("--revoke", action="store_true", help="trust them no longer")
    chosen = parser.parse_args(arguments)
    options, settings = settings_from(chosen)
    say = settings.texts.say
    store = TrustStore(settings.home)
    if chosen.revoke:
        store.revoke(options.cwd)
        print(say("trust.revoked", folder=safe(str(options.cwd))))
        return Exit.ANSWERED
    catalogue = Catalogue(places(options.cwd, options.environ, settings.home), settings.texts)
    relevant = {**settings.loaded.relevant, **mode_commands(catalogue)}
    if not relevant:
        print(say("trust.nothing"))
        return Exit.ANSWERED
    store.trust(options.cwd, relevant)
    print(say("trust.done", folder=safe(str(options.cwd))))
    for key, value in sorted(relevant.items()):
        print(f"  {safe(key)} = {safe(str(value))}")
    return Exit.ANSWERED
