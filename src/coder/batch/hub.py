"""What runs on the cluster: an actor that every attempt reports to, and the Ray task that makes an attempt.

The actor holds what is private (`Secrets`) and hands it to attempts on request, so that it is in no task's
arguments, runtime environment or name. Only attempts that it was told of may report: one whose worker Ray has
given up, but which still runs somewhere, is refused, and ends itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import msgspec

from coder.batch.attempt import Take, run_attempt
from coder.batch.channel import FromTask, Permit
from coder.batch.inbox import MOST_WAITING, Began, Ended, Inbox, News
from coder.batch.job import Job, Secrets
from coder.batch.limits import Limits
from coder.batch.mirror import Bundle
from coder.batch.nursery import Nursery

_GATHER = 0.02  # seconds

Supervise = Callable[[Job, Secrets, Take, Callable[[], bool], Callable[[], Bundle] | None], None]


class _Open(msgspec.Struct):
    """An attempt that may report. `job` until it has begun."""

    attempt: int
    job: Job | None


class Hub:
    """The actor. Its methods run in one event loop, so that nothing here needs a lock."""

    def __init__(self, limits: Limits) -> None:
        self._inbox = Inbox(limits)
        self._secrets = Secrets()
        self._open: dict[str, _Open] = {}
        self._changed = asyncio.Condition()
        self._stop = asyncio.Event()

    # for the driver

    async def keep(self, secrets: Secrets) -> None:
        self._secrets = secrets

    async def expect(self, jobs: list[Job]) -> None:
        for job in jobs:
            self._open[job.key] = _Open(job.attempt, job)

    async def news(self, lost: list[tuple[str, int, str]], seconds: float) -> tuple[list[News], bool]:
        """What was reported, after at most `seconds`; and whether the budget is used up. `lost`: attempts
        whose Ray task is over, with the reason; those that have reported their end are not lost."""
        for task, attempt, why in lost:
            self._end(task, attempt, why)
        async with self._changed:
            if not self._inbox.urgent:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(seconds):
                        await self._changed.wait_for(lambda: self._inbox.urgent)
        await asyncio.sleep(_GATHER)  # where many end at once, the driver is not woken for each
        async with self._changed:
            news = self._inbox.drain()
            self._changed.notify_all()
        return news, self._inbox.limits.exhausted

    async def stop(self) -> None:
        """Attempts that have begun stop; the others end here."""
        self._stop.set()
        for task, one in list(self._open.items()):
            if one.job is not None:
                self._end(task, one.attempt, "")
        await self._notify()

    # for attempts

    async def secrets(self) -> Secrets:
        return self._secrets

    async def begin(self, task: str, attempt: int, node: str) -> Job | None:
        """None: it is not wanted any more."""
        one = self._open.get(task)
        if one is None or one.attempt != attempt or one.job is None:
            return None
        job, one.job = one.job, None
        self._inbox.put(News(task, attempt, Began(node)))
        await self._notify()
        return job

    async def take(self, task: str, attempt: int, messages: list[FromTask]) -> list[Permit] | None:
        """The answers to its questions; None: it is not wanted any more."""
        async with self._changed:
            # Back-pressure; but a driver that failed takes nothing more.
            await self._changed.wait_for(lambda: self._inbox.waiting < MOST_WAITING or self._stop.is_set())
            one = self._open.get(task)
            if one is None or one.attempt != attempt:
                return None
            permits = self._inbox.take(task, attempt, messages)
            self._changed.notify_all()
        return permits

    async def end(self, task: str, attempt: int, why: str) -> None:
        self._end(task, attempt, why)
        await self._notify()

    async def stopped(self) -> None:
        """Answered when the batch is cancelled."""
        await self._stop.wait()

    def _end(self, task: str, attempt: int, why: str) -> None:
        one = self._open.get(task)
        if one is not None and one.attempt == attempt:
            del self._open[task]
            self._inbox.put(News(task, attempt, Ended(why)))

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()


# A worker process serves one batch, and asks once: for the secrets, and to be told of a cancel.
_once: list[tuple[Secrets, Any]] = []


def attempt_on_node(hub: Any, supervise: Supervise) -> Callable[[str, int, list[Any], None], None]:
    """The Ray task; `hub` and `supervise` are sent with it, once."""

    def run(task: str, attempt: int, bundle: list[Any], _expected: None) -> None:
        # In a thread, because Ray lends the core of a task whose main thread waits for an answer to the next
        # one, and would start a worker for that.
        words = (hub, task, attempt, bundle, supervise)
        thread = threading.Thread(target=_attempt, args=words, daemon=True)
        thread.start()
        thread.join()

    return run


def _attempt(hub: Any, task: str, attempt: int, bundle: list[Any], supervise: Supervise) -> None:
    """It raises nothing: what went wrong is told to the hub, not to Ray's logs."""
    import ray

    with contextlib.suppress(ray.exceptions.RayError):  # the hub is gone, and the driver with it
        job = ray.get(hub.begin.remote(task, attempt, ray.get_runtime_context().get_node_id()))
        if job is None:
            return
        if not _once:
            _once.append((ray.get(hub.secrets.remote()), hub.stopped.remote()))
        secrets, stop = _once[0]
        wanted = True

        def take(messages: list[FromTask]) -> list[Permit]:
            nonlocal wanted
            permits: list[Permit] | None = ray.get(hub.take.remote(task, attempt, messages))
            wanted = permits is not None
            return permits or []

        def stopping() -> bool:
            return not wanted or bool(ray.wait([stop], timeout=0)[0])

        why = ""
        try:
            supervise(job, secrets, take, stopping, partial(ray.get, bundle[0]) if bundle else None)
        except ray.exceptions.RayError:
            raise
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
        hub.end.remote(task, attempt, why)


def supervised(
    job: Job,
    secrets: Secrets,
    take: Take,
    stopping: Callable[[], bool],
    bundle: Callable[[], Bundle] | None,
) -> None:
    run_attempt(job, secrets, take, stopping, _nursery(job.settings.batch), bundle)


@cache
def _nursery(batch: str) -> Nursery:
    """One for each worker process; it ends when that does."""
    return Nursery(batch)
