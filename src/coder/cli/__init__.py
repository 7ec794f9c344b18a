"""The command line: arguments and subcommands. Imports a room only when it is entered."""

from __future__ import annotations

import sys

SUBCOMMANDS = (
    "acp",
    "demo",
    "doctor",
    "explain",
    "export",
    "mcp",
    "modes",
    "schema",
    "sessions",
    "show",
    "trust",
)


def main() -> None:
    """The `coder` command."""
    arguments = sys.argv[1:]
    if arguments == ["--version"]:  # the quickest question gets the quickest answer
        from coder import __version__

        print(f"coder {__version__}")
        return
    import gc
    import os

    gc.disable()  # nothing of what start-up makes is garbage, and looking for some costs a tenth of it
    from coder.cli.start import run

    status = run(arguments)
    # Every file is closed and every child ended by now; taking the interpreter apart would only cost 20 ms.
    sys.stderr.flush()
    os._exit(_flushed(status))


def _flushed(status: int) -> int:
    try:
        sys.stdout.flush()
    except OSError:  # whoever read it has left, or the disk is full
        return status or 1
    return status
