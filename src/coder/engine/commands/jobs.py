"""`/ps` and `/stop`: the background jobs of this session."""

from __future__ import annotations

from coder.engine.agent import Agent
from coder.engine.commands.modes import Reply
from coder.process.background import Job
from coder.texts import Joined, Phrase, Said

_ENDED_SHOWN = 10
_LINE = 120  # characters of a command or an output line


async def ps_command(agent: Agent, args: str) -> Reply:
    jobs = list(agent.session.jobs)
    ended = [job for job in jobs if not job.running][-_ENDED_SHOWN:]
    shown = [*(job for job in jobs if job.running), *ended]
    if not shown:
        return Reply(Phrase("job.none"))
    return Reply(Joined(map(_line, shown)), data={"jobs": [job.id for job in shown]})


def _line(job: Job) -> Said:
    seconds = _time(job.seconds)
    if job.running:
        state = Phrase("job.runs", time=seconds)
    elif job.stopped_by:
        state = Phrase("job.was_stopped", time=seconds)
    else:
        state = Phrase("job.has_ended", time=seconds, code=job.exit_code)
    last = job.recent(1)[:_LINE]
    text = f"{job.id}  " + state + f"  {' '.join(job.command.split())[:_LINE]}"
    return text + f"\n   {last}" if last else text


def _time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


async def stop_command(agent: Agent, args: str) -> Reply:
    jobs = agent.session.jobs
    wanted = jobs.running
    if args:
        found = jobs.get(args.strip().removeprefix("job").strip())
        if found is None:
            ids = ", ".join(job.id for job in wanted)
            text = Phrase("job.no_such", id=args, ids=ids) if ids else Phrase("job.none_running")
            return Reply(text, ok=False, data={"usage": True})
        wanted = [found] if found.running else []
    if not wanted:
        return Reply(Phrase("job.none_running"))
    for job in wanted:
        job.stop("person")
    names = ", ".join(f"{job.id} ({job.command})" for job in wanted)
    return Reply(Phrase("job.stopped", jobs=names), data={"stopped": [job.id for job in wanted]})
