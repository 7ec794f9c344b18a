"""The engine for one machine: a thread for each attempt, which supervises a process."""

from __future__ import annotations

import threading
from functools import partial

from coder.batch.attempt import run_attempt
from coder.batch.channel import FromTask, Permit
from coder.batch.inbox import MOST_WAITING, Began, Ended, Inbox, News
from coder.batch.job import Job, Secrets
from coder.batch.limits import Limits
from coder.batch.nursery import Nursery


class LocalEngine:
    """`BatchEngine` with processes of this machine."""

    def __init__(self, batch: str, capacity: int, limits: Limits, secrets: Secrets) -> None:
        self._capacity = capacity
        self.nursery = Nursery(batch)
        self._secrets = secrets
        self._inbox = Inbox(limits)
        self._changed = threading.Condition()
        self._stop = threading.Event()
        self._threads: set[threading.Thread] = set()

    @property
    def capacity(self) -> int:
        return self._capacity

    def start(self, job: Job) -> None:
        thread = threading.Thread(target=self._attempt, args=(job,), name=job.key, daemon=True)
        self._threads.add(thread)
        thread.start()

    def _attempt(self, job: Job) -> None:
        why = ""
        with self._changed:
            self._inbox.put(News(job.key, job.attempt, Began()))
        try:
            take = partial(self._take, job.key, job.attempt)
            run_attempt(job, self._secrets, take, self._stop.is_set, self.nursery)
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
        with self._changed:
            self._inbox.put(News(job.key, job.attempt, Ended(why)))
            self._threads.discard(threading.current_thread())
            self._changed.notify_all()

    def _take(self, task: str, attempt: int, messages: list[FromTask]) -> list[Permit]:
        with self._changed:
            # Back-pressure; but a driver that failed takes nothing more.
            self._changed.wait_for(lambda: self._inbox.waiting < MOST_WAITING or self._stop.is_set())
            permits = self._inbox.take(task, attempt, messages)
            self._changed.notify_all()
        return permits

    def news(self, seconds: float) -> list[News]:
        with self._changed:
            self._changed.wait_for(lambda: self._inbox.urgent, seconds)
            news = self._inbox.drain()
            self._changed.notify_all()
        return news

    def exhausted(self) -> bool:
        return self._inbox.limits.exhausted

    def stop(self) -> None:
        with self._changed:
            self._stop.set()
            self._changed.notify_all()

    def close(self) -> None:
        self.stop()
        for thread in list(self._threads):
            thread.join()
        self.nursery.close()
