"""Other systems than Linux: macOS works with what it lacks, Windows gets one sentence.

Each is played in a process of its own, from which what that system does not have is taken before `coder` is
imported.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kit import ScriptedServer
from kit.calls import step
from kit.driving import Project

# Modules that only POSIX has.
WINDOWS = """
import builtins, os, sys
for name in ("fcntl", "grp", "pty", "pwd", "readline", "resource", "syslog", "termios", "tty"):
    sys.modules[name] = None  # which makes the import fail
for name in ("fork", "getuid", "geteuid", "getpgid", "killpg", "setsid", "uname", "O_NOFOLLOW", "O_DIRECTORY",
             "O_CLOEXEC", "O_NONBLOCK", "mkfifo", "waitid", "WNOHANG", "get_blocking", "set_blocking"):
    if hasattr(os, name):
        delattr(os, name)
sys.platform = "win32"
"""
# What only Linux has: system calls, /proc, inotify and prctl by ctypes. kqueue is played with a pidfd.
DARWIN = """
import ctypes, errno, io, os, select, selectors, sys  # selectors: chooses before kqueue is there
_pidfd_open, _poll, _stat = os.pidfd_open, select.poll, os.stat

class kevent:
    def __init__(self, ident, filter, flags, fflags):
        assert (filter, flags, fflags) == (-5, 1, 0x80000000)
        self.ident = ident

class kqueue:
    def control(self, changes, most, timeout=None):
        pid = changes[0].ident
        if open(f"/self{pid}").read() == "Z":
            raise ProcessLookupError(errno.ESRCH, "No such process")
        end, poll = _pidfd_open(pid), _poll()
        poll.register(end, select.POLLIN)
        found = poll.poll(None if timeout is None else timeout * 1000)
        os.close(end)
        return found
    def close(self):
        pass

def _state(pid, open=io.open):
    with open(f"/proc/{pid}/stat") as file:
        return io.StringIO(file.read().rpartition(")")[2].split()[0])

select.kqueue, select.kevent = kqueue, kevent
select.KQ_FILTER_PROC, select.KQ_EV_ADD, select.KQ_NOTE_EXIT = -5, 1, 0x80000000
for name in (
    "O_PATH O_TMPFILE O_DIRECT O_NOATIME O_LARGEFILE SEEK_DATA SEEK_HOLE pidfd_open memfd_create eventfd "
    "splice pipe2 copy_file_range posix_fadvise posix_fallocate fdatasync getrandom setns unshare "
    "sched_getaffinity sched_setaffinity getxattr setxattr listxattr removexattr"
).split():
    if hasattr(os, name):
        delattr(os, name)
if sys.version_info < (3, 13):
    del os.waitid
if hasattr(os, "process_cpu_count"):  # from 3.13 on; without affinity it counts them all
    os.process_cpu_count = os.cpu_count

def _closed(function, at=0):
    def call(*args, **kwargs):
        path = args[at] if len(args) > at else ""
        if isinstance(path, (str, bytes)) and os.fsdecode(path).startswith("/proc"):
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
        return function(*args, **kwargs)
    return call

class _Library:
    def __init__(self, *args, **kwargs):
        pass
    def __getattr__(self, name):
        raise AttributeError(f"dlsym(RTLD_DEFAULT, {name}): symbol not found")

_allowed = []

def _hook(event, args):
    path = args[0] if args and event in ("open", "os.listdir", "os.scandir") else None
    if isinstance(path, (str, bytes)) and os.fsdecode(path).startswith("/proc") and not _allowed:
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)

def open(path, _open=io.open):
    _allowed.append(path)
    try:
        return _state(int(path[5:]), _open)
    finally:
        _allowed.pop()

for name in ("stat", "lstat", "readlink", "access", "chmod"):
    setattr(os, name, _closed(getattr(os, name)))
sys.addaudithook(_hook)
ctypes.CDLL = ctypes.PyDLL = _Library
sys.platform = "darwin"
"""
MAIN = "\nsys.argv = ['coder', *sys.argv[1:]]\nimport coder.cli\ncoder.cli.main()\n"


def played(
    system: str, project: Project, *args: str, url: str = "", **env: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", system + MAIN, *args],
        cwd=project.cwd,
        env=project.environ(url, **env),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("args", [(), ("doctor",), ("--once", "x"), ("--help",)], ids=str)
def test_windows_gets_one_sentence(project: Project, args: tuple[str, ...]) -> None:
    done = played(WINDOWS, project, *args)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == (
        "coder runs on Linux and macOS; on Windows, install and start it inside WSL (wsl --install).\n"
    )


def test_windows_gets_it_in_the_language_of_the_locale(project: Project) -> None:
    done = played(WINDOWS, project, LANG="zh_CN.UTF-8")
    assert (done.returncode, "WSL" in done.stderr, "请" in done.stderr) == (2, True, True)
    assert played(WINDOWS, project, "--version").stdout.startswith("coder ")


linux = pytest.mark.skipif(sys.platform != "linux", reason="macOS is played on Linux")


@pytest.mark.thorough
@linux
def test_every_module_can_be_imported_on_macos(project: Project) -> None:
    script = """
import importlib, pkgutil, coder
for found in pkgutil.walk_packages(coder.__path__, "coder."):
    if found.name != "coder.__main__":
        importlib.import_module(found.name)
"""
    done = subprocess.run(
        [sys.executable, "-c", DARWIN + script],
        cwd=project.cwd,
        env=project.environ(),
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr


@linux
def test_doctor_on_macos(project: Project) -> None:
    with ScriptedServer([]) as server:
        done = played(DARWIN, project, "doctor", url=server.url)
    assert "Traceback" not in done.stderr, done.stderr
    assert "/usr/bin/sandbox-exec is not installed" in done.stdout  # as on the machine that plays it
    assert done.returncode == 0


@linux
def test_a_turn_on_macos(project: Project) -> None:
    """Files, commands (one that is killed for its time), a search, and the undo of it all."""
    script = [
        step("write", path="a.txt", content="one\n"),
        step("bash", command="echo two >> a.txt; cat a.txt"),
        step("bash", command="sleep 60", timeout_ms=300),
        step("grep", pattern="two"),
        {"text": "done"},
    ]
    project.configure(sandbox={"mode": "off"})  # there is no sandbox-exec here
    with ScriptedServer(script) as server:
        done = played(
            DARWIN, project, "--once", "go on", "--mode", "yolo", "--permissions", "yolo", url=server.url
        )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    observed = [event["content"] for event in project.of_type("observation")]
    assert "one\ntwo" in observed[1]
    assert project.of_type("observation")[2]["meta"]["exit_code"] == 124
    assert "a.txt" in observed[3]
    undone = played(DARWIN, project, "--continue", "--once", "/undo", url=server.url)
    assert undone.returncode == 0, undone.stderr
    assert not Path(project.cwd, "a.txt").exists()
