"""Runs a task with a model in one dialect, in a throw-away directory, and tells what came of it."""

from __future__ import annotations

import asyncio
import contextlib
import re
import tempfile
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from coder import (
    CallReady,
    ChatModel,
    Chunk,
    Completed,
    ModelError,
    ModelRequest,
    TextDelta,
    ToolSet,
    closing,
    create_agent_session,
    throwaway_environment,
)
from coder.addons.tune.tune_tasks import UNITTEST, Task
from coder.base.http.client import HttpClient
from coder.base.http.errors import HttpError
from coder.protocol.messages import Usage, tool_call
from coder.texts import Catalog

MOST_STEPS = 20
_CHECK_SECONDS = 30
_LOOK_SECONDS = 0.1  # least time between two looks at the clock
OWN_MODEL = "custom"  # what a session calls a model that it was given


class Outcome(msgspec.Struct, frozen=True):
    """`why`: the reason of a failure, for whoever reads the table."""

    task: str
    done: bool
    steps: int = 0
    usage: Usage = Usage()
    seconds: float = 0.0
    why: str = ""


class Named:
    """A model under its real name, which is not closed with a task's session. `fault`: why it could not be
    asked the last time."""

    def __init__(self, inner: ChatModel, name: str) -> None:
        self._inner, self._name = inner, name
        self.fault: ModelError | None = None

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        self.fault = None
        try:
            async with closing(
                self._inner.stream(msgspec.structs.replace(request, model=self._name))
            ) as chunks:
                async for chunk in chunks:
                    yield chunk
        except ModelError as fault:
            self.fault = fault
            raise

    async def close(self) -> None:
        """The model is used for further tasks."""


class _OneCommand:
    """A model that runs one command: what a task's check runs in is the sandbox that commands have."""

    def __init__(self, command: str) -> None:
        self._command: str | None = command

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        command, self._command = self._command, None
        if command is None:
            yield TextDelta("done")
        else:
            arguments = msgspec.json.encode({"command": command, "timeout_ms": _CHECK_SECONDS * 1000})
            yield CallReady(tool_call("check", "bash", arguments.decode()))
        yield Completed("stop", Usage(prompt=1, completion=1, total=2))

    async def close(self) -> None:
        """Nothing is open."""


@contextlib.contextmanager
def laid_out(task: Task) -> Iterator[Path]:
    """The task's directory, inside another that nothing may be written to."""
    top = Path(tempfile.mkdtemp(prefix="coder-tune-"))
    directory = top / "work"
    try:
        for name, text in task.files.items():
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        yield directory
    finally:
        from coder import remove_tree, scratch_of

        remove_tree(Path(scratch_of(directory)))
        remove_tree(top)


async def run_task(
    task: Task,
    model: ChatModel,
    seconds: float,
    texts: Catalog,
    *,
    person: Mapping[str, Any],
    tools: ToolSet = "all",
    clock: Callable[[], float] = time.monotonic,
) -> Outcome:
    """`person`: their settings, which hold here too. Never longer than `seconds` by `clock`, which goes no
    faster than time does."""
    with laid_out(task) as directory:
        environ, config = surroundings(task, directory.parent, person, tools)
        began = clock()
        session = create_agent_session(
            cwd=directory, mode="yolo", model=model, environ=environ, config_file=config, max_steps=MOST_STEPS
        )
        turn = asyncio.ensure_future(session.run_turn(task.ask))
        try:
            while not turn.done() and (left := began + seconds - clock()) > 0:
                await asyncio.wait([turn], timeout=max(left, _LOOK_SECONDS))
        finally:
            if not turn.done():
                turn.cancel()
                await asyncio.wait([turn])
            await session.close()
        took = clock() - began
        if turn.cancelled():
            return Outcome(
                task.name, False, seconds=took, why=texts.say("cli.tune.late", seconds=f"{seconds:.0f}")
            )
        result = turn.result()
        why = result.error or await fault_of(task, directory, result.final_text, environ)
        return Outcome(task.name, not why, len(result.steps), result.token_usage, took, why)


async def fault_of(task: Task, directory: Path, answer: str, environ: Mapping[str, str]) -> str:
    """Why the task is not done; empty if it is."""
    for pattern in task.answer:
        if not re.search(pattern, answer):
            return f"answer: no {pattern}"
    for name in task.kept:
        if (directory / name).read_text(encoding="utf-8", errors="replace") != task.files[name]:
            return f"changed: {name}"
    if not task.check:
        return ""
    script = directory / ".check.py"
    script.write_text(f"import sys\nsys.path.insert(0, '')\n{task.check}\n", encoding="utf-8")
    session = create_agent_session(
        cwd=directory, mode="yolo", model=_OneCommand("python3 -B .check.py"), environ=environ
    )
    async with session:
        result = await session.run_turn("check")
    told = result.steps[0].observations if result.steps else []
    if told and not told[0].startswith("error"):
        return ""
    return _reason(told[0]) if told else result.error


def _reason(output: str) -> str:
    """What a check that failed has to say: its error, or what it asserts."""
    last = output.strip().rpartition("\n")[2]
    if last == "AssertionError":
        last = re.findall(r"\bassert .+|\Z", output)[0] or "check"
    return last[:120]


def surroundings(
    task: Task, place: Path, person: Mapping[str, Any], tools: ToolSet = "all"
) -> tuple[dict[str, str], Path]:
    """A session's environment, and the file with the task's settings. `tools`: as kept for a model."""
    workflow: dict[str, Any] = {
        "verify_commands": [task.test] if task.test else [],
        "verify_allow": [UNITTEST],
        "auto_verify_after_edit": bool(task.test),
    }
    config = place / "config.json"
    own = {"models": {OWN_MODEL: {"tools": tools}}}
    config.write_bytes(msgspec.json.encode({"workflow": workflow, "provider": own}))
    return throwaway_environment(place, person), config


_SECONDS = 2.0
_LIMIT = 1 << 20
_FIELDS = ("n_ctx", "max_model_len", "loaded_context_length", "max_context_length", "context_length")


async def probe_window(base_url: str, model: str) -> int:
    """In tokens; 0 where the server does not say."""
    base = base_url.partition("?")[0].rstrip("/")
    http = HttpClient(idle=_SECONDS)
    try:
        async with asyncio.timeout(_SECONDS):
            for url in (base.removesuffix("/v1") + "/props", base + "/models"):
                if window := _window(await _get(http, url), model):
                    return window
    except (HttpError, TimeoutError, OSError):
        return 0
    finally:
        await http.close()
    return 0


async def _get(http: HttpClient, url: str) -> Any:
    response = await http.request("GET", url, {"Accept": "application/json"})
    try:
        body = await response.read(_LIMIT)
        return msgspec.json.decode(body) if response.status < 400 else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    finally:
        response.abort()


def _window(data: Any, model: str) -> int:
    """The first such field, of the server itself, of this model, or of the only one that it has."""
    if not isinstance(data, dict):
        return 0
    listed = data.get("data")
    models = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    named = [one for one in models if one.get("id") == model]
    own = (named or models)[0] if named or len(models) == 1 else {}
    places = [data.get("default_generation_settings"), data, own, own.get("meta")]
    told = [place for place in places if isinstance(place, dict)]
    found = (place.get(name) for place in told for name in _FIELDS)
    return next((value for value in found if type(value) is int and value > 0), 0)
