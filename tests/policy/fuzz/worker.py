"""Runs shell lines inside the chamber and says what they did. The first process of its namespace.

Started by `chamber.py` as a file of its own with nothing but the standard library. Requests and answers are
JSON, one a line: `base` remembers how things are now, `run` runs lines and tells what is different after
them, `capture` gives a line's output, `environment` adds one for lines to run in.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

_GRACE = 0.3  # what a line started in the background may take to end
_TOO_LARGE = 4_000_000  # bytes that a line may write into one file
_COUNTERS = ("OutRequests", "OutNoRoutes", "ActiveOpens", "OutDatagrams")
_BASH = "/bin/bash"


class Worker:
    """Runs lines, with what it takes to see their effects."""

    def __init__(self, live: str, seconds: float) -> None:
        self._live = live
        self._environments: list[dict[str, str]] = []
        self._seconds = seconds
        self._output = os.memfd_create("output")
        self._null = os.open("/dev/null", os.O_RDWR)
        self._listeners = [_listen(socket.AF_INET, ("127.0.0.1", 9999)), _listen(socket.AF_UNIX, "\0canary")]
        self._bystander = 0
        self._lost = 0  # bystanders that a line has ended
        self._base: dict[str, object] = {}
        self._attend()

    def base(self) -> None:
        """Whatever is there now is as it should be."""
        os.chdir(os.path.join(self._live, "work"))
        for listener in self._listeners[2:]:
            listener.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink("socket")
        self._listeners[2:] = [_listen(socket.AF_UNIX, "socket")]
        if _gone(self._bystander):
            self._attend()
        self._base = self._look()

    def environment(self, variables: dict[str, str]) -> None:
        """One more that lines may be run in; they name it by its number."""
        self._environments.append(variables)

    def run(self, lines: list[tuple[str, int]]) -> dict[str, Any]:
        """Run all lines; what changed, which did not end in time, which left a process."""
        late: list[int] = []
        left: dict[int, list[str]] = {}
        for index, (line, environment) in enumerate(lines):
            if self._one(line, environment):
                late.append(index)
                self._end_all()
                self._tidy()
            elif others := self._remaining():
                left[index] = others
                self._end_all()
        now = self._look()
        changed = sorted(key for key in {*now, *self._base} if now.get(key) != self._base.get(key))
        self._base = now
        return {"changed": changed, "late": late, "left": left}

    def capture(self, line: str, environment: int) -> str:
        """What the line prints."""
        if self._one(line, environment) or self._remaining():
            self._end_all()
        return os.pread(self._output, 200_000, 0).decode(errors="replace")

    # -- one line --------------------------------------------------------------------------------------

    def _one(self, line: str, environment: int) -> bool:
        """Run it; whether it had to be given up."""
        os.ftruncate(self._output, 0)
        os.lseek(self._output, 0, os.SEEK_SET)
        child = os.posix_spawn(
            _BASH,
            ["bash", "-c", line],
            self._environments[environment],
            file_actions=[
                (os.POSIX_SPAWN_DUP2, self._null, 0),
                (os.POSIX_SPAWN_DUP2, self._output, 1),
                (os.POSIX_SPAWN_DUP2, self._output, 2),
            ],
            setsid=True,
            setsigmask=(),
            setsigdef=(signal.SIGPIPE, signal.SIGXFSZ),
        )
        until = time.monotonic() + self._seconds
        while True:
            pid, _ = os.waitpid(-1, os.WNOHANG)
            if pid == child:
                return False
            if pid == 0:
                rest = until - time.monotonic()
                if rest <= 0 or signal.sigtimedwait({signal.SIGCHLD}, rest) is None:
                    return True

    def _remaining(self) -> list[str]:
        """The command lines of processes that are still there after a moment's grace."""
        until = time.monotonic() + _GRACE
        while others := self._others():
            rest = until - time.monotonic()
            if rest <= 0:
                return [name for pid in others if (name := _command_line(pid))]
            signal.sigtimedwait({signal.SIGCHLD}, min(rest, 0.02))
        return []

    def _others(self) -> list[int]:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        pids = [int(name) for name in os.listdir("/proc") if name[0] in "123456789"]
        return [pid for pid in pids if pid not in (1, self._bystander)]

    def _end_all(self) -> None:
        self._lost += _gone(self._bystander)
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while True:
                os.waitpid(-1, 0)
        self._attend()

    def _tidy(self) -> None:
        """Remove the temporary files of a line that was given up: it had no time to do it itself."""
        kept = self._base["/tmp/"]
        assert isinstance(kept, list)
        for name in set(os.listdir("/tmp")).difference(kept):
            path = os.path.join("/tmp", name)
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path, ignore_errors=True)
            else:
                os.unlink(path)

    def _attend(self) -> None:
        """A process that no line has any business with."""
        self._bystander = os.posix_spawn("/bin/sleep", ["sleep", "1000000"], {}, setsid=True)

    # -- how things are --------------------------------------------------------------------------------

    def _look(self) -> dict[str, object]:
        seen: dict[str, object] = {}
        _walk(self._live, seen)
        for directory in ("/tmp", "/dev", "/dev/shm"):
            seen[f"{directory}/"] = sorted(os.listdir(directory))
        seen["(host name)"] = os.uname().nodename
        seen["(network)"] = _traffic()
        seen["(sockets)"] = self._connected()
        seen["(another process)"] = self._lost + _gone(self._bystander)
        return seen

    def _connected(self) -> int:
        """Connections to the canaries; they count up, so that a new one is a difference."""
        count = self._base.get("(sockets)", 0)
        assert isinstance(count, int)
        for listener in self._listeners:
            with contextlib.suppress(BlockingIOError):
                while True:
                    listener.accept()[0].close()
                    count += 1
        return count


def _walk(directory: str, seen: dict[str, object]) -> None:
    try:
        entries = list(os.scandir(directory))
    except OSError:
        return
    for entry in entries:
        found = entry.stat(follow_symlinks=False)
        owner = (found.st_mode, found.st_nlink, found.st_uid, found.st_gid)
        seen[entry.path] = (*owner, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        if entry.is_dir(follow_symlinks=False):
            _walk(entry.path, seen)


def _traffic() -> list[tuple[str, str]]:
    """What was sent or could not be: a connection counts although nobody is there to answer."""
    found = []
    with open("/proc/net/snmp", encoding="ascii") as file:
        rows = file.read().splitlines()
    for names, values in zip(rows[::2], rows[1::2], strict=True):
        pairs = zip(names.split(), values.split(), strict=True)
        found += [(names.split(":")[0] + name, value) for name, value in pairs if name in _COUNTERS]
    with contextlib.suppress(OSError), open("/proc/net/snmp6", encoding="ascii") as file:
        for row in file:
            name, value = row.split()
            if name in ("Ip6OutRequests", "Ip6OutNoRoutes", "Udp6OutDatagrams"):
                found.append((name, value))
    return found


def _gone(pid: int) -> bool:
    """Whether it has been ended, or is about to be: on a busy machine a kill takes its time."""
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
            fields = dict(line.split(":\t", 1) for line in file if ":\t" in line)
    except OSError:
        return True
    killed = (int(fields["SigPnd"], 16) | int(fields["ShdPnd"], 16)) >> (signal.SIGKILL - 1) & 1
    return fields["State"].startswith(("Z", "X")) or bool(killed)


def _command_line(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


def _listen(family: int, address: Any) -> socket.socket:
    listener = socket.socket(family)
    listener.bind(address)
    listener.listen(64)
    listener.setblocking(False)
    return listener


def main() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    resource.setrlimit(resource.RLIMIT_FSIZE, (_TOO_LARGE, _TOO_LARGE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    setting = json.loads(sys.argv[1])
    worker = Worker(setting["live"], setting["seconds"])
    doing: dict[str, Callable[..., Any]] = {
        "base": worker.base,
        "run": worker.run,
        "capture": worker.capture,
        "environment": worker.environment,
    }
    for request in sys.stdin:
        name, *arguments = json.loads(request)
        print(json.dumps(doing[name](*arguments)), flush=True)


if __name__ == "__main__":
    main()
