"""Drive the real `coder` process, or the real engine, in a directory of its own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from coder.engine.engine import Engine
from coder.engine.setup import Options, open_agent, provider_of, read_settings
from coder.models.scripted import ScriptedServer
from coder.protocol.events import AnyEvent, ApprovalRequested, InputDone, ToolCallChanged, localized
from coder.protocol.ops import AnyOp, ApprovalReply, UserInput
from kit.chaos import Chaos
from kit.fork_server import FORK_SERVER
from kit.validity import check_conversation

Event = dict[str, Any]


class Project:
    """A workspace and a home, with nothing of this machine's in the environment."""

    def __init__(self, root: Path) -> None:
        self.cwd = root / "project"
        self.home = root / "home"
        self.cwd.mkdir()
        self.home.mkdir()

    def environ(self, url: str = "", **more: str) -> dict[str, str]:
        """What a person's shell would hand on; `url` is a scripted server's."""
        provider = {"CODER_BASE_URL": url, "CODER_MODEL": "scripted"} if url else {}
        base = {
            "HOME": str(self.home),
            "CODER_HOME": str(self.home / ".coder"),
            "CODER_STRICT_TEXTS": "1",
            "LANG": "C.UTF-8",
            "PATH": os.environ["PATH"],
            "PYTHONWARNINGS": "error",
            "TMPDIR": tempfile.gettempdir(),  # of this run of the tests
        }
        return {**base, **provider, **more}

    def write(self, name: str, text: str | bytes) -> Path:
        path = self.cwd / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8"))
        return path

    def configure(self, **sections: Any) -> None:
        """The person's own configuration."""
        directory = self.home / ".coder"
        directory.mkdir(exist_ok=True)
        (directory / "config.json").write_text(json.dumps(sections), encoding="utf-8")

    # what was recorded

    def logs(self) -> list[Path]:
        return sorted((self.cwd / ".coder" / "history").glob("*.jsonl"))

    def events(self, log: Path | None = None) -> list[Event]:
        """The record of the one session, or of `log`."""
        logs = [log] if log else self.logs()
        assert len(logs) == 1, logs
        return [json.loads(line) for line in logs[0].read_text(encoding="utf-8").splitlines()]

    def of_type(self, kind: str) -> list[Event]:
        return [event for event in self.events() if event["type"] == kind]

    def snapshot(self) -> dict[str, Any]:
        (path,) = (self.cwd / ".coder" / "sessions").glob("*.json")
        loaded: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return loaded

    # the process

    def coder(
        self,
        *args: str,
        url: str = "",
        stdin: str | bytes | None = None,
        env: dict[str, str] | None = None,
        timeout: float = 60,
        cold: bool = False,
    ) -> subprocess.CompletedProcess[str]:
        """Run the command to its end. Output is text; undecodable bytes are shown as escapes.

        `cold`: by a new interpreter, for tests of how it starts."""
        given = stdin.encode("utf-8") if isinstance(stdin, str) else stdin
        environ = self.environ(url, **(env or {}))
        done = None if cold else FORK_SERVER.run(list(args), environ, self.cwd, given, timeout)
        if done is None:
            done = subprocess.run(
                [sys.executable, "-m", "coder", *args],
                cwd=self.cwd,
                env=environ,
                input=given,
                stdin=subprocess.DEVNULL if given is None else None,
                capture_output=True,
                timeout=timeout,
                check=False,
            )
        out, err = (b.decode("utf-8", errors="backslashreplace") for b in (done.stdout, done.stderr))
        assert "Traceback" not in err, err
        return subprocess.CompletedProcess(done.args, done.returncode, out, err)

    def started(self, *args: str, url: str, env: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
        """Start the command and leave it running; the caller ends it."""
        return subprocess.Popen(
            [sys.executable, "-m", "coder", *args],
            cwd=self.cwd,
            env=self.environ(url, **(env or {})),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )


Answerer = Callable[[ApprovalRequested], ApprovalReply | None]


class Driver:
    """The engine in this process: ops in, events out."""

    def __init__(self, project: Project, url: str, **options: Any) -> None:
        self.options = Options(
            cwd=project.cwd, environ=project.environ(url), **{"session_kind": "test", **options}
        )
        settings = read_settings(self.options)
        self.texts = settings.texts
        provider = provider_of(self.options, settings)
        self.engine = Engine(lambda emit: open_agent(self.options, settings, provider, emit))
        self.told: list[AnyEvent] = []  # as the engine tells them
        self.seen: list[AnyEvent] = []  # in the words of the one language that this front end has
        self.chats: list[dict[str, Any]] = []  # filled in by tests that look at the requests

    def start(self, resume: str | None = None) -> None:
        self.engine.start(resume)

    async def send(self, text: str, answer: Answerer | None = None) -> list[AnyEvent]:
        """One input, to its end; approvals are answered by `answer`."""
        self.engine.submit(UserInput(text))
        return await self.until_idle(answer)

    async def until_idle(
        self, answer: Answerer | None = None, watch: Callable[[AnyEvent], None] | None = None
    ) -> list[AnyEvent]:
        events: list[AnyEvent] = []
        loop = asyncio.get_running_loop()
        # Against a test that hangs: no event for a minute. How long a turn takes is the machine's affair.
        async with asyncio.timeout(60) as guard:
            async for told in self.engine.events():
                event = self._worded(told)
                guard.reschedule(loop.time() + 60)
                events.append(event)
                if watch is not None:
                    watch(event)
                if isinstance(event, ApprovalRequested) and answer is not None:
                    reply = answer(event)
                    if reply is not None:
                        self.engine.submit(reply)
                if isinstance(event, InputDone):
                    break
        self.seen += events
        return events

    async def close(self) -> None:
        closing = asyncio.create_task(self.engine.close())
        async for told in self.engine.events():
            self.seen.append(self._worded(told))
        await closing

    def _worded(self, event: AnyEvent) -> AnyEvent:
        self.told.append(event)
        return localized(event, self.texts)


def drive(
    project: Project,
    url: str,
    inputs: Sequence[str],
    *,
    resume: str | None = None,
    answer: Answerer | None = None,
    **options: Any,
) -> Driver:
    """Send the inputs one after the other in a session, and close it; approvals are answered by `answer`."""

    async def run() -> Driver:
        driver = Driver(project, url, **options)
        driver.start(resume)
        for text in inputs:
            await driver.send(text, answer)
        await driver.close()
        return driver

    return asyncio.run(run())


def of(events: Sequence[AnyEvent], kind: type[Any]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


def left_running(word: str) -> list[int]:
    """Processes that have `word` as an argument, as seen from here: a sandbox numbers them otherwise."""
    found = []
    for pid in processes():
        with contextlib.suppress(OSError):
            if word.encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
                found.append(pid)
    return found


def processes() -> list[int]:
    """All that were there a moment ago. `glob` would look at each and fail at one that has just ended."""
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def play(project: Project, script: Sequence[Any], inputs: Sequence[str] = ("go",), **options: Any) -> Driver:
    """These inputs in a session with a scripted model; its requests, all of them valid conversations, are in
    the driver's `chats`."""
    with Chaos(script) as server:
        driver = drive(project, server.url, inputs, **options)
        driver.chats = server.chats
    for chat in driver.chats:
        check_conversation(chat["messages"])
    return driver


def during_a_call(project: Project, script: list[Any], *ops: AnyOp) -> Driver:
    """Submit the ops as soon as the first call runs."""

    async def scenario(url: str) -> Driver:
        driver = Driver(project, url, mode="yolo")
        waiting = list(ops)

        def watch(event: Any) -> None:
            if isinstance(event, ToolCallChanged) and event.state == "executing":
                while waiting:
                    driver.engine.submit(waiting.pop(0))

        driver.start()
        driver.engine.submit(UserInput("go"))
        await driver.until_idle(watch=watch)
        await driver.close()
        return driver

    with ScriptedServer(script) as server:
        driver = asyncio.run(scenario(server.url))
        driver.chats = server.chats
        return driver
