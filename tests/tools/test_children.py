"""Children: each is its owner's, who learns how it ended whatever others clear away meanwhile."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from coder.base.process.child import STDERR, STDOUT, Child, shell_status
from coder.base.process.programs import Runs
from coder.base.process.run import ProcessOutcome, run_process
from kit.mcp_client import running, until

ENVIRONMENT = {"PATH": os.environ["PATH"]}


class Heard:
    """What a child printed, by stream; the empty bytes of its ends included."""

    def __init__(self) -> None:
        self.data: dict[int, list[bytes]] = {STDOUT: [], STDERR: []}

    def add(self, stream: int, data: bytes) -> None:
        self.data[stream].append(data)


def start(root: Path, heard: Heard, *argv: str, with_stdin: bool = False) -> Child:
    return Child(
        [shutil.which(argv[0]) or "", *argv[1:]],
        runs=Runs.IN_SANDBOX,
        cwd=root,
        environment=ENVIRONMENT,
        sink=heard.add,
        with_stdin=with_stdin,
    )


async def command(root: Path, line: str) -> ProcessOutcome:
    return await run_process(
        ["/bin/sh", "-c", line],
        runs=Runs.IN_SANDBOX,
        cwd=root,
        environment=ENVIRONMENT,
        timeout_ms=30_000,
        keep_bytes=10_000,
        spill_to=root / "spill",
        spill_limit=1000,
        on_output=lambda text: None,
    )


def test_a_child_reads_its_input_to_its_end(tmp_path: Path) -> None:
    async def scenario() -> None:
        heard = Heard()
        child = start(tmp_path, heard, "sh", "-c", "cat; echo over >&2; exit 5", with_stdin=True)
        os.write(child.stdin, b"line\n")
        child.close_stdin()
        child.close_stdin()
        async with asyncio.timeout(30):
            await child.exited.wait()
            await child.drained.wait()
        assert child.end() == 5
        assert heard.data == {STDOUT: [b"line\n", b""], STDERR: [b"over\n", b""]}

    asyncio.run(scenario())


def test_without_input_there_is_none(tmp_path: Path) -> None:
    async def scenario() -> None:
        heard = Heard()
        child = start(tmp_path, heard, "cat")
        async with asyncio.timeout(30):
            await child.exited.wait()
        assert child.stdin == -1
        assert child.end() == 0

    asyncio.run(scenario())


def test_a_dead_wrapper_that_somebody_owns_is_left_to_him(tmp_path: Path) -> None:
    """A command that ends clears away dead `bwrap` processes that nobody has; a server that runs in one, and
    has just died, is somebody's: its exit status must not be lost."""
    wrapper = tmp_path / "bwrap"
    shutil.copy(shutil.which("sleep") or "", wrapper)

    async def scenario() -> None:
        child = start(tmp_path, Heard(), str(wrapper), "not a time")
        async with asyncio.timeout(30):
            await child.exited.wait()
        assert (await command(tmp_path, "true")).exit_code == 0
        assert child.end() == 1

    asyncio.run(scenario())


def test_a_running_child_survives_the_commands_beside_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        heard = Heard()
        child = start(tmp_path, heard, "cat", with_stdin=True)
        outcome = await command(tmp_path, "setsid sleep 3600 >/dev/null 2>&1 & echo $!; exit 4")
        assert outcome.exit_code == 4
        assert not running(int(outcome.stdout))
        os.write(child.stdin, b"here")
        await until(lambda: heard.data[STDOUT])
        assert child.end() == -9

    asyncio.run(scenario())


def test_ending_reaches_what_has_left_the_group(tmp_path: Path) -> None:
    async def scenario() -> None:
        heard = Heard()
        child = start(tmp_path, heard, "sh", "-c", "setsid sleep 3600 >/dev/null 2>&1 & echo $!; wait")
        await until(lambda: heard.data[STDOUT])
        stray = int(heard.data[STDOUT][0])
        assert running(stray)
        child.end(gently=True)
        assert not running(stray)

    asyncio.run(scenario())


@pytest.mark.parametrize(("returncode", "status"), [(0, 0), (3, 3), (-9, 137), (-15, 143)])
def test_a_status_as_a_shell_tells_it(returncode: int, status: int) -> None:
    assert shell_status(returncode) == status
