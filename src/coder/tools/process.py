"""Run one program to its end: bounded output, time-out, and no process left behind.

The child leads its own session, so that one signal to its group reaches whatever it started.
Whoever awaits `run_process` owns the group: on exit, time-out and cancel alike nothing of it survives.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from glob import glob
from pathlib import Path

import msgspec

TIMED_OUT = 124  # the exit code that timeout(1) made customary
_TERM_GRACE = 0.04  # seconds between SIGTERM and SIGKILL: a cancel is done within 100 ms
_PIPE_GRACE = 0.1  # after the program's end, for what its background children still print
MARK = "CODER_COMMAND"  # in the environment of every command: whose child a stray process is
_STRAY_ROUNDS = 5  # each may bring to light the children of what it ended
_PR_SET_CHILD_SUBREAPER = 36
_OUTPUT_EVERY = 0.05  # seconds between live output callbacks


class Outcome(msgspec.Struct, frozen=True):
    """How a program ended. `spilled` is the file with more of the output than was kept."""

    exit_code: int
    stdout: str
    stderr: str
    truncated: bool
    timed_out: bool
    duration_ms: int
    spilled: Path | None = None


class _Capture:
    """The head and tail of one stream; all of it, up to a bound, goes to the spill."""

    def __init__(self, keep: int) -> None:
        self.head = bytearray()
        self.tail = bytearray()
        self.keep = keep
        self.total = 0

    def add(self, data: bytes) -> None:
        self.total += len(data)
        room = self.keep // 2 - len(self.head)
        if room > 0:
            self.head += data[:room]
            data = data[room:]
        if data:
            self.tail += data
            excess = len(self.tail) - self.keep // 2
            if excess > self.keep:  # trimmed in large bites: one memmove per `keep` bytes
                del self.tail[:excess]

    @property
    def truncated(self) -> bool:
        return self.total > len(self.head) + self.keep // 2

    def text(self) -> str:
        tail = bytes(self.tail[-(self.keep // 2) :]) if self.truncated else bytes(self.tail)
        if self.total <= len(self.head) + len(tail):
            return decode(bytes(self.head) + tail)
        head, tail = _whole_lines(bytes(self.head), tail)
        left_out = self.total - len(head) - len(tail)
        return f"{decode(head)}\n[… {left_out} bytes left out …]\n{decode(tail)}"


def _whole_lines(head: bytes, tail: bytes) -> tuple[bytes, bytes]:
    """Without the halves of lines at the cut, unless lines are very long: half a key looks like none."""
    end, start = head.rfind(b"\n", len(head) // 2), tail.find(b"\n", 0, len(tail) // 2)
    return head[:end] if end >= 0 else head, tail[start + 1 :]


def decode(data: bytes) -> str:
    return data.decode("utf-8", errors="replace").replace("\r\n", "\n")


class _Spill:
    """The file that holds the whole output once it outgrows what is kept in memory."""

    def __init__(self, path: Path, limit: int, threshold: int) -> None:
        self.path = path
        self.limit = limit
        self.threshold = threshold
        self.pending = bytearray()
        self.written = 0
        self.file: int | None = None
        self.failed = False

    def add(self, data: bytes) -> None:
        room = self.limit - self.written - len(self.pending)
        self.pending += data[: max(0, room)]
        if self.written or len(self.pending) > self.threshold:
            self._flush()

    def _flush(self) -> None:
        if self.failed or not self.pending:
            return
        try:
            if self.file is None:
                self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                self.file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            while self.pending:
                done = os.write(self.file, self.pending)
                self.written += done
                del self.pending[:done]
        except OSError:
            self.failed = True  # a full disk must not fail the command: head and tail are still there
            self.pending.clear()

    def close(self, wanted: bool) -> Path | None:
        if wanted:
            self._flush()
        if self.file is not None:
            os.close(self.file)
        return self.path if self.file is not None and not self.failed else None


class _Running:
    """One child process and the loop's hooks on its pipes and its end."""

    def __init__(
        self,
        child: subprocess.Popen[bytes],
        sink: Callable[[int, bytes], None],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.child = child
        self.sink = sink
        self.loop = loop
        self.exited = asyncio.Event()
        self.drained = asyncio.Event()
        assert child.stdout is not None
        assert child.stderr is not None
        self.pipes = {child.stdout.fileno(): 1, child.stderr.fileno(): 2}
        for fd in self.pipes:
            os.set_blocking(fd, False)
            loop.add_reader(fd, self._readable, fd)
        self._watch_end()

    def _watch_end(self) -> None:
        self.pidfd = -1
        if hasattr(os, "pidfd_open"):
            with contextlib.suppress(OSError):
                self.pidfd = os.pidfd_open(self.child.pid)
        if self.pidfd >= 0:
            self.loop.add_reader(self.pidfd, self._ended)
        else:  # not Linux, or an old kernel: a thread that waits without reaping
            threading.Thread(target=self._wait_in_thread, daemon=True).start()

    def _wait_in_thread(self) -> None:
        with contextlib.suppress(ChildProcessError):
            os.waitid(os.P_PID, self.child.pid, os.WEXITED | os.WNOWAIT)
        with contextlib.suppress(RuntimeError):  # the loop may be closed by now
            self.loop.call_soon_threadsafe(self.exited.set)

    def _ended(self) -> None:
        self.loop.remove_reader(self.pidfd)
        self.exited.set()

    def _readable(self, fd: int) -> None:
        try:
            data = os.read(fd, 65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            self.sink(self.pipes[fd], data)
            return
        self.loop.remove_reader(fd)
        del self.pipes[fd]
        if not self.pipes:
            self.drained.set()

    def end_group(self, *, gently: bool) -> None:
        """End every process of the group. The leader is reaped only afterwards, so the group id cannot
        have been given to anyone else."""
        if gently and not self.exited.is_set():
            self._signal(signal.SIGTERM)
            deadline = time.monotonic() + _TERM_GRACE
            while time.monotonic() < deadline and not self._is_zombie():
                time.sleep(0.005)
        self._signal(signal.SIGKILL)

    def _is_zombie(self) -> bool:
        try:
            found = os.waitid(os.P_PID, self.child.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
        except ChildProcessError:
            return True
        return found is not None

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.child.pid, number)

    def end_strays(self, mark: str) -> None:
        """End what left the group (setsid, a double fork): this process reaps orphans, so they become its
        children, and the mark in their environment says whose they were."""
        for _ in range(_STRAY_ROUNDS):
            strays = [pid for pid in _own_children() if self._is_stray(pid, mark)]
            for pid in strays:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, 0)
            if not strays:
                return

    def _is_stray(self, pid: int, mark: str) -> bool:
        if pid == self.child.pid:
            return False
        with contextlib.suppress(ProcessLookupError):
            if os.getpgid(pid) == self.child.pid:  # ended with the group, but nobody else will collect it
                return True
        return _has_mark(pid, mark) or _is_dead_wrapper(pid)

    def close(self) -> None:
        for fd in self.pipes:
            self.loop.remove_reader(fd)
        if self.pidfd >= 0:
            self.loop.remove_reader(self.pidfd)
            os.close(self.pidfd)
        for pipe in (self.child.stdout, self.child.stderr):
            if pipe is not None:
                pipe.close()
        self.child.wait()


class _LiveOutput:
    """Hands on what is printed, a few times a second however fast it comes, and only the newest of it."""

    def __init__(self, on_output: Callable[[str], None], loop: asyncio.AbstractEventLoop) -> None:
        self.on_output = on_output
        self.loop = loop
        self.pending = bytearray()
        self.timer: asyncio.TimerHandle | None = None

    def add(self, data: bytes) -> None:
        self.pending += data
        del self.pending[:-8192]
        if self.timer is None:
            self.timer = self.loop.call_later(_OUTPUT_EVERY, self.flush)

    def flush(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        if self.pending:
            text = decode(bytes(self.pending))
            self.pending.clear()
            self.on_output(text)


async def run_process(
    argv: list[str],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    timeout_ms: int,
    keep_bytes: int,
    spill_to: Path,
    spill_limit: int,
    on_output: Callable[[str], None],
) -> Outcome:
    """Run `argv` with empty stdin. Raises OSError where it cannot be started."""
    loop = asyncio.get_running_loop()
    captures = {1: _Capture(keep_bytes), 2: _Capture(keep_bytes)}
    spill = _Spill(spill_to, spill_limit, keep_bytes)
    live = _LiveOutput(on_output, loop)

    def sink(stream: int, data: bytes) -> None:
        captures[stream].add(data)
        spill.add(data)
        live.add(data)

    begun = time.monotonic()
    mark = os.urandom(8).hex()
    _become_reaper()
    child = _start(argv, cwd, {**environment, MARK: mark})
    running = _Running(child, sink, loop)
    timed_out = False
    wanted = False
    spilled: Path | None = None
    try:
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await running.exited.wait()
        except TimeoutError:
            timed_out = True
        else:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_PIPE_GRACE):
                    await running.drained.wait()
        wanted = any(c.truncated for c in captures.values())
    finally:
        running.end_group(gently=not running.exited.is_set())
        running.end_strays(mark)
        running.close()
        live.flush()
        spilled = spill.close(wanted)
    return Outcome(
        exit_code=TIMED_OUT if timed_out else _exit_code(child.returncode),
        stdout=captures[1].text(),
        stderr=captures[2].text(),
        truncated=wanted,
        timed_out=timed_out,
        duration_ms=round((time.monotonic() - begun) * 1000),
        spilled=spilled if wanted else None,
    )


def _start(argv: list[str], cwd: Path, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """A plain Popen: it forks by vfork, and the loop watches its pipes and pidfd itself, which costs a
    third of what asyncio's own subprocesses do."""
    return subprocess.Popen(
        argv,
        cwd=cwd,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


_reaper: list[bool] = []


def _become_reaper() -> None:
    """Orphans of what we start come to us and not to init (Linux; elsewhere they stay out of reach)."""
    if _reaper:
        return
    _reaper.append(True)
    if not Path("/proc/self/task").exists():
        return
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _own_children() -> list[int]:
    found: list[int] = []
    for task in glob("/proc/self/task/*/children"):
        with contextlib.suppress(OSError):
            found += [int(word) for word in Path(task).read_bytes().split()]
    return found


def _has_mark(pid: int, mark: str) -> bool:
    try:
        return f"{MARK}={mark}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False


def _is_dead_wrapper(pid: int) -> bool:
    """What a sandbox leaves of itself: ended, so without a mark to read, and nobody's to collect but ours."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    name, _, rest = stat.partition("(")[2].rpartition(")")
    return name == "bwrap" and rest.split()[0] == "Z"


def _exit_code(returncode: int) -> int:
    """As a shell reports it: 128 + the signal's number where one ended the program."""
    return 128 - returncode if returncode < 0 else returncode
