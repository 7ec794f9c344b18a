"""What a command written to get out tries beside files: other processes, the kernel's stores and switches,
the person's terminal, sockets, other ways to a place that is closed. Victims are processes of the test."""

from __future__ import annotations

import os
import pty
import shutil
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from hashlib import blake2b

import pytest
from box import FILTERS, NOBODY, SECRET, Box, available, users

from coder.policy.sandbox.bubblewrap import FILTER_FILE
from coder.policy.sandbox.launch import SCOPES_FROM, landlock_abi
from coder.policy.sandbox.places import aliases
from coder.policy.sandbox.seccomp import strong_filter

RUNGS = available()
PLACES = [(backend, user) for backend in RUNGS for user in users()]
# Each prints its name if it works. `V`: a process outside, of the same user.
PROCESSES = {
    "environ": "open(f'/proc/{V}/environ', 'rb').read(1)",
    "mem": "open(f'/proc/{V}/mem', 'rb')",
    "maps": "open(f'/proc/{V}/maps').read(1)",
    "root": "os.listdir(f'/proc/{V}/root/')",
    "cwd": "os.listdir(f'/proc/{V}/cwd/')",
    "fd": "os.readlink(f'/proc/{V}/fd/0')",
    "ns": "os.open(f'/proc/{V}/ns/mnt', 0)",
    "oom": "open(f'/proc/{V}/oom_score_adj', 'w').write('500')",
    "ptrace": "syscall(PTRACE, 16, V, 0, 0)",
    "read memory": "syscall(VM_READ, V, vector(8), 1, vector(8), 1, 0)",
    "write memory": "syscall(VM_WRITE, V, vector(8), 1, vector(8), 1, 0)",
    "take a descriptor": "syscall(438, os.pidfd_open(V), 0, 0)",
    "limits": "resource.prlimit(V, resource.RLIMIT_CPU, (1, 1))",
}
SCHEDULING = {
    "priority": "os.setpriority(os.PRIO_PROCESS, 1, 19)",
    "group": "os.setpriority(os.PRIO_PGRP, os.getpgid(1), 19)",
    "own group": "os.setpriority(os.PRIO_PGRP, 0, 19)",
    "user": "os.setpriority(os.PRIO_USER, 0, 19)",
    "scheduler": "os.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0))",
    "parameters": "os.sched_setparam(1, os.sched_param(0))",
    "attributes": "syscall(SCHED_SETATTR, 1, struct.pack('IIQiIQQQ', 48, 5, 0, 0, 0, 0, 0, 0), 0)",
    "processors": "os.sched_setaffinity(1, {0})",
}
OWN_SCHEDULING = {
    "nice": "os.nice(1)",
    "priority": "os.setpriority(os.PRIO_PROCESS, os.getpid(), 19)",
    "scheduler": "os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))",
    "processors": "os.sched_setaffinity(os.getpid(), os.sched_getaffinity(0))",
}
SIGNALS = {
    "kill": "os.kill(V, signal.SIGKILL)",
    "group": "os.killpg(os.getpgid(V), signal.SIGKILL)",
    "pidfd": "signal.pidfd_send_signal(os.pidfd_open(V), signal.SIGKILL)",
    "all": "os.kill(-1, signal.SIGCONT); os.kill(V, 0)",
}
KERNEL = {
    "read keys": "syscall(KEYCTL, 11, syscall(KEYCTL, 0, -3, 0), ctypes.create_string_buffer(400), 400)",
    "add a key": "syscall(ADD_KEY, b'user', b'x', b'y', 1, -3)",
    "core pattern": "os.open('/proc/sys/kernel/core_pattern', os.O_WRONLY)",
    "any switch": "writable('/proc/sys/kernel', '/proc/sys/vm', '/sys/kernel/mm', '/sys/power')",
    "sysrq": "os.open('/proc/sysrq-trigger', os.O_WRONLY)",
    "control groups": "writable('/sys/fs/cgroup')",
    "mount": "syscall(MOUNT, b'none', b'/tmp', b'tmpfs', 0, 0)",
    "device": "os.mknod('device', 0o60600, os.makedev(8, 0))",
    "by handle": "by_handle()",
    "hypervisor": "socket.socket(40, socket.SOCK_STREAM)",
    "hypervisor by a ring": "syscall(425, 8, ctypes.create_string_buffer(120))",
    "raw packets": "socket.socket(socket.AF_PACKET, socket.SOCK_RAW)",
    "namespace of init": "syscall(SETNS, os.open('/proc/1/ns/mnt', 0), 0)",
    "control groups anew": "syscall(UNSHARE, 0x12020000); syscall(MOUNT, b'none', b'/tmp', b'cgroup2', 0, 0)",
}
TERMINAL = {
    "own": "os.open('/dev/tty', os.O_RDWR)",
    "write": "os.write(os.open(T, os.O_WRONLY | os.O_NOCTTY), b'INJECTED')",
    "read": "os.open(T, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK)",
    "push": "fcntl.ioctl(os.open(T, os.O_RDONLY | os.O_NOCTTY), 0x5412, b'x')",
}
PRELUDE = """
import ctypes, fcntl, os, resource, signal, socket, struct, sys
V, T, HOME = int(os.environ.get("V", "0")), os.environ.get("T", ""), os.environ["HOME"]
LIBC = ctypes.CDLL(None, use_errno=True)
X86 = os.uname().machine == "x86_64"
PTRACE, VM_READ, VM_WRITE = (101, 310, 311) if X86 else (117, 270, 271)
KEYCTL, ADD_KEY, UNSHARE, MOUNT, SETNS = (250, 248, 272, 165, 308) if X86 else (219, 217, 97, 40, 268)
TO_HANDLE, BY_HANDLE = (303, 304) if X86 else (264, 265)
SCHED_SETATTR = 314 if X86 else 274

def syscall(number, *words):
    result = LIBC.syscall(number, *words)
    if result < 0:
        raise OSError(ctypes.get_errno(), "refused")
    return result

def vector(size):
    place = ctypes.create_string_buffer(size)
    return (ctypes.c_uint64 * 2)(ctypes.addressof(place), size)

def writable(*folders):
    for top in folders:
        for folder, _, names in os.walk(top):
            for name in names:
                path = os.path.join(folder, name)
                try:
                    os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
                except OSError:
                    continue
                if not path.startswith(OWN_SWITCHES):
                    return print(path, file=sys.stderr)
    raise OSError(1, "none")

# Those of its own namespaces.
OWN = ("shm", "msg", "sem", "auto_msg", "pid_max", "ns_last_pid")
OWN_SWITCHES = tuple("/proc/sys/kernel/" + name for name in OWN)

def by_handle():
    handle = ctypes.create_string_buffer(struct.pack("Ii", 128, 0) + bytes(128))
    syscall(TO_HANDLE, -100, HOME.encode(), handle, ctypes.byref(ctypes.c_int()), 0)
    syscall(BY_HANDLE, os.open(HOME, os.O_RDONLY), handle, os.O_RDONLY)
"""


def attempts(scripts: dict[str, str]) -> str:
    tries = "".join(
        f"try:\n    {script}\n    print({name!r})\nexcept (OSError, OverflowError):\n    pass\n"
        for name, script in scripts.items()
    )
    return f"python3 - <<'END'\n{textwrap.dedent(PRELUDE)}\n{tries}print('tried')\nEND"


@pytest.fixture(params=PLACES, ids=lambda place: "-".join(place))
def box(request: pytest.FixtureRequest) -> Iterator[Box]:
    found = Box(*request.param)
    yield found
    found.close()


def worked(box: Box, scripts: dict[str, str], **environment: str) -> list[str]:
    """Which of them worked."""
    given = "".join(f"export {name}='{value}'\n" for name, value in environment.items())
    outcome = box.run(given + attempts(scripts))
    *found, last = outcome.stdout.splitlines() or [""]
    assert last == "tried", outcome.stderr
    return found


@pytest.fixture
def victim(box: Box) -> Iterator[subprocess.Popen[bytes]]:
    """A process of the same user, with a key in its environment, in a group of its own."""
    who = NOBODY if box.user == "nobody" else None
    child = subprocess.Popen(
        ["sleep", "300"], env={"KEY": SECRET}, start_new_session=True, user=who, group=who
    )
    yield child
    child.kill()
    child.wait()


def test_other_processes_are_out_of_reach(box: Box, victim: subprocess.Popen[bytes]) -> None:
    assert worked(box, PROCESSES, V=str(victim.pid)) == []
    assert victim.poll() is None


@pytest.mark.skipif(landlock_abi() < SCOPES_FROM, reason="the weaker backend cannot before that")
def test_other_processes_get_no_signals(box: Box, victim: subprocess.Popen[bytes]) -> None:
    assert worked(box, SIGNALS, V=str(victim.pid)) == []
    assert victim.poll() is None


@pytest.mark.parametrize("user", users())
@pytest.mark.skipif("bwrap" not in RUNGS, reason="no process of a command's own is the first elsewhere")
def test_the_process_that_ends_a_command_cannot_be_starved(user: str) -> None:
    box = Box("bwrap", user)
    try:
        assert worked(box, SCHEDULING) == []
        assert worked(box, OWN_SCHEDULING) == [*OWN_SCHEDULING]
    finally:
        box.close()


def test_what_belongs_to_the_kernel_is_out_of_reach(box: Box) -> None:
    assert worked(box, KERNEL) == []


def test_a_new_process_table_shows_no_more_than_the_old(box: Box) -> None:
    script = (
        "mkdir p; unshare -rmpf sh -c 'mount -t proc none p && test -w p/sys/kernel/core_pattern && echo out'"
    )
    assert box.run(f"{script}; echo tried").stdout == "tried\n"


def test_the_person_s_terminal_is_out_of_reach(box: Box) -> None:
    ours, theirs = pty.openpty()
    try:
        name = os.ttyname(theirs)
        if box.user == "nobody":
            os.chown(name, NOBODY, NOBODY)
        assert worked(box, TERMINAL, T=name) == []
        os.set_blocking(ours, False)
        with pytest.raises(BlockingIOError):
            os.read(ours, 100)
    finally:
        os.close(ours)
        os.close(theirs)


def test_a_command_has_a_terminal_of_its_own_where_the_rung_is_strong(box: Box) -> None:
    outcome = box.run("python3 -c 'import pty, os; print(os.ttyname(pty.openpty()[1]))'")
    assert (outcome.exit_code == 0) == (box.backend == "bwrap")


def test_it_is_handed_nothing_but_its_three_streams(box: Box) -> None:
    outcome = box.run("exec 2>&1; ls /proc/self/fd | tr '\\n' ' '")
    assert outcome.stdout.split() == ["0", "1", "2", "3"]  # the last is how it looks


def test_processes_of_a_command_can_lock_each_other_out(box: Box) -> None:
    """Locks between processes are made of shared memory: no test suite gets far without."""
    script = "python3 -c 'import multiprocessing as m; m.Lock(); print(m.Pool(2).map(abs, [-1, -2]))'"
    assert box.run(script).stdout == "[1, 2]\n"


@pytest.mark.thorough
def test_a_socket_with_a_file_in_the_home_is_out_of_reach(box: Box) -> None:
    """A password manager's, an agent's, a container engine's: not all lie in /run."""
    path = box.home / "sub" / "agent.sock"
    script = f"python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"{path}\"); print(1)'"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        path.chmod(0o777)
        listening.listen()
        assert box.run(f"{script} 2>/dev/null; echo tried").stdout == "tried\n"
        assert box.run(f"{script} 2>/dev/null; echo tried", network=False).stdout == "tried\n"


def test_a_socket_in_the_workspace_is_within_reach_where_the_rung_is_strong(box: Box) -> None:
    """The project's own database, say."""
    if box.backend != "bwrap":
        pytest.skip("the weaker backend has no sockets of this kind at all")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(box.workspace / "db.sock"))
        (box.workspace / "db.sock").chmod(0o777)
        listening.listen()
        script = "python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"db.sock\"); print(1)'"
        assert box.run(script).stdout == "1\n"


@pytest.mark.skipif(os.getuid() != 0 or shutil.which("unshare") is None, reason="needs root, to mount")
@pytest.mark.parametrize("backend", RUNGS)
def test_a_home_that_is_mounted_twice_keeps_its_secrets_twice(backend: str) -> None:
    box = Box(backend)
    again = box.root / "again"
    again.mkdir()
    job = {
        "backend": backend,
        "workspace": str(box.workspace),
        "home": str(box.coder_home),
        "spill": str(box.root / "spill"),
        "environment": box.environment(),
        "script": f"cd {again}; cat .ssh/id_ed25519 .netrc .coder/config.json; cat notes.txt",
    }
    code = (
        f"import sys; sys.path[:0] = {sys.path!r}; from box import run_job; import os, subprocess\n"
        f"subprocess.run(['mount', '--bind', '{box.home}', '{again}'], check=True)\n"
        f"assert os.path.exists('{again}/.ssh/id_ed25519')\n"
        f"print(run_job({job!r}).stdout)"
    )
    try:
        line = ["unshare", "-m", "--propagation", "private", sys.executable, "-c", code]
        done = subprocess.run(line, capture_output=True, encoding="utf-8", check=False)
        assert done.stdout.strip() == "public", done.stderr
    finally:
        box.close()


# the parts


def test_nothing_is_mounted_twice_here_that_is_not() -> None:
    assert aliases(["/nonexistent/place"]) == []


@pytest.mark.parametrize("kind", FILTERS)
def test_the_filter_is_a_program_that_the_kernel_takes(kind: str) -> None:
    """Where it does not, the strong backend goes without; so it is tried out here on its own."""
    code = (
        "import ctypes, os; from coder.policy.sandbox import launch as c, seccomp as f\n"
        "c.LIBC.prctl(38, 1, 0, 0, 0)\n"
        f"program, held = c.program_of(f.strong_filter({kind!r}))\n"
        "print(c.LIBC.prctl(22, 2, ctypes.byref(program), 0, 0), os.getpid() > 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True)
    assert done.stdout == "0 True\n"


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="another machine, other numbers")
def test_another_filter_has_another_name() -> None:
    """It is kept in a file: one of an older version must not be taken for ours."""
    filters = b"".join(map(strong_filter, FILTERS))
    assert (FILTER_FILE, blake2b(filters, digest_size=6).hexdigest()) == (
        "sandbox-6-{sockets}.bpf",
        "06a1fed3d8bf",
    )
