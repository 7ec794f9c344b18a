"""Background jobs, in English."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "job.count": "{n} jobs",
    "job.count.one": "1 job",
    "job.ended": "Job {id} ended with exit code {code}: {command}",
    "job.ended_with_session": "Ended with the session: job {jobs}.",
    "job.gone": "Background jobs ended with the earlier process: {jobs}.",
    "job.has_ended": "ended, exit {code}, after {time}",
    "job.no_such": "There is no job {id}; running: {ids}.",
    "job.none": "There are no background jobs in this session.",
    "job.none_running": "No background job is running.",
    "job.runs": "running {time}",
    "job.still_running": "Still running in the background: job {jobs}. /stop ends it.",
    "job.stopped": "Stopped: job {jobs}.",
    "job.uncovered": "/undo does not cover what a background job changes after its start.",
    "job.was_stopped": "stopped after {time}",
}
