"""The engine for a Ray cluster. Ray runs and places the attempts; the driver's own loop retries lost ones.

The driver's `coder` is shipped as a runtime environment. What it depends on is installed by Ray only where a
node does not have it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Mapping
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

import coder
from coder import install_line, requirements
from coder.addons.batch.attempt import Take, run_attempt
from coder.addons.batch.channel import Done, FromTask, Permit
from coder.addons.batch.driver import EngineLost
from coder.addons.batch.fork_server import ForkServer
from coder.addons.batch.inbox import MOST_WAITING, Began, Ended, Inbox, News
from coder.addons.batch.limits import Limits
from coder.addons.batch.mirror import Bundle, CheckoutError, Killed, bundle_of
from coder.addons.batch.task import Job, Outcome, Secrets
from coder.addons.batch.task_file import BatchError, Task, is_url

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
def _nursery(batch: str) -> ForkServer:
    """One for each worker process; it ends when that does."""
    return ForkServer(batch)


_CAPACITY_EVERY = 5.0  # seconds between looks at how large the cluster is
_OVER_EVERY = 0.5  # seconds between looks for attempts that Ray has lost
_CANCEL_SECONDS = 30.0  # for attempts to end by themselves, before their workers are killed
_REACH_SECONDS = 10.0
_MOST_WORKERS = 100_000  # waiting calls that the hub takes


class RayEngine:
    """`BatchEngine` with tasks of a Ray cluster."""

    def __init__(
        self,
        batch: str,
        address: str,
        jobs: int,
        limits: Limits,
        secrets: Secrets,
        *,
        cpus: float = 1.0,
        memory: int = 1 << 30,
        supervise: Supervise = supervised,
    ) -> None:
        """Raises `BatchError` where there is no cluster."""
        self._ray = _connected(address)
        self._jobs = jobs
        self._demand = {"CPU": cpus, "memory": float(memory)}
        self._starting: list[Job] = []
        self._tasks: dict[str, tuple[int, Any]] = {}  # attempt and reference, by id
        self._bundles: dict[tuple[str, bool], Any] = {}
        self._nursery = ForkServer(batch)
        self._exhausted = False
        self._looked = self._asked = -_CAPACITY_EVERY
        self._capacity = 1
        try:
            needed = self._ask_nodes(secrets.config)
            environment = {"pip": needed} if needed else {}
            self._hub = self._start_hub(limits, environment)
            self._get(self._hub.keep.remote(secrets))
            # Once, and with one name for all: Ray keeps every function and counts by every name it is given.
            self._run = self._ray.remote(attempt_on_node(self._hub, supervise)).options(
                name="coder", num_cpus=cpus, memory=memory, max_retries=0, runtime_env=environment
            )
        except BaseException:
            self._disconnect()
            raise

    # starting

    def _ask_nodes(self, config: Mapping[str, Any]) -> list[str]:
        """coder's dependencies if a node lacks some. Raises `BatchError` if commands could leave their
        sandbox by a node that asks for no token.
        """
        required = requirements()

        # Nested, so that it is shipped by value: a node that lacks packages cannot import this module.
        def lacking(lines: list[str]) -> tuple[list[str], bool]:
            from importlib.metadata import PackageNotFoundError, version

            from packaging.requirements import Requirement  # comes with Ray

            found = []
            for line in lines:
                needed = Requirement(line)
                if needed.marker is not None and not needed.marker.evaluate():
                    continue
                try:
                    fits = needed.specifier.contains(version(needed.name), prereleases=True)
                except PackageNotFoundError:
                    fits = False
                if not fits:
                    found.append(line)
            return found, os.environ.get("RAY_AUTH_MODE") == "token"

        asked = [
            self._ray.remote(lacking).options(num_cpus=0, scheduling_strategy=self._on(node["NodeID"]))
            for node in self._ray.nodes()
            if node["Alive"]
        ]
        answers = []
        for answer in [one.remote(required) for one in asked]:
            with contextlib.suppress(self._ray.exceptions.RayError):  # of a node that dies meanwhile
                answers.append(self._ray.get(answer))
        if _may_connect(config) and not all(guarded for _, guarded in answers):
            raise BatchError("batch.open_cluster")
        return required if any(missing for missing, _ in answers) else []

    def _on(self, node: str) -> Any:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        return NodeAffinitySchedulingStrategy(node_id=node, soft=False)

    def _start_hub(self, limits: Limits, environment: dict[str, Any]) -> Any:
        """On the driver's node (with a client: on the head), whose end is the driver's end too."""
        here = self._on(self._ray.get_runtime_context().get_node_id())
        actor = self._ray.remote(Hub).options(
            num_cpus=0, max_concurrency=_MOST_WORKERS, scheduling_strategy=here, runtime_env=environment
        )
        return actor.remote(limits)

    @property
    def capacity(self) -> int:
        if self._jobs:
            return self._jobs
        if time.monotonic() - self._looked >= _CAPACITY_EVERY:
            self._looked = time.monotonic()
            has = self._ray.cluster_resources()
            fits = (has.get(name, 0) // needed for name, needed in self._demand.items() if needed)
            count = max(1, int(min(fits, default=1)))
            # A few more than fit, so that a worker that is done can take the next one at once. Not many: Ray
            # looks for a node for what waits again and again.
            self._capacity = count + 1 + count // 8
        return self._capacity

    def start(self, job: Job) -> None:
        self._starting.append(job)

    def _submit(self) -> list[News]:
        jobs, self._starting = self._starting, []
        if not jobs:
            return []
        refused: list[News] = []
        ready: list[tuple[Job, list[Any]]] = []
        for job in jobs:
            try:
                ready.append((job, self._bundle(job.task)))
            except Killed as error:
                refused.append(News(job.key, job.attempt, Ended(str(error))))
            except (CheckoutError, OSError) as error:
                done = Done(Outcome("setup_failed", error=str(error)))
                refused += [News(job.key, job.attempt, what) for what in (done, Ended())]
        expected = self._hub.expect.remote([job for job, _ in ready])
        for job, bundle in ready:
            self._tasks[job.key] = job.attempt, self._run.remote(job.key, job.attempt, bundle, expected)
        return refused

    def _bundle(self, task: Task) -> list[Any]:
        """A reference to the repository in the object store where the source is a path of this machine."""
        if task.repo and is_url(task.repo):
            return []
        key = task.source, bool(task.cwd and not task.ref)
        if key not in self._bundles:
            bundle = bundle_of(task, self._nursery, lambda: False)
            self._bundles[key] = self._ray.put(bundle)
        return [self._bundles[key]]

    # news

    def news(self, seconds: float) -> list[News]:
        refused = self._submit()
        news, self._exhausted = self._get(self._hub.news.remote(self._over(), 0 if refused else seconds))
        for one in news:
            if isinstance(one.what, Ended):
                self._tasks.pop(one.task, None)
        return [*refused, *news]

    def _over(self) -> list[tuple[str, int, str]]:
        """Ray tasks that are over. Those that ended well have reported that before, so this is not asked for
        every result: with many at once it takes long."""
        if time.monotonic() - self._asked < _OVER_EVERY:
            return []
        self._asked = time.monotonic()
        references = {reference: task for task, (_, reference) in self._tasks.items()}
        if not references:
            return []
        over, _ = self._ray.wait(list(references), num_returns=len(references), timeout=0, fetch_local=False)
        found = []
        for reference in over:
            task = references[reference]
            found.append((task, self._tasks[task][0], self._why(reference)))
        return found

    def _why(self, reference: Any) -> str:
        try:
            self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            return f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"
        return ""

    def exhausted(self) -> bool:
        return self._exhausted

    # the end

    def stop(self) -> None:
        self._get(self._hub.stop.remote())

    def close(self) -> None:
        with contextlib.suppress(EngineLost):
            self.stop()
            waiting = [reference for _, reference in self._tasks.values()]
            if waiting:
                self._ray.wait(waiting, num_returns=len(waiting), timeout=_CANCEL_SECONDS, fetch_local=False)
        self._disconnect()

    def _disconnect(self) -> None:
        """Ends the job: Ray kills its workers, and with them goes what they started."""
        self._ray.shutdown()
        self._nursery.close()

    def _get(self, reference: Any) -> Any:
        try:
            return self._ray.get(reference)
        except (self._ray.exceptions.RayError, ConnectionError) as error:
            why = str(error).strip().splitlines()
            raise EngineLost("batch.cluster_gone", why=why[0] if why else type(error).__name__) from None


def _may_connect(config: Mapping[str, Any]) -> bool:
    """Whether commands of tasks could reach the cluster, and submit jobs that run outside their sandbox."""
    sandbox = config.get("sandbox", {})
    return sandbox.get("network", True) is True and sandbox.get("mode") != "off"


def _connected(address: str) -> Any:
    """The `ray` module, connected as a job with this coder as its runtime environment."""
    try:
        import ray
    except ImportError:
        raise BatchError("batch.no_ray", line=install_line("ray")) from None

    if address == "auto" and not os.environ.get("RAY_ADDRESS"):
        address = _own_cluster()
    _reach(address)
    environment = {
        "py_modules": [str(Path(coder.__file__).parent)],
        "excludes": ["__pycache__"],
        # Ray would kill the fork server with its worker, before it has ended and removed what it started.
        "env_vars": {"RAY_kill_child_processes_on_worker_exit": "false"},
    }
    try:
        with contextlib.chdir("/"):  # first on the path of Ray's workers: no project's
            ray.init(
                address=address,
                runtime_env=environment,
                namespace="coder",
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
    except (ConnectionError, ValueError, RuntimeError, ray.exceptions.RayError) as error:
        # Without the traceback that the client server puts before its own words.
        why = " ".join(str(error).rpartition("Error: ")[2].split()) or type(error).__name__
        raise BatchError("batch.no_cluster", address=address, why=why) from None
    return ray


def _own_cluster() -> str:
    """Raises `BatchError` unless there is exactly one."""
    match sorted(own_clusters()):
        case [address]:
            return address
        case []:
            raise BatchError("batch.no_own_cluster")
        case several:
            raise BatchError("batch.several_clusters", addresses=", ".join(several))


def own_clusters() -> set[str]:
    """The clusters that Ray nodes of this user or of root on this machine belong to. Ray's own `auto` would
    also take the address that another user's process or file names, and with it our keys there.
    """
    found: set[str] = set()
    for process in import_module("psutil").process_iter(["uids", "cmdline"]):  # Ray's own copy
        words, uids = process.info["cmdline"], process.info["uids"]
        # The real user: anybody may start a setuid program under any name.
        if words and uids and Path(words[0]).name == "raylet" and uids.real in (0, os.getuid()):
            found.update(re.findall(r"--gcs-address=([^\s'\"]+:\d+)", " ".join(words)))
    return found


def _reach(address: str) -> None:
    """Ray itself tries an address for minutes, and tells it in its log."""
    found = re.fullmatch(r"(?:ray://)?(?P<host>[^/]+):(?P<port>\d+)/?", address)
    if found is None:
        if address == "auto":
            return
        raise BatchError("batch.address", address=address)
    try:
        with socket.create_connection((found["host"].strip("[]"), int(found["port"])), _REACH_SECONDS):
            pass
    except (OSError, OverflowError) as error:
        raise BatchError("batch.no_cluster", address=address, why=str(error)) from None
