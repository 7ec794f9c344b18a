"""Supervise one attempt: the function that both engines run, in a thread here and as a Ray task there.

It makes the attempt's directory, has a process forked for it, passes messages on, and removes everything
again: after the end, a cancel, and the death of the task process alike.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import select
import socket
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec

from coder import home_directory, probe
from coder.addons.batch.batch_directory import end_strays, remove_tree
from coder.addons.batch.channel import Done, FromTask, Incoming, Permit, Start, Stop, framed
from coder.addons.batch.fork_server import ForkServer, TaskProcess
from coder.addons.batch.inbox import MOST_WAITING, Began, Ended, Inbox, News
from coder.addons.batch.limits import Limits
from coder.addons.batch.mirror import Bundle, CheckoutError, Stopped, lay_out, mirror_for
from coder.addons.batch.task import Job, Outcome, Secrets

_TICK = 0.2  # seconds between looks at whether to stop; also how long messages are gathered
_OVERTIME = 60.0  # beyond its own time limit, for a task process that does not react
_HELD_UP = 1.0  # seconds for a look; more is the batch's own doing, as where Ctrl+Z stopped it
_STOP_SECONDS = 10.0  # from being asked to stop to being killed
_CHUNK = 1 << 18

Take = Callable[[list[FromTask]], list[Permit]]


def run_attempt(
    job: Job,
    secrets: Secrets,
    take: Take,
    stopping: Callable[[], bool],
    fork_server: ForkServer,
    bundle: Callable[[], Bundle] | None = None,
) -> None:
    """Run one attempt to its end. Its result is the `Done` among the messages; without one the attempt was
    lost. `bundle`: fetches the task's source from the machine that has it."""
    root = fork_server.root
    directory = root / "tasks" / f"{job.task.id}-{job.attempt}"
    process: TaskProcess | None = None
    try:
        mirror = mirror_for(job.task, fork_server, stopping, bundle)
        remove_tree(directory)
        directory.mkdir(mode=0o700, parents=True)
        if mirror.cut:
            lay_out(Path(mirror.cut), directory / "base")
            mirror = msgspec.structs.replace(mirror, path=str(directory / "base"))
        process = fork_server.spawn()
        start = Start(
            job=job,
            secrets=secrets,
            directory=str(directory),
            mirror=mirror.path,
            base=mirror.base,
            prefix=mirror.prefix,
            left_out=mirror.left_out,
            sandbox=_sandbox_cache(root),
            closed=_homes(),
            hidden=[str(root / "repos"), str(directory.parent), mirror.source, *job.settings.hidden],
        )
        process.channel.sendall(framed(start))
        _relay(process, job, take, stopping)
    except Stopped:
        pass
    except CheckoutError as error:
        take([Done(Outcome("setup_failed", error=str(error)))])
    finally:
        if process is not None and not process.end(_STOP_SECONDS):
            end_strays(directory)
        remove_tree(directory)


def _relay(process: TaskProcess, job: Job, take: Take, stopping: Callable[[], bool]) -> None:
    """Pass messages on until the process has ended."""
    incoming = Incoming()
    kill_at = time.monotonic() + 2 * (job.task.timeout_s or job.settings.timeout_s) + _OVERTIME
    stopped = False
    looked = time.monotonic()
    while looked < kill_at:
        if stopping() and not stopped:
            stopped = True
            kill_at = time.monotonic() + _STOP_SECONDS
            _send(process.channel, framed(Stop()))
        messages, ended = _gathered(process.channel, incoming)
        if messages:
            for permit in take(messages):
                kill_at += permit.wait  # for the batch's limits: no part of the task's own time
                _send(process.channel, framed(permit))
        if ended:
            return
        now = time.monotonic()
        kill_at += max(0.0, now - looked - _HELD_UP)
        looked = now
    if not stopped:
        take([Done(Outcome("timeout", error="the task process did not end"))])


def _gathered(channel: socket.socket, incoming: Incoming) -> tuple[list[FromTask], bool]:
    """What has arrived, after at most a tick; whether that was the end."""
    messages: list[FromTask] = []
    wait = _TICK
    while select.select([channel], [], [], wait)[0]:
        try:
            data = channel.recv(_CHUNK)
        except OSError:
            data = b""
        if not data:
            return messages, True
        messages += incoming.feed(data)
        wait = 0.0
        if len(messages) > 1000:
            break
    return messages, False


def _send(channel: socket.socket, data: bytes) -> None:
    with contextlib.suppress(OSError):  # it has ended: the next look at the channel says so
        channel.sendall(data)


def _homes() -> dict[str, str]:
    """`$HOME` of this process, and what the system says where that is another."""
    homes = {}
    with contextlib.suppress(KeyError):
        system = pwd.getpwuid(os.getuid()).pw_dir
        homes[system] = f"{system}/.coder"
    with contextlib.suppress(RuntimeError):
        homes[os.environ.get("HOME") or str(Path.home())] = str(home_directory(os.environ))
    return {home: own for home, own in homes.items() if Path(home).is_dir()}


def _sandbox_cache(root: Path) -> bytes:
    """Which sandbox works on this machine: tried once, not by every task."""
    file = root / "probe" / "sandbox.json"
    if not file.exists():
        with contextlib.suppress(OSError):
            probe(file.parent)
    try:
        return file.read_bytes()
    except OSError:
        return b""


class LocalEngine:
    """`BatchEngine` with processes of this machine."""

    def __init__(self, batch: str, capacity: int, limits: Limits, secrets: Secrets) -> None:
        self._capacity = capacity
        self.fork_server = ForkServer(batch)
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
            run_attempt(job, self._secrets, take, self._stop.is_set, self.fork_server)
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
        self.fork_server.close()
