"""Commands whose connections coder makes: they are children like others, with no process between, and nothing
of theirs is left in coder's own."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import struct
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from box import Box, available, level_of
from test_mcp_sandbox import entry, shell
from test_mcp_sandbox import played as played_by_server
from test_sandbox_engine import played

from coder.base.process.child import Child
from coder.base.process.programs import Runs
from coder.base.process.run import ProcessOutcome, run_process
from coder.policy.sandbox.backends import Sandbox
from coder.policy.sandbox.connect import mediated
from kit.driving import Project
from kit.mcp_client import until

pytestmark = pytest.mark.skipif("bwrap" not in available(), reason="for the strong backend")
ENVIRONMENT = {"PATH": os.environ["PATH"]}


@pytest.fixture
def root() -> Iterator[Path]:
    """Short: the name of a socket has 108 bytes."""
    directory = Path(os.path.realpath(tempfile.mkdtemp(prefix="med-")))
    yield directory
    shutil.rmtree(directory)


def python(text: str, *words: str) -> list[str]:
    return mediated([sys.executable, "-I", "-S", "-c", text, *words])


async def run(root: Path, line: list[str]) -> ProcessOutcome:
    return await run_process(
        line,
        runs=Runs.IN_SANDBOX,
        cwd=root,
        environment=ENVIRONMENT,
        timeout_ms=60_000,
        keep_bytes=10_000,
        spill_to=root / "spill",
        spill_limit=0,
        on_output=lambda text: None,
    )


def held() -> tuple[int, int]:
    """Threads and descriptors of this process."""
    threads, descriptors = Path("/proc/self/task"), Path("/proc/self/fd")
    return len(list(threads.iterdir())), len(list(descriptors.iterdir()))


async def until_only(before: tuple[int, int]) -> None:
    await until(lambda: all(now <= then for now, then in zip(held(), before, strict=True)))


def listening(path: Path, backlog: int = 50) -> socket.socket:
    found = socket.socket(socket.AF_UNIX)
    found.bind(str(path))
    found.listen(backlog)
    found.settimeout(30)
    return found


CONNECT = "import _socket, sys; s = _socket.socket(1); print(s.connect_ex(sys.argv[1]))"


def test_coder_itself_makes_the_connection(root: Path) -> None:
    with listening(root / "s") as server:
        assert asyncio.run(run(root, python(CONNECT, "s"))).stdout == "0\n"
        client, _ = server.accept()
        with client:
            told = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        assert struct.unpack("3i", told)[0] == os.getpid()


def test_no_process_stands_between() -> None:
    """What coder starts becomes bubblewrap itself."""
    box = Box("bwrap")
    sandbox = Sandbox(level_of("bwrap"), box.workspace, box.coder_home, environment=box.environment())

    async def scenario() -> None:
        line = sandbox.wrap(["sleep", "3600"])
        child = Child(
            line, runs=Runs.IN_SANDBOX, cwd=box.workspace, environment=ENVIRONMENT, sink=lambda *_: None
        )
        program = Path(f"/proc/{child.pid}/exe")
        await until(lambda: program.resolve().name == Path(sandbox.level.program).resolve().name)
        assert child.end() in (-9, 137)  # itself killed, or told by its own end that what it ran was

    asyncio.run(scenario())
    box.close()


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (["/nonexistent/program"], FileNotFoundError),
        (["/etc/passwd"], PermissionError),
        (["/a\0b"], ValueError),
    ],
)
def test_what_cannot_be_started_is_told_as_of_any_program(
    root: Path, line: list[str], problem: type[Exception]
) -> None:
    async def scenario() -> None:
        before = held()
        with pytest.raises(problem):
            Child(
                mediated(line), runs=Runs.IN_SANDBOX, cwd=root, environment=ENVIRONMENT, sink=lambda *_: None
            )
        await until_only(before)

    asyncio.run(scenario())


def test_nor_where_the_kernel_refuses(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would have sockets, and nobody to look after them."""

    async def scenario() -> None:
        before = held()
        monkeypatch.setattr("coder.policy.sandbox.connect.connect_filter", lambda servers: b"no program")
        with pytest.raises(OSError, match="Invalid argument"):
            Child(
                mediated(["/usr/bin/touch", "ran"]),
                runs=Runs.IN_SANDBOX,
                cwd=root,
                environment=ENVIRONMENT,
                sink=lambda *_: None,
            )
        await until_only(before)
        assert not (root / "ran").exists()

    asyncio.run(scenario())


def test_it_inherits_its_three_streams_and_nothing_else(root: Path) -> None:
    with Path(os.devnull).open("rb") as file:
        os.set_inheritable(file.fileno(), True)
        found = asyncio.run(
            run(root, python("import os; print(sorted(map(int, os.listdir('/proc/self/fd'))))"))
        )
    assert found.stdout == "[0, 1, 2, 3]\n"  # the last is the directory that is being listed


@pytest.mark.parametrize(("script", "status"), [("exit 5", 5), ("kill -9 $$", 137), ("kill -15 $$", 143)])
def test_its_end_is_told_as_a_shell_tells_it(root: Path, script: str, status: int) -> None:
    assert asyncio.run(run(root, mediated(["/bin/sh", "-c", script]))).exit_code == status


def test_many_at_once_each_with_connections_of_their_own(root: Path) -> None:
    async def scenario() -> None:
        text = f"{CONNECT}; s.send(sys.argv[2].encode())"
        outcomes = await asyncio.gather(*(run(root, python(text, "s", str(n))) for n in range(12)))
        assert [outcome.stdout for outcome in outcomes] == ["0\n"] * 12

    with listening(root / "s") as server:
        asyncio.run(scenario())
        clients = [server.accept()[0] for _ in range(12)]
        assert {int(client.recv(9)) for client in clients} == set(range(12))
        for client in clients:
            client.close()


@pytest.mark.thorough
def test_nothing_is_left_of_two_hundred(root: Path) -> None:
    async def scenario() -> None:
        before = held()
        for _ in range(20):
            lines = [python(CONNECT, "none"), *[mediated(["/bin/true"])] * 9]
            await asyncio.gather(*(run(root, line) for line in lines))
        await until_only(before)

    asyncio.run(scenario())


def test_a_connection_that_waits_holds_up_no_other_and_ends_with_the_command(root: Path) -> None:
    """A full queue: who connects to it waits until somebody is let in."""
    script = """
import os, _socket, sys, time
told, tells = os.pipe()
for _ in range(3):
    if os.fork() == 0:
        os.write(tells, b".")
        _socket.socket(1).connect("full")
        time.sleep(3600)
for _ in range(3):
    os.read(told, 1)
time.sleep(0.3)
print(_socket.socket(1).connect_ex("free"))
"""

    async def scenario() -> None:
        before = held()
        with listening(root / "free"), listening(root / "full", 0) as full:
            outcome = await run(root, python(script))
            assert (outcome.stdout, outcome.exit_code) == ("0\n", 0)
            assert held()[0] > before[0]  # they still wait
            full.close()
        await until_only(before)

    asyncio.run(scenario())


@pytest.mark.parametrize("place", ["8", "2 ** 63", "2 ** 64 - 1"])
def test_an_address_that_is_nowhere_gets_an_answer(root: Path, place: str) -> None:
    text = (
        "import ctypes, _socket; s = _socket.socket(1); c = ctypes.CDLL(None)\n"
        f"print(c.connect(s.fileno(), ctypes.c_void_p({place}), 100))"
    )
    line = mediated([sys.executable, "-c", text])
    assert asyncio.run(run(root, line)).stdout == "-1\n"


# whoever starts it


TRIED = """
import errno, socket, sys
for path in sys.argv[1:]:
    print(errno.errorcode.get(socket.socket(socket.AF_UNIX).connect_ex(path), "open"))
"""


@pytest.mark.parametrize("who", ["command", "job", "server"])
def test_sockets_outside_are_closed_and_those_inside_are_open(
    project: Project, who: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project.cwd)
    project.write("tried.py", TRIED)
    line = "python3 tried.py ../agent own"
    with listening(Path("../agent")) as outside, listening(Path("own")) as inside:
        if who == "server":
            _, (said,) = played_by_server(project, "bwrap", shell(line), entry(project))
        else:
            more: dict[str, Any] = {"background": True} if who == "job" else {}
            call = {"name": "bash", "arguments": {"command": line, **more}}
            wait = {"name": "job", "arguments": {"action": "wait", "id": "1"}}
            steps = [{"calls": [call]}, *([{"calls": [wait]}] if more else []), {"text": "ok"}]
            played(project, "bwrap", steps)
            said = "\n".join(event["content"] for event in project.of_type("observation"))
        assert "EACCES\nopen" in said
        outside.setblocking(False)
        with pytest.raises(BlockingIOError):
            outside.accept()
        inside.accept()[0].close()
