"""Sessions announce their running commands: a change made while two of them run may be of either.

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


class Opened(msgspec.Struct, array_like=True, frozen=True, tag="open"):
    """A covered command begins at `at` (nanoseconds). `beside`: a command of another session was running."""

    session: str
    turn: int
    command: str
    at: int
    beside: bool = False


class _BaseSaved(msgspec.Struct, array_like=True, frozen=True, tag="noted"):
    """The state before the command is on disk."""


AnnouncementLine = Opened | _BaseSaved


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
        os.close(self._descriptor)


class RunningCommands:
    """One session's announcements. Never raises: without file locks, other sessions stay unknown."""

    def __init__(self, directory: Path, session: str) -> None:
        self._all = directory
        self._session = session
        self._token = f"{time.time_ns():x}-{os.urandom(4).hex()}"
        self.directory = directory / self._token
        self.others = False  # other sessions existed at the last scan
        self._claimed: set[str] = set()  # orphans
        self._beside = False
        self._descriptor = -1
        self._heartbeat = _Heartbeat(self.directory / _BEAT)

    def open(self, turn: int, command: str) -> list[Orphan]:
        """Announce a command before it starts. Returns the orphans, each to one caller only."""
        orphans: list[Orphan] = []
        with contextlib.suppress(OSError), self._exclusive():
            self._register()
            running = self._scan_others(orphans)
            self._beside = running or (self._beside and os.fstat(self._descriptor).st_size > 0)
            line = Opened(self._session, turn, command, time.time_ns(), self._beside)
            _append(self._descriptor, line)
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

    def beside_another(self) -> bool:
        """Whether another session's command was running when ours began, or is running now."""
        with contextlib.suppress(OSError):
            self._beside = self._scan_others(None) or self._beside
        return self._beside

    def _scan_others(self, orphans: list[Orphan] | None) -> bool:
        """Whether another session runs a command. Orphans are collected, or counted as running."""
        running = self.others = False
        with os.scandir(self._all) as found:
            others = [entry.name for entry in found if entry.name not in {self._token, _LOCK, *self._claimed}]
        for token in others:
            try:
                descriptor = os.open(self._all / token / _WINDOW, os.O_RDWR | os.O_CLOEXEC)
            except OSError:
                continue
            if orphans is not None and _lock(descriptor):
                self._claimed.add(token)
                orphan = Orphan(self._all / token, descriptor)
                if orphan.commands:
                    orphans.append(orphan)
                else:
                    orphan.discard()
                continue
            self.others = True
            running = running or os.fstat(descriptor).st_size > 0
            os.close(descriptor)
        return running

    def close(self, *, journalled: bool = True) -> None:
        """The command has ended. Unless its changes are `journalled`, it counts as running until the next."""
        self._heartbeat.stop()
        if self._descriptor >= 0 and journalled:
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, 0)

    def unregister(self) -> None:
        self._heartbeat.end()
        if self._descriptor >= 0:
            if not os.fstat(self._descriptor).st_size:  # otherwise another session may recover it
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
        make_private(self._all)
        descriptor = os.open(self._all / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)  # held for a few system calls, never for a command
            yield
        finally:
            os.close(descriptor)


class _Heartbeat:
    """Touches a file while a command runs, so that a killed session's end is known."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._beating = threading.Event()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._beating.set()
        if self._thread is None:
            self._thread = threading.Thread(target=self._beat, name="undo-heartbeat", daemon=True)
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
    """Try to take the lock; False if a live process holds it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _append(descriptor: int, line: AnnouncementLine) -> None:
    write_all(descriptor, encode(line) + b"\n")


def _lines(descriptor: int) -> list[AnnouncementLine]:
    found: list[AnnouncementLine] = []
    decoder = msgspec.json.Decoder(AnnouncementLine)
    for line in os.pread(descriptor, 1 << 20, 0).splitlines():
        with contextlib.suppress(msgspec.DecodeError):  # torn by a kill
            found.append(decoder.decode(line))
    return found
