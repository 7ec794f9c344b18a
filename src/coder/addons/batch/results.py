"""The files of a batch's output directory.

`results.jsonl` is append-only and fsync'd, one row for each attempt that ran to its end; a task's last row
counts. A row is written after the files that it names, so that a row on disk means that they are there too.
`attempts.jsonl` has a line when an attempt starts, and one when it is lost, with what it had cost; and what
counts for the budget without being in a row.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from coder.addons.batch.task import Check, Outcome, succeeded
from coder.addons.batch.task_file import BatchError
from coder.base.files import write_all, write_atomically

RESULTS, ATTEMPTS, STATUS, LOCK = "results.jsonl", "attempts.jsonl", "status.json", "batch.lock"
PATCH, RECORD, ANSWER, PAGE = "patch.diff", "record.jsonl", "answer.md", "record.html"

_IGNORED = "*\n"  # in the `.gitignore` of a folder that was empty when its first batch began

# No links: a project may bring a directory with the name that `--out` gives, and links in it to elsewhere.
_APPEND = os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW


class Row(msgspec.Struct, frozen=True):
    """A line of `results.jsonl`. `patch`, `record` and `answer` are paths in the output, or empty."""

    id: str
    attempt: int
    status: str
    verification: dict[str, Any] = {}
    check: Check = Check()
    tokens: dict[str, int] = {}
    cost: float | None = None
    duration: float = 0.0
    patch: str = ""
    record: str = ""
    answer: str = ""
    steps: int = 0
    model: str = ""
    mode: str = ""
    error: str = ""
    note: str = ""
    base: str = ""
    session_id: str = ""
    additions: int = 0
    deletions: int = 0
    files: int = 0
    ended: str = ""

    @property
    def success(self) -> bool:
        return succeeded(self.status, self.check.status, str(self.verification.get("status", "")))

    @classmethod
    def of(cls, task: str, attempt: int, outcome: Outcome, directory: Path) -> Row:
        fields = {name: getattr(outcome, name) for name in outcome.__struct_fields__ if name != "final"}
        files: dict[str, Any] = {
            field: f"{task}/{name}" if _has_content(directory / task / name) else ""
            for field, name in (("patch", PATCH), ("record", RECORD), ("answer", ANSWER))
        }
        return cls(id=task, attempt=attempt, ended=timestamp(), **fields, **files)


class _Attempt(msgspec.Struct, omit_defaults=True):
    """A line of `attempts.jsonl`: of a start, of a loss, of what requests under way may cost (`held`), or of
    what an attempt counts for beyond the cost in its row."""

    id: str
    attempt: int
    ts: str = ""
    lost: str = ""
    cost: float = 0.0
    held: float = 0.0
    beyond: float = 0.0


class OutputDirectory:
    """The output directory while a batch runs; its lock keeps a second driver out."""

    def __init__(self, directory: Path) -> None:
        """Raises `BatchError`."""
        self.path = directory
        try:
            directory.mkdir(parents=True, exist_ok=True)
            if not any(directory.iterdir()):
                # Where it lies in a task's `cwd`: what other tasks did is not shown to this one.
                (directory / ".gitignore").write_text(_IGNORED, encoding="utf-8")
            self._open = [_locked(directory)]
        except BlockingIOError:
            raise BatchError("batch.locked", directory=directory) from None
        except OSError as error:
            raise BatchError("batch.no_out", directory=directory, why=error.strerror) from None
        try:
            self._results = self._opened(RESULTS)
            self._attempts = self._opened(ATTEMPTS)
        except OSError as error:
            self.close()
            raise BatchError("batch.no_out", directory=error.filename, why=error.strerror) from None

    @property
    def has_results_alone(self) -> bool:
        """Not where the person named a folder with other things in it."""
        try:
            return (self.path / ".gitignore").read_text(encoding="utf-8") == _IGNORED
        except (OSError, UnicodeDecodeError):
            return False

    def _opened(self, name: str) -> int:
        """To read and append; without a last line that a kill cut off."""
        path = self.path / name
        # Not waiting for the other end of a pipe that bears the name.
        descriptor = os.open(path, _APPEND | os.O_RDWR | os.O_NONBLOCK, 0o644)
        self._open.append(descriptor)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
        _drop_torn_tail(descriptor)
        return descriptor

    def close(self) -> None:
        with contextlib.suppress(OSError):
            (self.path / LOCK).unlink()
        for descriptor in reversed(self._open):
            os.close(descriptor)

    def append(self, rows: Sequence[Row]) -> None:
        """Group commit: however many tasks have ended, one fsync."""
        if rows:
            write_all(self._results, b"".join(msgspec.json.encode(row) + b"\n" for row in rows))
            os.fsync(self._results)

    def started(self, task: str, attempt: int) -> None:
        """Durable against a kill of this process; a crash of the machine loses at most the count."""
        directory = self.path / task
        directory.mkdir(exist_ok=True)
        if directory.is_symlink():
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(directory))
        for name in (PATCH, RECORD, ANSWER, PAGE):
            (directory / name).unlink(missing_ok=True)
        self._note(_Attempt(task, attempt, ts=timestamp()))

    def lost(self, task: str, attempt: int, why: str, cost: float) -> None:
        self._note(_Attempt(task, attempt, lost=why, cost=cost))

    def held(self, task: str, attempt: int, usd: float) -> None:
        self._note(_Attempt(task, attempt, held=usd))

    def beyond(self, task: str, attempt: int, usd: float) -> None:
        self._note(_Attempt(task, attempt, beyond=usd))

    def _note(self, line: _Attempt) -> None:
        write_all(self._attempts, msgspec.json.encode(line) + b"\n")

    def grow(self, task: str, name: str, data: bytes, *, whole: bool) -> None:
        """Append to a task's file, or replace it."""
        if name not in (PATCH, RECORD, ANSWER, PAGE):  # a machine of the cluster says so
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), name)
        path = self.path / task / name
        if whole:
            write_atomically(path, data, 0o644, beside=f".{name}.tmp")
        else:
            descriptor = os.open(path, _APPEND | os.O_WRONLY, 0o600)  # as a session's record
            try:
                write_all(descriptor, data)
            finally:
                os.close(descriptor)


def _locked(directory: Path) -> int:
    """Raises `BlockingIOError` where another driver has it."""
    path = directory / LOCK
    while True:
        descriptor = os.open(path, _APPEND | os.O_RDWR, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Its last owner removes the file: we may have opened that one just before.
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(path.stat(), os.fstat(descriptor)):
                    return descriptor
        except OSError:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _has_content(path: Path) -> bool:
    try:
        return path.stat().st_size > 0
    except OSError:
        return False


def timestamp() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def read_rows(directory: Path) -> Iterator[Row]:
    """Rows in the order written; a torn last line is skipped. Raises `BatchError` if there are none."""
    try:
        file = (directory / RESULTS).open("rb")
    except OSError as error:
        raise BatchError("batch.no_results", directory=directory, why=error.strerror) from None
    decoder = msgspec.json.Decoder(Row)
    with file:
        for line in file:
            if line.endswith(b"\n"):
                with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                    yield decoder.decode(line)


def final_rows(directory: Path) -> dict[str, Row]:
    """The last row of every task, in the order written, without what its check printed: of 100,000 that is a
    gigabyte."""
    found: dict[str, Row] = {}
    for row in read_rows(directory):
        found.pop(row.id, None)
        check = Check(row.check.status, row.check.exit_code)
        found[row.id] = msgspec.structs.replace(row, check=check, verification=_brief(row.verification))
    return found


def _brief(verification: dict[str, Any]) -> dict[str, Any]:
    return {"status": verification["status"]} if "status" in verification else {}


class Attempts(msgspec.Struct):
    """What `attempts.jsonl` says: attempts so far by task, costs that are in no row, which attempts never
    ended, and what their requests may have cost."""

    count: dict[str, int]
    lost_cost: float
    open: dict[str, int]
    held: dict[str, float]


def read_attempts(directory: Path) -> Attempts:
    found = Attempts({}, 0.0, {}, {})
    decoder = msgspec.json.Decoder(_Attempt)
    with contextlib.suppress(OSError), (directory / ATTEMPTS).open("rb") as file:
        for line in file:
            with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError):
                one = decoder.decode(line)
                if one.lost:
                    found.lost_cost += one.cost
                    found.open.pop(one.id, None)
                elif one.held or one.beyond:
                    found.lost_cost += one.beyond
                    found.held[one.id] = max(one.held, found.held.get(one.id, 0.0))
                else:
                    found.count[one.id] = max(one.attempt, found.count.get(one.id, 0))
                    found.open[one.id] = one.attempt
                    found.held.pop(one.id, None)
    return found


class _Meta(msgspec.Struct):
    cost_usd: float | None = None


class _Entry(msgspec.Struct):
    """As much of a line of the record as costs something."""

    type: str = ""
    meta: _Meta = msgspec.field(default_factory=_Meta)


def recorded_cost(path: Path) -> float:
    """What the requests in a record cost, for an attempt that never reported."""
    total = 0.0
    decoder = msgspec.json.Decoder(_Entry)
    with contextlib.suppress(OSError), path.open("rb") as file:
        for line in file:
            with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError):
                entry = decoder.decode(line)
                if entry.type in ("assistant", "usage"):
                    total += entry.meta.cost_usd or 0.0
    return total


def is_running(directory: Path) -> bool:
    """Whether a driver holds the directory's lock."""
    try:
        descriptor = os.open(directory / LOCK, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def _drop_torn_tail(descriptor: int) -> None:
    """Truncate a last line that a kill cut off: its attempt counts as not ended."""
    size = os.fstat(descriptor).st_size
    end = size
    while end > 0:
        start = max(0, end - 65536)
        at = os.pread(descriptor, end - start, start).rfind(b"\n")
        if at >= 0:
            end = start + at + 1
            break
        end = start
    if end != size:
        os.ftruncate(descriptor, end)


Stopped = Literal["", "interrupted", "cancelled", "budget", "time", "engine"]


class Running(msgspec.Struct, frozen=True):
    """An attempt that runs."""

    id: str
    attempt: int
    seconds: float
    requests: int = 0
    cost: float = 0.0


class Progress(msgspec.Struct):
    """`ran`: tasks that this run of the batch finished; `stopped`: why it starts no more."""

    total: int
    done: int = 0
    succeeded: int = 0
    ran: int = 0
    lost: int = 0
    tokens: int = 0
    cost: float = 0.0
    tokens_per_second: float = 0.0
    elapsed: float = 0.0
    seconds_left: float | None = None
    stopped: Stopped = ""
    ended: bool = False
    running: list[Running] = []
    waiting: int = 0  # for a node of the cluster
    dearest: float = 0.0  # what one request has cost at most
    throttled: int = 0  # requests that a provider answered with 429
    pid: int = msgspec.field(default_factory=os.getpid)

    @property
    def failed(self) -> int:
        return self.done - self.succeeded


def write_status(directory: Path, progress: Progress) -> None:
    write_atomically(directory / STATUS, msgspec.json.encode(progress), 0o644, beside=f".{STATUS}.tmp")


class Status(msgspec.Struct, frozen=True):
    progress: Progress
    alive: bool  # whether its driver runs


def dearest_so_far(directory: Path) -> float:
    """Of the runs of the batch that there were."""
    try:
        return read_status(directory).progress.dearest
    except BatchError:
        return 0.0


def read_status(directory: Path) -> Status:
    """Raises `BatchError` where there is no batch."""
    try:
        progress = msgspec.json.decode((directory / STATUS).read_bytes(), type=Progress)
    except OSError as error:
        raise BatchError("batch.no_status", directory=directory, why=error.strerror) from None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BatchError("batch.no_status", directory=directory, why=str(error)) from None
    return Status(progress, is_running(directory))
