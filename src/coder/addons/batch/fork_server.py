"""A warm process that forks the processes of tasks.

Starting Python and importing the agent takes longer than many a task's own work; a fork of a process that has
done both takes milliseconds, shares its memory, and holds no thread, lock or secret of the driver's. As the
subreaper of what it forks, it kills what a dead task process leaves behind. When whoever started it
is gone, it ends the task processes and its own process group (git, which makes mirrors), and removes the
batch's directory: it runs before there is one.

A task has two sockets: its channel (`channel`), and a line to the fork server, which sends `e` on it when
the process and its orphans are gone; a `k` from the other end kills, and so does its closing.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import msgspec

from coder.addons.batch.batch_directory import Root, batch_root, remove_unused
from coder.base.process.programs import DEVNULL, Process, Runs, TimeoutExpired, start

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_GRACE = 3.0  # seconds for a task process to end by itself once its supervisor is gone
_KILL, _ENDED = b"k", b"e"
_FORK, _CLAIM = b"f", b"c"
_START = (
    "import sys; sys.path[:] = sys.argv[2].split(':'); "
    "from coder.addons.batch.fork_server import main; main()"
)
LABEL = "coder-batch-of-{pid}"  # an argument, so that `ps` tells whose processes these are
# What tasks have of the environment of whoever starts them.
PASSED_ON = (
    *("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE"),
    *("http_proxy", "https_proxy", "no_proxy", "all_proxy"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"),
)


class TaskProcess(msgspec.Struct, frozen=True):
    """The supervisor's ends of a task's two sockets."""

    channel: socket.socket
    line: socket.socket

    def end(self, seconds: float) -> bool:
        """Kill what still runs, and wait until it is gone. False: the fork server cannot tell."""
        ended = False
        with contextlib.suppress(OSError):
            self.line.settimeout(seconds)
            with contextlib.suppress(BrokenPipeError):  # it has said so already
                self.line.send(_KILL)
            ended = self.line.recv(1) == _ENDED
        self.channel.close()
        self.line.close()
        return ended


class ForkServer:
    """The supervisor's side: a claim on the batch's directory, and the warm process, started again where it
    was killed."""

    def __init__(self, batch: str) -> None:
        """Raises OSError."""
        self._lock = threading.Lock()
        self._path = batch_root(batch)
        self._process, self._control = _started(self._path)
        try:
            self._root = Root(batch)
            self._share_claim()
        except OSError:
            self._end()
            raise

    @property
    def root(self) -> Path:
        """The batch's directory on this machine."""
        return self._path

    @property
    def group(self) -> int:
        """The process group of what shall not outlive this process."""
        with self._lock:
            if self._process.poll() is not None:
                self._restart()
            return self._process.pid

    def spawn(self) -> TaskProcess:
        """Raises OSError."""
        with self._lock:
            try:
                return self._spawn()
            except OSError:  # it was killed
                self._restart()
                return self._spawn()

    def close(self) -> None:
        with self._lock:
            self._end()
            self._root.leave()

    def _spawn(self) -> TaskProcess:
        channel, theirs = socket.socketpair()
        line, their_line = socket.socketpair()
        with theirs, their_line:
            try:
                socket.send_fds(self._control, [_FORK], [theirs.fileno(), their_line.fileno()])
            except OSError:
                channel.close()
                line.close()
                raise
        return TaskProcess(channel, line)

    def _share_claim(self) -> None:
        socket.send_fds(self._control, [_CLAIM], [self._root.lock])

    def _restart(self) -> None:
        self._end()
        self._process, self._control = _started(self._path)
        self._share_claim()

    def _end(self) -> None:
        self._control.close()
        try:
            self._process.wait(_GRACE + 5)
        except TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _started(root: Path) -> tuple[Process, socket.socket]:
    control, theirs = socket.socketpair()
    path = os.pathsep.join(str(Path(directory).absolute()) for directory in sys.path)
    with theirs:
        words = [str(theirs.fileno()), path, LABEL.format(pid=os.getpid()), str(root)]
        process = start(
            [sys.executable, "-I", "-c", _START, *words],
            runs=Runs.AS_CODER,
            pass_fds=[theirs.fileno()],
            environment={name: os.environ[name] for name in (*PASSED_ON, "TMPDIR") if name in os.environ},
            stdin=DEVNULL,
            stdout=DEVNULL,
            stderr=DEVNULL,  # tasks report on their channels
            process_group=0,  # Ctrl+C is the driver's
        )
    return process, control


# in the fork server


def main() -> None:
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    signal.signal(signal.SIGTERM, lambda *_: None)  # not SIG_IGN, which tasks' commands would inherit
    server = _Server(socket.socket(fileno=int(sys.argv[1])))
    server.serve()
    server.give_up_claim()
    remove_unused(Path(sys.argv[4]))  # where whoever started us was killed


def _preload() -> None:
    """What every task needs, and what would otherwise be imported in each of them."""
    import gc

    from coder.addons.batch.runner import preload

    preload()
    gc.collect()
    gc.freeze()  # a collection in a child would copy every page that holds an object


class _Child(msgspec.Struct):
    pid: int
    line: socket.socket
    kill_at: float = 0.0
    told: bool = False  # asked to end


class _Server:
    """Forks on request, reaps, and kills orphans."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._children: dict[int, _Child] = {}
        self._selector = selectors.DefaultSelector()
        self._closed = False
        self._warm = False
        self._claim = -1
        self._woken, waking = socket.socketpair()
        self._own = [self._woken, waking]
        for one in self._own:
            one.setblocking(False)
        signal.set_wakeup_fd(waking.fileno())
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._selector.register(self._woken, selectors.EVENT_READ, self._on_signal)
        self._selector.register(control, selectors.EVENT_READ, self._on_control)

    def serve(self) -> None:
        while not (self._closed and not self._children):
            for key, _ in self._selector.select(self._patience()):
                handle: Callable[[], None] = key.data
                handle()
            self._reap()
            self._kill_late_ones()

    def _patience(self) -> float | None:
        due = [child.kill_at for child in self._children.values() if child.kill_at]
        return max(0.0, min(due) - time.monotonic()) if due else None

    def _on_signal(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._woken.recv(4096)

    def _on_control(self) -> None:
        try:
            data, descriptors, _, _ = socket.recv_fds(self._control, 1, 2)
        except OSError:
            data, descriptors = b"", []
        if not data:  # the driver is gone, and so are the other ends of all lines
            self._closed = True
            self._selector.unregister(self._control)
            os.killpg(0, signal.SIGTERM)
            return
        if data == _CLAIM:
            (self._claim,) = descriptors
            os.set_inheritable(self._claim, False)
            return
        if not self._warm:
            self._warm = True
            _preload()
        channel, line = (socket.socket(fileno=one) for one in descriptors)
        pid = os.fork()
        if pid == 0:
            for one in (self._control, line, *self._own, *(c.line for c in self._children.values())):
                one.close()
            self._selector.close()
            _be_a_task(channel)
        channel.close()
        child = _Child(pid, line)
        self._children[pid] = child
        self._selector.register(line, selectors.EVENT_READ, lambda: self._on_line(child))

    def give_up_claim(self) -> None:
        if self._claim >= 0:
            os.close(self._claim)

    def _on_line(self, child: _Child) -> None:
        try:
            data = child.line.recv(1)
        except OSError:
            data = b""
        if data == _KILL:
            os.kill(child.pid, signal.SIGKILL)
        else:  # its channel has ended too: it cleans up, for as long as it is given
            self._selector.unregister(child.line)
            child.kill_at = time.monotonic() + _GRACE
            child.told = True

    def _kill_late_ones(self) -> None:
        now = time.monotonic()
        for child in self._children.values():
            if child.kill_at and child.kill_at <= now:
                os.kill(child.pid, signal.SIGKILL)
                child.kill_at = now + _GRACE

    def _reap(self) -> None:
        ended = []
        while True:
            try:
                pid, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if not pid:
                break
            if pid in self._children:
                ended.append(self._children.pop(pid))
        if ended:
            self._end_orphans()
        for child in ended:
            if not child.told:
                self._selector.unregister(child.line)
            with contextlib.suppress(OSError):
                child.line.send(_ENDED)
            child.line.close()

    def _end_orphans(self) -> None:
        """Children that we did not fork were left by a task process that is dead now."""
        for _ in range(100):
            orphans = [pid for pid in _own_children() if pid not in self._children]
            for pid in orphans:
                with contextlib.suppress(ProcessLookupError, ChildProcessError):
                    os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, 0)
            if not orphans:
                return


def _own_children() -> list[int]:
    try:
        return [int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]
    except OSError:  # not Linux
        return []


def _be_a_task(channel: socket.socket) -> NoReturn:
    status = 1
    try:
        os.setsid()
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGINT):  # also where the batch was started with it ignored
            signal.signal(number, signal.SIG_DFL)
        from coder.addons.batch.runner import serve

        serve(channel)
        status = 0
    finally:
        os._exit(status)


def _prctl(option: int, value: int) -> None:
    """Linux only; elsewhere the supervisor's own clean-up has to do."""
    if sys.platform.startswith("linux"):
        import ctypes

        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
