"""A child process that this process owns: its pipes, its exit, its process group and what escaped the group.

The child leads its own session, so that one signal to its process group reaches its descendants. Whoever
creates a `Child` must call `end`: afterwards nothing of it is left. The event loop watches the pipes and a
pidfd; no polling, and no threads but those of a mediated line (and one that waits where there is no pidfd).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from coder.base.process.own_process import harden_process
from coder.base.process.programs import DEVNULL, PIPE, HeldLine, Prepared, Runs, start

MARK = "CODER_COMMAND"  # environment variable that identifies a child's orphans
STDOUT, STDERR = 1, 2
_TERM_GRACE = 0.04  # seconds between SIGTERM and SIGKILL: a cancel is done within 100 ms
_DRAIN_READS = 16  # of at most 64 KiB each, a pipe's capacity
_SUPERVISOR_GRACE = 2.0  # seconds to clean up after its command; normally milliseconds
_ROUNDS = 100  # each may reparent to us the children of what it killed

_owned: set[int] = set()  # children of other owners, who reap them themselves


class Supervised(Prepared):
    """A line whose leader is a supervisor (subreaper), which must not be killed before it has cleaned up."""


class Child:
    """One running program. `sink` gets its output by stream, and empty bytes at the end of each."""

    def __init__(
        self,
        argv: list[str],
        *,
        runs: Runs,
        cwd: Path,
        environment: Mapping[str, str],
        sink: Callable[[int, bytes], None],
        with_stdin: bool = False,
        given: bytes = b"",
    ) -> None:
        """Start `argv`, with empty stdin by default, or with `given` as stdin. Raises OSError."""
        self.loop = asyncio.get_running_loop()
        self.exited = asyncio.Event()
        self.drained = asyncio.Event()  # both streams at EOF
        self.stdin = -1
        self._sink = sink
        self._mark = os.urandom(8).hex()
        self._has_supervisor = isinstance(argv, Supervised)
        self._line = argv
        harden_process()
        # A plain Popen uses vfork, and the loop watches pipes and pidfd itself: a third of the cost of
        # asyncio's subprocesses.
        with _stdin(given, with_stdin=with_stdin) as stdin:
            self._popen = start(
                argv,
                runs=runs,
                environment={**environment, MARK: self._mark},
                bufsize=0,
                cwd=cwd,
                stdin=stdin,
                stdout=PIPE,
                stderr=PIPE,
                start_new_session=True,
            )
        self.pid = self._popen.pid
        _owned.add(self.pid)
        self._watch_pipes()
        self._watch_end()

    def _watch_pipes(self) -> None:
        assert self._popen.stdout is not None
        assert self._popen.stderr is not None
        self._pipes = {self._popen.stdout.fileno(): STDOUT, self._popen.stderr.fileno(): STDERR}
        if self._popen.stdin is not None:
            self.stdin = self._popen.stdin.fileno()
            os.set_blocking(self.stdin, False)
        for fd in self._pipes:
            os.set_blocking(fd, False)
            self.loop.add_reader(fd, self._on_readable, fd)

    def _watch_end(self) -> None:
        self._pidfd = -1
        if hasattr(os, "pidfd_open"):
            with contextlib.suppress(OSError):
                self._pidfd = os.pidfd_open(self.pid)
        if self._pidfd >= 0:
            self.loop.add_reader(self._pidfd, self._on_exit)
        else:  # not Linux, or an old kernel: a thread that waits without reaping
            threading.Thread(target=self._wait_in_thread, daemon=True).start()

    def _wait_in_thread(self) -> None:
        _has_ended(self.pid, wait=True)
        with contextlib.suppress(RuntimeError):  # the loop may be closed by now
            self.loop.call_soon_threadsafe(self.exited.set)

    def _on_exit(self) -> None:
        self.loop.remove_reader(self._pidfd)
        self.exited.set()

    def _on_readable(self, fd: int) -> None:
        try:
            data = os.read(fd, 65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        stream = self._pipes[fd]
        if not data:
            self.loop.remove_reader(fd)
            del self._pipes[fd]
            if not self._pipes:
                self.drained.set()
        self._sink(stream, data)

    def close_stdin(self) -> None:
        if self.stdin >= 0 and self._popen.stdin is not None:
            self.stdin = -1
            with contextlib.suppress(OSError):
                self._popen.stdin.close()

    def signal_group(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def end(self, *, gently: bool = False, drain: bool = False) -> int:
        """Kill the process group and its orphans, and reap them. `drain`: read what is left in the pipes."""
        self._end_group(gently=gently)
        self._end_orphans()
        if drain:
            self._drain()
        self._close()
        return self._popen.returncode

    def _drain(self) -> None:
        """Bounded: an escaped process may hold a pipe open and keep writing."""
        for fd, stream in list(self._pipes.items()):
            for _ in range(_DRAIN_READS):
                try:
                    data = os.read(fd, 65536)
                except OSError:
                    break
                if not data:
                    break
                self._sink(stream, data)

    def _end_group(self, *, gently: bool) -> None:
        """Kill the process group; its leader is reaped afterwards, so that the id is not reused."""
        if gently and not self.exited.is_set():
            self.signal_group(signal.SIGTERM)
            self._wait_for_leader(_TERM_GRACE)
        if not _has_ended(self.pid):  # else nothing is below it any more
            self._end_tree()
        if self._has_supervisor and not _has_ended(self.pid):
            os.kill(self.pid, signal.SIGCONT)
            self._wait_for_leader(_SUPERVISOR_GRACE)
        self.signal_group(signal.SIGKILL)
        _has_ended(self.pid, wait=True)  # only then are its children reparented to us

    def _wait_for_leader(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not _has_ended(self.pid):
            time.sleep(0.005)

    def _end_tree(self) -> None:
        """Kill the leader's descendants while it is there to hold them together."""
        for _ in range(_ROUNDS):
            below = _descendants(self.pid)
            if not below:
                return
            for pid in below:
                _kill_in_tree(pid, {self.pid, *below})
            time.sleep(0.001)

    def _end_orphans(self) -> None:
        """Kill orphans that left the group (setsid, double fork), identified by their environment."""
        for _ in range(_ROUNDS):
            orphans = [pid for pid in _children("self") if self._is_orphan(pid)]
            for pid in orphans:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, 0)
            if not orphans:
                return

    def _is_orphan(self, pid: int) -> bool:
        if pid in _owned:
            return False
        with contextlib.suppress(ProcessLookupError):
            if os.getpgid(pid) == self.pid:  # killed with the group
                return True
        return _has_mark(pid, self._mark) or _is_dead_wrapper(pid)

    def _close(self) -> None:
        for fd in self._pipes:
            self.loop.remove_reader(fd)
        if self._pidfd >= 0:
            self.loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
        self.close_stdin()
        for pipe in (self._popen.stdout, self._popen.stderr):
            if pipe is not None:
                pipe.close()
        self._popen.wait()
        _owned.discard(self.pid)
        if isinstance(self._line, HeldLine):
            self._line.release()


@contextlib.contextmanager
def _stdin(given: bytes, *, with_stdin: bool) -> Iterator[int]:
    """For `Popen`. `given` is passed as an unlinked file, which cannot block."""
    if not given:
        yield PIPE if with_stdin else DEVNULL
        return
    with tempfile.TemporaryFile() as file:
        file.write(given)
        file.seek(0)
        yield file.fileno()


if sys.platform != "darwin" or sys.version_info >= (3, 13):

    def _has_ended(pid: int, *, wait: bool = False) -> bool:
        """Whether this child has ended, without reaping it; `wait`: once it has."""
        try:
            flags = os.WEXITED | os.WNOWAIT | (0 if wait else os.WNOHANG)
            return os.waitid(os.P_PID, pid, flags) is not None
        except ChildProcessError:
            return True

else:  # Python has no waitid() there before 3.13

    def _has_ended(pid: int, *, wait: bool = False) -> bool:
        """Whether this child has ended, without reaping it; `wait`: once it has."""
        event = select.kevent(pid, select.KQ_FILTER_PROC, select.KQ_EV_ADD, select.KQ_NOTE_EXIT)
        queue = select.kqueue()
        try:
            return bool(queue.control([event], 1, None if wait else 0))
        except ProcessLookupError:  # a zombie
            return True
        finally:
            queue.close()


def _children(pid: int | str) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):  # it is gone
        for task in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - twice per command
            with contextlib.suppress(OSError):
                found += map(int, Path(f"/proc/{pid}/task/{task}/children").read_bytes().split())
    return found


def _descendants(pid: int) -> list[int]:
    """The live processes below `pid`."""
    found: list[int] = []
    waiting = [pid]
    while waiting:
        children = _children(waiting.pop())
        waiting += children
        found += [child for child in children if _stat(child)[:1] not in ([], ["Z"])]
    return found


def _kill_in_tree(pid: int, tree: set[int]) -> None:
    """Kill `pid` if it is still in the tree: the pid may have been reused."""
    with contextlib.suppress(OSError):
        process = os.pidfd_open(pid)
        try:
            if int((_stat(pid) or ["", "0"])[1]) in tree:
                signal.pidfd_send_signal(process, signal.SIGKILL)
        finally:
            os.close(process)


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the name; empty if it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()


def _has_mark(pid: int, mark: str) -> bool:
    try:
        return f"{MARK}={mark}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False


def _is_dead_wrapper(pid: int) -> bool:
    """A zombie of the sandbox: its environment is gone, and only we can reap it."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    name, _, rest = stat.partition("(")[2].rpartition(")")
    return name == "bwrap" and rest.split()[0] == "Z"


def shell_status(returncode: int) -> int:
    """As a shell reports it: 128 + the signal's number where one ended the program."""
    return 128 - returncode if returncode < 0 else returncode
