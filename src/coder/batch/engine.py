"""What the driver needs of an engine."""

from __future__ import annotations

from typing import Protocol

from coder.batch.inbox import News
from coder.batch.job import Job
from coder.batch.tasks import BatchError


class EngineLost(BatchError):
    """What the engine ran on is gone, with all that ran there."""


class BatchEngine(Protocol):
    """Runs attempts somewhere. For each one started there is exactly one `Ended` among the news, the last of
    that attempt's; what it came to is its `Done`, and without one it was lost."""

    @property
    def capacity(self) -> int:
        """How many attempts may run now."""

    def start(self, job: Job) -> None:
        """Begin an attempt and return at once."""

    def news(self, seconds: float) -> list[News]:
        """What was reported since the last call; waits for it, but not longer than `seconds`. Raises
        `EngineLost`."""

    def exhausted(self) -> bool:
        """Whether a request was refused because the budget is used up."""

    def stop(self) -> None:
        """Cancel what runs. Its news still come."""

    def close(self) -> None:
        """Let go of everything, on every machine."""
