"""The command line: arguments and subcommands. Imports a room only when it is entered."""

from __future__ import annotations

import sys

SUBCOMMANDS = ("demo", "doctor", "explain", "export", "sessions", "show", "trust")


def main() -> None:
    """The `coder` command."""
    arguments = sys.argv[1:]
    if arguments == ["--version"]:  # the quickest question gets the quickest answer
        from coder import __version__

        print(f"coder {__version__}")
        return
    from coder.cli.start import run

    sys.exit(run(arguments))
