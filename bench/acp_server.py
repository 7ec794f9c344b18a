"""Measure `coder acp` and write bench/ACP.md: start to first answer, prompt to first request, streaming.

./dev bench acp [--runs N]

Beside it, in turns: an agent of the official SDK that does nothing, which is what a server built on it pays
before its first line of work.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Self

from place import Installed, Server, Workspace
from processes import LONG_ANSWER, Times
from run import table

REPORT = Path(__file__).with_name("ACP.md")
SDK = "agent-client-protocol==0.12.1"
SDK_AGENT = """
import asyncio
import acp

class Agent(acp.Agent):
    async def initialize(self, protocol_version, **_):
        return acp.InitializeResponse(protocol_version=1)

asyncio.run(acp.run_agent(Agent()))
"""


class Session:
    """An agent's process with a client that does nothing but wait for answers."""

    def __init__(self, argv: list[str], workspace: Workspace) -> None:
        self._workspace = workspace
        self.begun = time.monotonic_ns()
        self.process = subprocess.Popen(
            argv,
            cwd=workspace.cwd,
            env=workspace.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self.lines = 0
        self._last = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.communicate(timeout=10)

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._last += 1
        request = {"jsonrpc": "2.0", "id": self._last, "method": method, "params": params}
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self.process.stdin.flush()
        while line := self.process.stdout.readline():
            self.lines += 1
            message: dict[str, Any] = json.loads(line)
            if message.get("id") == self._last:
                return message
        raise AssertionError("the agent has ended")

    def initialize(self) -> float:
        """Milliseconds from the start of the process."""
        self.ask("initialize", protocolVersion=1, clientCapabilities={})
        return (time.monotonic_ns() - self.begun) / 1e6

    def new(self) -> str:
        answer = self.ask("session/new", cwd=str(self._workspace.cwd), mcpServers=[])
        return str(answer["result"]["sessionId"])

    def prompt(self, session: str) -> int:
        """The moment at which it was sent."""
        sent = time.monotonic_ns()
        answer = self.ask("session/prompt", sessionId=session, prompt=[{"type": "text", "text": "hi"}])
        assert answer["result"]["stopReason"] == "end_turn", answer
        return sent

    def cpu_ms(self) -> float:
        """Of its main thread so far: what a busy machine changes least."""
        return int(Path(f"/proc/{self.process.pid}/schedstat").read_text(encoding="ascii").split()[0]) / 1e6


def import_cpu_ms(installed: Installed, workspace: Workspace) -> float:
    line = "import acp, time; print(time.process_time())"
    done = subprocess.run(
        [installed.python, "-c", line],
        check=True,
        capture_output=True,
        env=workspace.environment,
        cwd=workspace.cwd,
    )
    return float(done.stdout) * 1000


def measured(installed: Installed, server: Server, workspace: Workspace, runs: int) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {name: [] for name in (*WALL, *CPU, "stream", "lines")}
    for _ in range(runs):
        found["import cpu"].append(import_cpu_ms(installed, workspace))
        with Session([installed.python, "-c", SDK_AGENT], workspace) as theirs:
            found["sdk"].append(theirs.initialize())
            found["sdk cpu"].append(theirs.cpu_ms())
        server.script()
        with Session([installed.coder, "acp"], workspace) as ours:
            found["initialize"].append(ours.initialize())
            found["initialize cpu"].append(ours.cpu_ms())
            session = ours.new()
            found["ready"].append((time.monotonic_ns() - ours.begun) / 1e6)
            for name in ("first", "second"):
                sent = ours.prompt(session)
                found[name].append((server.log()[-1]["first"] - sent) / 1e6)
            server.script(text_bytes=LONG_ANSWER)
            before, lines = ours.cpu_ms(), ours.lines
            ours.prompt(session)
            found["stream"].append(ours.cpu_ms() - before)
            found["lines"].append(ours.lines - lines)
    return found


WALL = {
    "initialize": "process start → `initialize` answered",
    "ready": "process start → `session/new` answered",
    "first": "first prompt → first byte of the request",
    "second": "second prompt → first byte of the request",
    "sdk": "an SDK agent that does nothing: start → `initialize` answered",
}
CPU = {
    "initialize cpu": "process start → `initialize` answered",
    "import cpu": "`python -c 'import acp'` (the official SDK)",
    "sdk cpu": "an SDK agent that does nothing: start → `initialize` answered",
}
HEADING = """\
# What `coder acp` costs

Written by `./dev bench acp`: an installed and compiled wheel, {runs} runs in turns with the others. {cores}
cores shared with other work (load {load:.1f} while it ran), {python}. Milliseconds: median (minimum).
Wall time suffers from the load, CPU time much less.
"""
STREAM = """\
A 200 KB answer in 12,500 deltas: {cpu} ms of CPU time in the server from prompt to answer, {lines:.0f} lines
to the client, which reads as fast as it can (a slower one gets fewer and longer pieces).
"""


def rows(unit: str, what: dict[str, str], found: dict[str, list[float]]) -> list[str]:
    times = {key: Times(found[key]) for key in what}
    base = next(iter(times.values()))
    body = [[text, str(times[key]), times[key].over(base)] for key, text in what.items()]
    return table(["what", unit, "against our `initialize`"], body)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=15)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as name, Server() as server:
        installed = Installed(Path(name))
        pip = [installed.python, "-m", "pip", "install", "--quiet", "--compile", SDK]
        subprocess.run(pip, check=True, env={**os.environ, "PYTHONDONTWRITEBYTECODE": ""})
        compile_all = [installed.python, "-m", "compileall", "-q", str(installed.directory / "lib")]
        subprocess.run(compile_all, check=False, stdout=subprocess.DEVNULL)
        workspace = Workspace(Path(name), server.url)
        found = measured(installed, server, workspace, runs)
        python = installed.python_version()
    lines = [
        HEADING.format(runs=runs, cores=os.cpu_count(), python=python, load=os.getloadavg()[0]),
        *rows("wall ms", WALL, found),
        *rows("CPU ms", CPU, found),
        STREAM.format(cpu=Times(found["stream"]), lines=Times(found["lines"]).median),
    ]
    text = "\n".join(lines)
    print(text)
    REPORT.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
