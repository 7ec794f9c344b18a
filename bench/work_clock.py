"""A clock that goes by work: the processor time of the model's server, as seconds of two whole cores.

Standard library only: `mini_peer.py` runs with another interpreter.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

CORES = 2
PATIENCE = 12  # seconds of time to one of work, for a machine that is busy with other things


def clock_of(pid: int) -> Callable[[], float]:
    """Seconds of work from now on; where the server gets next to nothing done, time counts too."""
    work, began = work_of(pid), time.monotonic()
    return lambda: max(work_of(pid) - work, (time.monotonic() - began) / PATIENCE)


def work_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") / CORES
