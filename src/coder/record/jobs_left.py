"""Background jobs that a session had when its process ended, for the model of the resumed session."""

from __future__ import annotations

from coder.protocol.entries import Job, Observation, TurnStart
from coder.protocol.history import HistoryEvent


class JobsLeft:
    """Jobs by id, built from the record's events. `running`: no end is recorded, as after a kill; `gone`:
    ended with the session; `unreported`: ended, but no message to the model says so yet."""

    def __init__(self) -> None:
        self.running: dict[str, str] = {}
        self.gone: dict[str, str] = {}
        self.unreported: dict[str, str] = {}
        self.highest = 0

    def take(self, event: HistoryEvent) -> None:
        match event.inner.entry:
            case Observation(background=True, job_id=job_id, command=command) if job_id.isdecimal():
                self.running[job_id] = command
                self.highest = max(self.highest, int(job_id))
        match event.entry:
            case Observation():  # pending reports were delivered with it
                self.unreported.clear()
            case TurnStart():
                self.unreported.clear()
                self.gone.clear()
            case Job(state="ended") as job:
                self._ended(job, event.content)

    def _ended(self, job: Job, text: str) -> None:
        self.running.pop(job.job_id, None)
        if job.stopped_by == "session":
            self.gone[job.job_id] = job.command
        elif job.stopped_by != "model":
            self.unreported[job.job_id] = text
