"""The command line: arguments and subcommands. Imports a room only when it is entered."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from signal import SIGINT, default_int_handler, getsignal, signal
    from typing import NoReturn
else:
    from _signal import SIGINT, default_int_handler, getsignal, signal  # the other would import enum

_CANCELLED = 130

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
    if getsignal(SIGINT) is default_int_handler:  # and not ignored, as in a shell's background job
        signal(SIGINT, _leave)
    try:
        _main(sys.argv[1:])
    except KeyboardInterrupt:  # on the way out
        _leave()


def hear_interrupts() -> None:
    """Start-up is over: from here on SIGINT is a `KeyboardInterrupt`, and what was begun is ended in order.
    Until then it just ends the process: an exception in the middle of an import may be printed or lost."""
    if getsignal(SIGINT) is _leave:
        signal(SIGINT, default_int_handler)


def _leave(*_: object) -> NoReturn:
    os._exit(_CANCELLED)


def _main(arguments: list[str]) -> None:
    if arguments == ["--version"]:  # the quickest question gets the quickest answer
        from coder import __version__

        print(f"coder {__version__}")
        return
    if sys.platform == "win32":  # before anything of POSIX is imported
        raise SystemExit(_refuse_windows())
    import gc

    gc.disable()  # nothing of what start-up makes is garbage, and looking for some costs a tenth of it
    from coder.cli.start import run

    status = run(arguments)
    # Every file is closed and every child ended by now; taking the interpreter apart would only cost 20 ms.
    sys.stderr.flush()
    os._exit(_flushed(status))


def _refuse_windows() -> int:
    from coder.texts import Texts, pick_language

    print(Texts(pick_language("", "", os.environ)).say("cli.windows"), file=sys.stderr)
    return 2


def _flushed(status: int) -> int:
    try:
        sys.stdout.flush()
    except OSError:  # whoever read it has left, or the disk is full
        return status or 1
    return status
