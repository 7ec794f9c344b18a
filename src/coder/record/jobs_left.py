"""Which background jobs a session had when its process ended: they are gone, and its model may not know."""

from __future__ import annotations

from typing import Any

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
        inner = event.meta.get("event")
        if event.type == "subagent" and isinstance(inner, dict) and isinstance(inner.get("meta"), dict):
            self._observed(str(inner.get("type")), inner["meta"])
            return
        self._observed(event.type, event.meta)
        if event.type == "job" and event.meta.get("state") == "ended":
            self._ended(str(event.meta.get("job_id")), event)
        elif event.type in ("observation", "turn_start"):  # what waited was told with it
            self.untold.clear()
            if event.type == "turn_start":
                self.gone.clear()

    def _observed(self, kind: str, meta: dict[str, Any]) -> None:
        job_id = str(meta.get("job_id") or "")
        if kind == "observation" and meta.get("background") and job_id.isdecimal():
            self.running[job_id] = str(meta.get("command", ""))
            self.highest = max(self.highest, int(job_id))

    def _ended(self, job_id: str, event: HistoryEvent) -> None:
        self.running.pop(job_id, None)
        if event.meta.get("stopped_by") == "session":
            self.gone[job_id] = str(event.meta.get("command", ""))
        elif event.meta.get("stopped_by") != "model":
            self.untold[job_id] = event.content
