"""How far a batch is: written by the driver, read by the table it shows and by `coder batch status`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

import msgspec

from coder.batch.results import STATUS, is_running
from coder.batch.tasks import BatchError
from coder.fs.atomic import write_atomically

Stopped = Literal["", "interrupted", "cancelled", "budget", "time", "engine"]


class Running(msgspec.Struct, frozen=True):
    """An attempt that runs."""

    id: str
    attempt: int
    seconds: float
    requests: int = 0
    cost: float = 0.0


class Progress(msgspec.Struct):
    """`ran`: tasks that this run of the batch finished; `stopped`: why it starts no more."""

    total: int
    done: int = 0
    succeeded: int = 0
    ran: int = 0
    lost: int = 0
    tokens: int = 0
    cost: float = 0.0
    tokens_per_second: float = 0.0
    elapsed: float = 0.0
    seconds_left: float | None = None
    stopped: Stopped = ""
    ended: bool = False
    running: list[Running] = []
    waiting: int = 0  # for a node of the cluster
    dearest: float = 0.0  # what one request has cost at most
    throttled: int = 0  # requests that a provider answered with 429
    pid: int = msgspec.field(default_factory=os.getpid)

    @property
    def failed(self) -> int:
        return self.done - self.succeeded


def write_status(directory: Path, progress: Progress) -> None:
    write_atomically(directory / STATUS, msgspec.json.encode(progress), 0o644, beside=f".{STATUS}.tmp")


class Status(msgspec.Struct, frozen=True):
    progress: Progress
    alive: bool  # whether its driver runs


def dearest_so_far(directory: Path) -> float:
    """Of the runs of the batch that there were."""
    try:
        return read_status(directory).progress.dearest
    except BatchError:
        return 0.0


def read_status(directory: Path) -> Status:
    """Raises `BatchError` where there is no batch."""
    try:
        progress = msgspec.json.decode((directory / STATUS).read_bytes(), type=Progress)
    except OSError as error:
        raise BatchError("batch.no_status", directory=directory, why=error.strerror) from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BatchError("batch.no_status", directory=directory, why=str(error)) from None
    return Status(progress, is_running(directory))
