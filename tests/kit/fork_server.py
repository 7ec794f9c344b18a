"""A fork server: starts `coder` from a process that has imported it already.

Importing takes most of the CPU time of a short run, and the suite makes more than a thousand of them. What is
forked has its own arguments, environment, directory, session and standard streams, and runs `python -m coder`
from there on. Variables that the interpreter reads when it starts need a cold start, as do tests of imports.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import selectors
import signal
import socket
import struct
import subprocess
import sys
import termios
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# Read by the interpreter or the C library when a process starts: the server has these values, and no others.
_AT_START = {"LANG": "C.UTF-8", "PYTHONWARNINGS": "error"}
_READ_AT_START = ("PYTHON", "LANG", "LC_", "LD_", "MALLOC_", "GCONV", "TZ")
_MOST = 60_000  # bytes of a request: what a datagram surely takes


class Forked:
    """A process of the server's; the server is its parent and tells how it ended."""

    def __init__(self, pid: int, ended: int) -> None:
        self.pid = pid
        self._ended = ended
        self._status: int | None = None

    def poll(self, seconds: float | None = 0) -> int | None:
        """Its exit status, as `os.waitstatus_to_exitcode` gives it; None while it runs."""
        if self._status is None:
            with selectors.DefaultSelector() as selector:
                selector.register(self._ended, selectors.EVENT_READ)
                if selector.select(seconds):
                    (status,) = struct.unpack("i", os.read(self._ended, 4))
                    os.close(self._ended)
                    self._status = os.waitstatus_to_exitcode(status)
        return self._status

    def kill(self) -> None:
        """End it, and wait for its end."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)
            self.poll(None)


class ForkServer:
    """The server of this test process, started at its first use."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None

    def start(
        self, args: list[str], env: dict[str, str], cwd: Path, streams: tuple[int, int, int]
    ) -> Forked | None:
        """Start `coder` with these standard streams; None where it must be started cold."""
        at_start = {name: value for name, value in env.items() if name.startswith(_READ_AT_START)}
        request = json.dumps({"args": args, "env": env, "cwd": str(cwd)}).encode()
        if at_start != _AT_START or len(request) > _MOST or not hasattr(os, "pidfd_open"):
            return None
        if self._socket is None:
            self._socket = self._serve()
        readable, writable = os.pipe()
        socket.send_fds(self._socket, [request], [*streams, writable])
        os.close(writable)
        return Forked(int(self._socket.recv(32)), readable)

    def run(
        self, args: list[str], env: dict[str, str], cwd: Path, given: bytes | None, timeout: float
    ) -> subprocess.CompletedProcess[bytes] | None:
        """As `subprocess.run` with captured output; None where it must be started cold."""
        with contextlib.ExitStack() as theirs, ThreadPoolExecutor(3) as threads:

            def own(fd: int) -> int:
                theirs.callback(os.close, fd)
                return fd

            (out, out_), (err, err_) = os.pipe(), os.pipe()
            in_, into = (os.open(os.devnull, os.O_RDONLY), None) if given is None else os.pipe()
            forked = self.start(args, env, cwd, (own(in_), own(out_), own(err_)))
            theirs.close()
            written = None if into is None else threads.submit(_write, into, given or b"")
            read = [threads.submit(_read, fd) for fd in (out, err)]
            if forked is None:
                return None
            if forked.poll(timeout) is None:
                forked.kill()
                raise subprocess.TimeoutExpired(["coder", *args], timeout)
            if written is not None:
                written.result()
            output, errors = (each.result() for each in read)
            return subprocess.CompletedProcess(["coder", *args], forked.poll() or 0, output, errors)

    def _serve(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", __file__, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                env={**_AT_START, "PATH": os.environ["PATH"], "CODER_STRICT_TEXTS": "1"},
                stdin=subprocess.DEVNULL,
            )
        return ours

    def close(self) -> None:
        """The server ends when nobody can ask it any more."""
        if self._socket is not None and self._process is not None:
            self._socket.close()
            self._process.wait()


FORK_SERVER = ForkServer()


def _write(fd: int, data: bytes) -> None:
    with contextlib.suppress(BrokenPipeError), os.fdopen(fd, "wb") as stream:  # it need not read all of it
        stream.write(data)


def _read(fd: int) -> bytes:
    with os.fdopen(fd, "rb") as stream:
        return stream.read()


def _import_everything() -> None:
    """As `coder.cli.main` does it, and then all that a session may come to use."""
    import gc
    import importlib
    import pkgutil

    from coder.cli.lazy_imports import import_lazily

    import_lazily()
    import coder

    for module in pkgutil.walk_packages(coder.__path__, "coder."):
        if not module.name.endswith("__main__"):
            with contextlib.suppress(ImportError):  # of an extra
                importlib.import_module(module.name)
    _use_what_is_made_at_first_use()
    gc.collect()
    gc.freeze()  # forked processes share these pages as long as nobody writes to them


def _use_what_is_made_at_first_use() -> None:
    """Third parties' packages, regular expressions, and the tokenizer's tables."""
    from coder.config.models import DEFAULT_TOKENIZER
    from coder.context.conversation import TokenCounter
    from coder.engine.continuation import announces
    from coder.engine.verify.choice import asked_for
    from coder.engine.verify.claims import claim_in
    from coder.policy.shell.judge import judge
    from coder.ui.terminal.render.highlight import CodeState, code_lines
    from coder.ui.terminal.render.markdown import BlockState, markdown_rows
    from coder.ui.terminal.render.markdown_blocks import Block

    markdown_rows(Block("A *word* and `code`.\n", "prose"), 80, BlockState())
    code_lines(["x = 1  # y"], "python", CodeState())
    TokenCounter(DEFAULT_TOKENIZER).count("Antidisestablishmentarianism, and shorter words.")
    announces("It is done. I will look now.")
    claim_in("All 3 tests pass.")
    asked_for("Fix it, please. Verify it with `pytest -q`.")
    judge("python3 -m pytest -q tests/test_a.py", Path("/"))


def _serve(asked: socket.socket) -> tuple[bytes, list[int]]:
    """Fork for each request. Returns in the forked processes only, with what was asked for."""
    running: dict[int, tuple[int, int]] = {}  # pidfd → pid, where its end is told
    with selectors.DefaultSelector() as selector:
        selector.register(asked, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is not asked:
                    selector.unregister(key.fd)
                    pid, ended = running.pop(key.fd)
                    with contextlib.suppress(BrokenPipeError):  # the test did not wait for it
                        os.write(ended, struct.pack("i", os.waitpid(pid, 0)[1]))
                    os.close(ended)
                    os.close(key.fd)
                    continue
                request, fds, _, _ = socket.recv_fds(asked, _MOST, 4)
                if not request:
                    os._exit(0)
                pid = os.fork()
                if pid == 0:
                    return request, fds[:3]
                asked.send(str(pid).encode())
                pidfd = os.pidfd_open(pid)
                running[pidfd] = pid, fds[3]
                selector.register(pidfd, selectors.EVENT_READ)
                for fd in fds[:3]:
                    os.close(fd)


def _become(request: bytes, streams: list[int]) -> None:
    """What the kernel and the interpreter do for a new process."""
    asked = json.loads(request)
    for fd, stream in enumerate(streams):
        os.dup2(stream, fd)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    os.setsid()
    if os.isatty(0):
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["env"])
    sys.argv = ["coder", *asked["args"]]
    for fd, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        old = getattr(sys, name)
        old.detach()
        new = open(fd, mode, encoding=old.encoding, errors=old.errors, closefd=False)  # noqa: SIM115 - for good
        setattr(sys, name, new)
        setattr(sys, f"__{name}__", new)


if __name__ == "__main__":
    _import_everything()
    with socket.socket(fileno=int(sys.argv[1])) as asked:
        wanted = _serve(asked)
    _become(*wanted)
    import runpy

    runpy.run_module("coder", run_name="__main__", alter_sys=True)
