"""Sockets of programs outside are out of a command's reach, whatever their name and whenever they were made.
Nor can a command look into another process, or outlive coder by that."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from box import Box, available, users

RUNGS = available()
PLACES = [(backend, user) for backend in RUNGS for user in users()]


@pytest.fixture(params=PLACES, ids=lambda place: "-".join(place))
def box(request: pytest.FixtureRequest) -> Iterator[Box]:
    found = Box(*request.param)
    yield found
    found.close()


def python(text: str) -> str:
    return f"python3 - <<'END'\n{textwrap.dedent(text)}\nEND"


def listening(path: Path, kind: socket.SocketKind = socket.SOCK_STREAM) -> socket.socket:
    found = socket.socket(socket.AF_UNIX, kind)
    found.bind(str(path))
    path.chmod(0o777)
    if kind != socket.SOCK_DGRAM:
        found.listen(50)
    found.setblocking(False)
    return found


def visited(server: socket.socket) -> bool:
    try:
        server.recv(1) if server.type == socket.SOCK_DGRAM else server.accept()[0].close()
    except BlockingIOError:
        return False
    return True


CONNECT = """
import os, socket, sys, time
for path in sys.argv[1:]:
    for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET, socket.SOCK_DGRAM):
        try:
            s = socket.socket(socket.AF_UNIX, kind)
            s.connect(path)
            print("reached", path)
        except OSError:
            pass
    for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET, socket.SOCK_DGRAM):
        try:
            socket.socketpair(socket.AF_UNIX, kind)[0].sendto(b"x", path)
            print("sent", path)
        except OSError:
            pass
print("tried")
"""


def tried(box: Box, paths: list[Path], **options: bool) -> str:
    (box.workspace / "connect.py").write_text(CONNECT, encoding="utf-8")
    return box.run(f"python3 connect.py {' '.join(map(str, paths))}", **options).stdout


@pytest.mark.parametrize("options", [{}, {"network": False}, {"plan": True}], ids=["on", "off", "plan"])
def test_none_of_many_is_reached(box: Box, options: dict[str, bool]) -> None:
    paths = [box.outside / f"s{n}" for n in range(20)] + [box.home / f"s{n}" for n in range(10)]
    servers = [listening(path) for path in paths]
    mailbox = box.outside / "mailbox"
    servers.append(listening(mailbox, socket.SOCK_DGRAM))
    try:
        assert tried(box, [*paths, mailbox], **options) == "tried\n"
        assert not any(map(visited, servers))
    finally:
        for server in servers:
            server.close()


def test_nor_one_that_is_made_or_renamed_while_the_command_runs(box: Box) -> None:
    script = python(
        f"""
        import os, socket, time
        open("ready", "w")
        for _ in range(2000):
            for path in ("{box.outside}/late", "{box.outside}/renamed", "{box.home}/sub/late"):
                if os.path.exists(path):
                    try:
                        socket.socket(socket.AF_UNIX).connect(path)
                        print("reached", path)
                    except OSError as error:
                        print("refused")
            if os.path.exists("{box.outside}/over"):
                break
            time.sleep(0.01)
        """
    )
    servers: list[socket.socket] = []

    def meanwhile() -> None:
        while not (box.workspace / "ready").exists():
            time.sleep(0.01)
        servers.extend(listening(path) for path in (box.outside / "late", box.home / "sub" / "late"))
        time.sleep(0.1)
        (box.outside / "late").rename(box.outside / "renamed")
        time.sleep(0.1)
        (box.outside / "over").touch()

    other = threading.Thread(target=meanwhile)
    other.start()
    outcome = box.run(script)
    other.join()
    assert set(outcome.stdout.split()) == {"refused"} or box.backend == "landlock", outcome.stdout
    assert "reached" not in outcome.stdout
    assert not any(map(visited, servers))
    for server in servers:
        server.close()


def test_nor_by_a_link_or_another_way_to_it(box: Box) -> None:
    path = box.outside / "agent"
    links = "ln -s $OUT/agent l; ln $OUT/agent h; ln -s $OUT d; mv $OUT/agent m"
    with listening(path) as server:
        (box.workspace / "connect.py").write_text(CONNECT, encoding="utf-8")
        ways = "l h d/agent m ../outside/agent /proc/self/root/$OUT/agent /proc/self/cwd/../outside/agent"
        outcome = box.run(f"{links}; python3 connect.py {ways}")
        assert outcome.stdout == "tried\n"
        assert not visited(server)


@pytest.mark.thorough
def test_nor_by_exchanging_the_address_while_it_is_looked_at(box: Box) -> None:
    """A check that is followed by the command's own call would be fooled now and then (TOCTOU)."""
    if box.backend != "bwrap":
        pytest.skip("the weaker backend has no sockets of this kind at all")
    script = python(
        f"""
        import ctypes, mmap, os, signal, socket
        libc = ctypes.CDLL(None)
        own = socket.socket(socket.AF_UNIX); own.bind("own"); own.listen(5000)
        one, two = (b"\\1\\0" + path.encode().ljust(106, b"\\0") for path in ("own", "{box.outside}/agent"))
        shared = mmap.mmap(-1, 4096)
        place = (ctypes.c_char * 108).from_buffer(shared)
        place.raw = one
        if not (other := os.fork()):  # not a thread: it would hold the interpreter's lock most of the time
            while True:
                place.raw = two
                place.raw = one
        done = 0
        for _ in range(6000):
            s = socket.socket(socket.AF_UNIX)
            done += libc.connect(s.fileno(), place, 110) == 0
        os.kill(other, signal.SIGKILL)
        print(done > 0)
        """
    )
    with listening(box.outside / "agent") as server:
        outcome = box.run(script)
        assert outcome.stdout == "True\n", outcome.stderr
        assert not visited(server)


def test_connections_are_as_a_program_expects_them(box: Box) -> None:
    """Blocking and not, from a thread, refused, to a name that is not there, by TCP and by a file."""
    if box.backend != "bwrap":
        pytest.skip("nothing stands between on the weaker backend")
    script = python(
        """
        import asyncio, errno, os, socket, threading
        server = socket.create_server(("127.0.0.1", 0))
        port = server.getsockname()[1]
        socket.create_connection(("127.0.0.1", port), timeout=5)
        socket.create_connection(("127.0.0.1", port))
        asyncio.run(asyncio.open_connection("127.0.0.1", port))
        thread = threading.Thread(target=lambda: socket.create_connection(("127.0.0.1", port)))
        thread.start(); thread.join()
        free = socket.socket(); free.bind(("127.0.0.1", 0))
        def error(address):
            s = socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET)
            return errno.errorcode[s.connect_ex(address)]
        os.mkdir("deep"); os.chdir("deep")
        local = socket.socket(socket.AF_UNIX); local.bind("../local.sock"); local.listen()
        os.symlink("../local.sock", "link")
        for name in ("../local.sock", "link", os.path.realpath("link")):
            s = socket.socket(socket.AF_UNIX); s.connect(name); s.send(b"x"); local.accept()[0].recv(1)
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); udp.connect(("127.0.0.1", port))
        print(error(free.getsockname()), error("missing"), error("../a.txt"))
        """
    )
    outcome = box.run(script)
    assert outcome.stdout == "ECONNREFUSED ENOENT ECONNREFUSED\n", outcome.stderr


LOOKING = """
import ctypes, os, signal
libc = ctypes.CDLL(None, use_errno=True)
PTRACE, READ, WRITE = (101, 310, 311) if os.uname().machine == "x86_64" else (117, 270, 271)
libc.prctl(0x59616D61, -1)  # whoever may by Yama's rule
child = os.fork()
if child == 0:
    signal.pause()
place = ctypes.create_string_buffer(8)
vector = (ctypes.c_uint64 * 2)(ctypes.addressof(place), 8)
for name, call in {
    "attach": (PTRACE, 16, child, 0, 0),
    "seize": (PTRACE, 0x4206, child, 0, 0),
    "attach to the first": (PTRACE, 16, 1, 0, 0),
    "read": (READ, child, vector, 1, vector, 1, 0),
    "write": (WRITE, child, vector, 1, vector, 1, 0),
    "take": (438, os.pidfd_open(child), 1, 0),
}.items():
    if libc.syscall(*call) >= 0:
        print(name)
libc.prctl(1, 9)
libc.prctl(1, 0)
got = ctypes.c_int()
libc.prctl(2, ctypes.byref(got))
os.kill(child, 9)
print("tried", got.value)
"""


def test_no_command_looks_into_another_process_or_leaves_its_parent(box: Box) -> None:
    for plan in (False, True):
        outcome = box.run(python(LOOKING), plan=plan)
        assert outcome.stdout == "tried 9\n", outcome.stderr


HOSTILE = """
import ctypes, os, sys
libc = ctypes.CDLL(None)
libc.prctl(1, 0)
for pid in (1, os.getppid()):
    libc.syscall(101, 16, pid, 0, 0)
if os.fork() == 0:
    os.setsid()
    libc.prctl(1, 0)
os.execvp("sleep", ["sleep", "{mark}"])
"""


@pytest.mark.thorough
@pytest.mark.parametrize("plan", [False, True])
@pytest.mark.parametrize("backend", RUNGS)
def test_a_command_ends_with_coder_however_coder_ends(backend: str, plan: bool) -> None:
    from test_sandbox_escapes import gone

    from kit.driving import left_running

    box = Box(backend)
    mark = f"4{time.time_ns() % 10**9:09d}"
    job = {
        "backend": backend, "workspace": str(box.workspace), "home": str(box.coder_home), "plan": plan,
        "environment": box.environment(), "spill": str(box.root / "spill"),
        "script": python(HOSTILE.replace("{mark}", mark)),
    }  # fmt: skip
    code = f"import sys; sys.path[:0] = {sys.path!r}; from box import run_job; run_job({job!r})"
    coder = subprocess.Popen([sys.executable, "-c", code], env=os.environ)
    try:
        deadline = time.monotonic() + 60
        while len(left_running(mark)) < 2 and time.monotonic() < deadline:
            time.sleep(0.02)
        assert len(left_running(mark)) >= 2
    finally:
        coder.kill()
        coder.wait()
    assert gone(mark)
    box.close()
