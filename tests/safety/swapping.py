"""Somebody who exchanges a directory for a link, over and over, while a test reads or writes there."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Two names for one path, in turn and in one step: the path is always there, as a directory or as a link.
_SWAPPING = """
import ctypes, os, sys
parent = os.getppid()
one, other = (os.fsencode(name) for name in sys.argv[1:])
exchange = ctypes.CDLL(None, use_errno=True).renameat2
print("ready", flush=True)
while os.getppid() == parent:
    if exchange(-100, one, -100, other, 2):
        os._exit(3)
"""
DEADLINE = 60.0  # for a machine that does ten other things; the loops end by what they have seen


class NoJournal:
    def before_change(self, path: Path, after: bytes | None, mode: int | None = None) -> None: ...


@contextmanager
def swapping(one: Path, other: Path) -> Iterator[None]:
    """Another process exchanges the two until the end."""
    with subprocess.Popen(
        [sys.executable, "-c", _SWAPPING, str(one), str(other)], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        try:
            yield
            assert child.poll() is None, "nobody was exchanging anything"
        finally:
            child.kill()
