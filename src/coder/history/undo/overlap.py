"""Sessions announce to each other when a command runs that undo covers: a change made while two of them run
cannot be attributed to either.

Each session has a directory in $CODER_HOME with an advisory lock held for the life of its process, so a
killed session is one whose lock is free. No session waits for another's command.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from shutil import rmtree

import msgspec

from coder.base.files import make_private, write_all
from coder.history.sinks import encode

BEAT_SECONDS = 1.0  # heartbeat interval: how exactly the end of a killed command is known
_WINDOW, _BEAT, _LOCK = "window", "beat", "lock"


class Overlap(msgspec.Struct, frozen=True):
    """A session whose command ran at the same time. `at`: when the overlap began; `ended`: its command has
    ended and is journalled; `under_way`: it had begun before ours."""

    session: str
    at: int
    ended: bool = False
    under_way: bool = False


class Opened(msgspec.Struct, array_like=True, frozen=True, tag="open"):
    """A covered command begins at `at` (nanoseconds)."""

    session: str
    turn: int
    command: str
    at: int


class _BaseSaved(msgspec.Struct, array_like=True, frozen=True, tag="noted"):
    """The state before the command is on disk."""


class _OverlapBegan(msgspec.Struct, array_like=True, frozen=True, tag="met"):
    """Another session's command began, or was already running since `under_way_since`."""

    session: str
    token: str
    at: int
    under_way_since: int = 0


class _OverlapEnded(msgspec.Struct, array_like=True, frozen=True, tag="left"):
    """That command has ended and is journalled."""

    token: str


Line = Opened | _BaseSaved | _OverlapBegan | _OverlapEnded


class Orphan:
    """The remains of a killed session, locked by us: `commands` ran until about `until`."""

    def __init__(self, directory: Path, descriptor: int) -> None:
        self.directory = directory
        self._descriptor = descriptor
        lines = _lines(descriptor)
        self.commands = [line for line in lines if isinstance(line, Opened)]
        # Otherwise the state on disk is that before an earlier command, which has been journalled.
        self.base_saved = any(isinstance(line, _BaseSaved) for line in lines)

    @property
    def overlaps(self) -> list[Overlap]:
        """Also those that began after the kill: the comparison sees their changes too."""
        return _overlaps(_lines(self._descriptor))

    @property
    def until(self) -> int:
        begun = max((command.at for command in self.commands), default=0)
        with contextlib.suppress(OSError):
            begun = max(begun, (self.directory / _BEAT).stat().st_mtime_ns)
        return begun + int(BEAT_SECONDS * 1e9)

    def discard(self) -> None:
        """Delete it, once recovered."""
        rmtree(self.directory, ignore_errors=True)
        self.release()

    def release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1


class CommandWindows:
    """One session's announcements. Never raises: without file locks, other sessions stay unknown."""

    def __init__(self, directory: Path, session: str) -> None:
        self._all = directory
        self._session = session
        self._token = f"{time.time_ns():x}-{os.urandom(4).hex()}"
        self.directory = directory / self._token
        self.others = False  # other sessions existed at the last `open`
        self._descriptor = -1
        self._heartbeat = _Heartbeat(self.directory / _BEAT)

    def open(self, turn: int, command: str) -> list[Orphan]:
        """Announce a command before it starts, and record those that run. Returns the orphans, each to one
        caller only."""
        now = time.time_ns()
        orphans: list[Orphan] = []
        with contextlib.suppress(OSError), self._exclusive():
            self._register()
            lines: list[Line] = [Opened(self._session, turn, command, now)]
            if not os.fstat(self._descriptor).st_size:
                running = self._scan_others(orphans)
                lines += [
                    _OverlapBegan(first.session, token, now, first.at) for token, first in running.items()
                ]
                for token in running:
                    self._notify(token, _OverlapBegan(self._session, self._token, now))
            _append(self._descriptor, *lines)
            self._heartbeat.start()
        return orphans

    def base_saved(self) -> None:
        """The state before the command is on disk, for recovery after a kill."""
        with contextlib.suppress(OSError):
            if self._descriptor >= 0:
                _append(self._descriptor, _BaseSaved())

    def orphans(self) -> list[Orphan]:
        """Claim the remains of killed sessions."""
        found: list[Orphan] = []
        with contextlib.suppress(OSError), self._exclusive():
            self._scan_others(found)
        return found

    def _scan_others(self, orphans: list[Orphan]) -> dict[str, Opened]:
        """The first running command of each other session, by token. Collects orphans on the way."""
        running: dict[str, Opened] = {}
        self.others = False
        with os.scandir(self._all) as found:
            others = [entry.name for entry in found if entry.name not in (self._token, _LOCK)]
        for token in others:
            try:
                descriptor = os.open(self._all / token / _WINDOW, os.O_RDWR | os.O_CLOEXEC)
            except OSError:
                continue
            if _lock(descriptor):
                orphan = Orphan(self._all / token, descriptor)
                if orphan.commands:
                    orphans.append(orphan)
                else:
                    orphan.discard()
                continue
            self.others = True
            opened = [line for line in _lines(descriptor) if isinstance(line, Opened)]
            if opened:
                running[token] = opened[0]
            os.close(descriptor)
        return running

    def overlaps(self) -> list[Overlap]:
        """Commands of other sessions that have run meanwhile."""
        return _overlaps(_lines(self._descriptor)) if self._descriptor >= 0 else []

    def close(self, *, journalled: bool = True) -> None:
        """The command has ended and, if `journalled`, its changes are in the journal."""
        self._heartbeat.stop()
        if self._descriptor < 0:
            return
        with contextlib.suppress(OSError), self._exclusive():
            running = {line.token for line in _lines(self._descriptor) if isinstance(line, _OverlapBegan)}
            os.ftruncate(self._descriptor, 0)
            ended = _OverlapEnded(self._token)
            for token in running if journalled else ():
                self._notify(token, ended)

    def _notify(self, token: str, line: Line) -> None:
        """Append a line for another session, unless its command has ended."""
        with contextlib.suppress(OSError):
            descriptor = os.open(self._all / token / _WINDOW, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
            try:
                if os.fstat(descriptor).st_size:
                    _append(descriptor, line)
            finally:
                os.close(descriptor)

    def unregister(self) -> None:
        self._heartbeat.end()
        if self._descriptor >= 0:
            rmtree(self.directory, ignore_errors=True)
            os.close(self._descriptor)
            self._descriptor = -1

    def _register(self) -> None:
        if self._descriptor >= 0:
            return
        self.directory.mkdir(mode=0o700, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        os.close(os.open(self.directory / _BEAT, flags, 0o600))
        descriptor = os.open(self.directory / _WINDOW, flags, 0o600)
        if not _lock(descriptor):
            os.close(descriptor)
            raise OSError("no locks here")
        self._descriptor = descriptor

    @contextlib.contextmanager
    def _exclusive(self) -> Iterator[None]:
        try:
            descriptor = os.open(self._all / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            make_private(self._all)
            descriptor = os.open(self._all / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)  # held for a few system calls, never for a command
            yield
        finally:
            os.close(descriptor)


class _Heartbeat:
    """Heartbeat: touches a file while a command runs, so that a killed session's end is known."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._beating = threading.Event()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._beating.set()
        if self._thread is None:
            self._thread = threading.Thread(target=self._beat, name="undo-pulse", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        self._beating.clear()

    def end(self) -> None:
        self._ended.set()
        self._beating.set()
        if self._thread is not None:
            self._thread.join()

    def _beat(self) -> None:
        while self._beating.wait() and not self._ended.wait(BEAT_SECONDS):
            if self._beating.is_set():
                with contextlib.suppress(OSError):
                    os.utime(self._file)


def _lock(descriptor: int) -> bool:
    """Try to take the lock; False where a live process holds it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _append(descriptor: int, *lines: Line) -> None:
    write_all(descriptor, b"".join(encode(line) + b"\n" for line in lines))


def _lines(descriptor: int) -> list[Line]:
    found: list[Line] = []
    decoder = msgspec.json.Decoder(Line)
    for line in os.pread(descriptor, 1 << 20, 0).splitlines():
        with contextlib.suppress(msgspec.DecodeError):  # torn by a kill
            found.append(decoder.decode(line))
    return found


def _overlaps(lines: list[Line]) -> list[Overlap]:
    """One per session, which may have begun and ended commands several times."""
    began: dict[str, list[_OverlapBegan]] = {}
    for line in lines:
        if isinstance(line, _OverlapBegan):
            began.setdefault(line.token, []).append(line)
    ended = [line.token for line in lines if isinstance(line, _OverlapEnded)]
    return [
        Overlap(
            times[0].session, times[0].at, ended.count(token) >= len(times), bool(times[0].under_way_since)
        )
        for token, times in began.items()
    ]
