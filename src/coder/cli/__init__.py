"""The command line: arguments and subcommands. Packages are imported lazily."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from signal import SIGINT, default_int_handler, getsignal, signal
    from typing import NoReturn
else:
    from _signal import SIGINT, default_int_handler, getsignal, signal  # `signal` imports enum

_CANCELLED = 130

CORE_COMMANDS = (
    "acp",
    "cache",
    "demo",
    "doctor",
    "explain",
    "export",
    "mcp",
    "models",
    "modes",
    "schema",
    "serve-mcp",
    "sessions",
    "show",
    "stats",
    "trust",
    "view",
)


def main() -> None:
    """The `coder` command."""
    if getsignal(SIGINT) is default_int_handler:  # and not ignored, as in a shell's background job
        signal(SIGINT, _exit_at_once)
    try:
        _main(sys.argv[1:])
    except KeyboardInterrupt:  # during shutdown
        _exit_at_once()


def enable_keyboard_interrupt() -> None:
    """Called after start-up. Until then SIGINT ends the process at once: a `KeyboardInterrupt` within an
    import may be printed or swallowed."""
    if getsignal(SIGINT) is _exit_at_once:
        signal(SIGINT, default_int_handler)


def _exit_at_once(*_: object) -> NoReturn:
    os._exit(_CANCELLED)


def _main(arguments: list[str]) -> None:
    if arguments == ["--version"]:  # fast path
        from coder import __version__

        print(f"coder {__version__}")
        return
    if sys.platform == "win32":  # before POSIX-only imports
        raise SystemExit(_refuse_windows())
    import gc

    gc.disable()  # start-up makes no garbage, and collecting takes a tenth of its time
    from coder.cli.lazy_imports import import_lazily

    import_lazily()
    from coder.cli.start import run

    status = run(arguments)
    # All files are closed and all children reaped; interpreter shutdown would only cost 20 ms.
    sys.stderr.flush()
    os._exit(_flushed(status))


def _refuse_windows() -> int:
    from coder.texts import Catalog, pick_language

    print(Catalog(pick_language("", "", os.environ)).say("cli.windows"), file=sys.stderr)
    return 2


def _flushed(status: int) -> int:
    try:
        sys.stdout.flush()
    except OSError:  # EPIPE or a full disk
        return status or 1
    return status
