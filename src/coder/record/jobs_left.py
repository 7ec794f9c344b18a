"""Which background jobs a session had when its process ended: they are gone, and its model may not know."""

from __future__ import annotations

from coder.protocol.entries import Job, Observation, TurnStart
from coder.protocol.history import HistoryEvent


class JobsLeft:
    """Built from the record, one event at a time. `running`: no end is recorded, the process was killed;
    `gone`: ended with the session; `untold`: ended, and no message or result has told of it. By id."""

    def __init__(self) -> None:
        self.running: dict[str, str] = {}
        self.gone: dict[str, str] = {}
        self.untold: dict[str, str] = {}
        self.highest = 0

    def take(self, event: HistoryEvent) -> None:
        match event.inner.entry:
            case Observation(background=True, job_id=job_id, command=command) if job_id.isdecimal():
                self.running[job_id] = command
                self.highest = max(self.highest, int(job_id))
        match event.entry:
            case Observation():  # what waited was told with it
                self.untold.clear()
            case TurnStart():
                self.untold.clear()
                self.gone.clear()
            case Job(state="ended") as job:
                self._ended(job, event.content)

    def _ended(self, job: Job, text: str) -> None:
        self.running.pop(job.job_id, None)
        if job.stopped_by == "session":
            self.gone[job.job_id] = job.command
        elif job.stopped_by != "model":
            self.untold[job.job_id] = text
