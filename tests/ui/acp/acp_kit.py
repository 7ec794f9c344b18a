"""An editor for tests: the official SDK's client over a real `coder acp` process, and the bare line for what
no SDK would send."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import acp
from acp.schema import (
    AcceptElicitationResponse,
    AllowedOutcome,
    ClientCapabilities,
    DeclineElicitationResponse,
    DeniedOutcome,
    ElicitationCapabilities,
    ElicitationFormCapabilities,
    InitializeResponse,
    NewSessionResponse,
    PromptResponse,
    RequestPermissionResponse,
)
from acp.stdio import spawn_agent_process

from kit import ScriptedServer
from kit.driving import Project

PATIENCE = 30.0  # seconds: the machine may be busy
Answerer = Callable[[dict[str, Any]], str | None]
Filler = Callable[[dict[str, Any]], dict[str, Any] | None]


class Client:
    """What an editor keeps: every update in order, by session, and every question it was asked."""

    def __init__(self, answer: Answerer | None = None) -> None:
        self.answer = answer or (lambda asked: "allow")
        self.fill: Filler | None = None  # answers forms; without one it has none
        self.forms: list[dict[str, Any]] = []
        self.updates: list[tuple[str, dict[str, Any]]] = []
        self.asked: list[dict[str, Any]] = []
        self.decides = asyncio.Event()  # cleared: questions wait until it is set
        self.decides.set()
        self._changed = asyncio.Event()

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        told = update.model_dump(mode="json", by_alias=True, exclude_unset=True)
        self.updates.append((session_id, told))
        self._changed.set()

    async def request_permission(
        self, session_id: str, tool_call: Any, options: list[Any], **_: Any
    ) -> RequestPermissionResponse:
        asked = {
            "session": session_id,
            "call": tool_call.model_dump(mode="json", by_alias=True, exclude_unset=True),
            "options": {option.option_id: option.kind for option in options},
            "names": {option.option_id: option.name for option in options},
        }
        self.asked.append(asked)
        self._changed.set()
        await self.decides.wait()
        chosen = self.answer(asked)
        if chosen is None:  # nobody decides
            await asyncio.Event().wait()
        if chosen == "cancelled":
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=str(chosen)))

    async def create_elicitation(self, message: str, mode: Any, **_: Any) -> Any:
        form = mode.model_dump(mode="json", by_alias=True, exclude_unset=True)
        self.forms.append(form)
        assert self.fill is not None
        content = self.fill(form)
        if content is None:
            return DeclineElicitationResponse(action="decline")
        return AcceptElicitationResponse(action="accept", content=content)

    def on_connect(self, conn: Any) -> None:
        """Nothing is wanted of the agent here."""

    # what came

    def of(self, kind: str, session: str = "") -> list[dict[str, Any]]:
        return [u for s, u in self.updates if u["sessionUpdate"] == kind and (not session or s == session)]

    def text(self, kind: str = "agent_message_chunk", session: str = "") -> str:
        return "".join(u["content"]["text"] for u in self.of(kind, session))

    def calls(self) -> dict[str, dict[str, Any]]:
        """Tool calls as an editor has them: what came last of every field."""
        found: dict[str, dict[str, Any]] = {}
        for _, update in self.updates:
            if update["sessionUpdate"] == "tool_call":
                found[update["toolCallId"]] = dict(update)
            elif update["sessionUpdate"] == "tool_call_update":
                found[update["toolCallId"]] |= update
        return found

    def call(self) -> dict[str, Any]:
        (one,) = self.calls().values()
        return one

    async def until(self, what: Callable[[], Any]) -> None:
        """Until it holds; looked at whenever something comes."""
        async with asyncio.timeout(PATIENCE):
            while not what():
                self._changed.clear()
                await self._changed.wait()


class Editor:
    """The client, its connection, and the agent's process."""

    def __init__(self, client: Client, agent: Any, process: Any, project: Project) -> None:
        self.client = client
        self.agent = agent
        self.process = process
        self.project = project
        self.hello: InitializeResponse

    async def new(self, **more: Any) -> str:
        return (await self.opened(**more)).session_id

    async def opened(self, **more: Any) -> NewSessionResponse:
        given = {"cwd": str(self.project.cwd), "mcp_servers": [], **more}
        answer: NewSessionResponse = await _soon(self.agent.new_session(**given))
        return answer

    async def prompt(self, session: str, *blocks: Any) -> PromptResponse:
        prompt = [acp.text_block(b) if isinstance(b, str) else b for b in blocks]
        answer: PromptResponse = await _soon(self.agent.prompt(session_id=session, prompt=prompt))
        return answer


async def _soon(work: Any) -> Any:
    async with asyncio.timeout(PATIENCE):
        return await work


@contextlib.asynccontextmanager
async def editor(
    project: Project,
    url: str,
    answer: Answerer | None = None,
    *args: str,
    fill: Filler | None = None,
    **environ: str,
) -> AsyncIterator[Editor]:
    """`coder acp` with the SDK at the other end. It must end well: status 0, and no traceback in its log.
    `fill`: the client has forms, which this answers."""
    client = Client(answer)
    client.fill = fill
    forms = ElicitationCapabilities(form=ElicitationFormCapabilities())
    can = ClientCapabilities(elicitation=forms if fill else None)
    async with spawn_agent_process(
        client,  # type: ignore[arg-type]  # the SDK's protocol wants methods too that we never offer
        sys.executable,
        *("-m", "coder", "acp", *args),
        env=project.environ(url, **environ),
        cwd=project.cwd,
        transport_kwargs={"limit": 1 << 26, "shutdown_timeout": PATIENCE},
        use_unstable_protocol=fill is not None,  # forms still are, to this SDK
    ) as (agent, process):
        with_agent = Editor(client, agent, process, project)
        hello = agent.initialize(protocol_version=acp.PROTOCOL_VERSION, client_capabilities=can)
        with_agent.hello = await _soon(hello)
        yield with_agent
    assert process.stderr is not None
    said = (await process.stderr.read()).decode("utf-8")
    # The SDK leaves the pipes to the loop, which may end before it has seen their ends.
    process._transport.close()  # type: ignore[attr-defined]  # there is no public way
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert process.returncode in (0, -9), said  # -9: the test itself did it
    assert "Traceback" not in said


def converse(
    project: Project,
    script: list[Any],
    scenario: Any,
    answer: Answerer | None = None,
    *args: str,
    fill: Filler | None = None,
    **env: str,
) -> ScriptedServer:
    """Run the scenario against a process of its own."""

    async def run(url: str) -> None:
        async with editor(project, url, answer, *args, fill=fill, **env) as found:
            await scenario(found)

    with ScriptedServer(script) as server:
        asyncio.run(run(server.url))
    return server


class Line:
    """`coder acp` with nothing but its two streams."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self._last = 100
        self._watch = self._watched()

    def _watched(self) -> threading.Timer:
        """Ends the server where nothing comes for long: who reads would wait for ever."""
        watch = threading.Timer(4 * PATIENCE, self.process.kill)
        watch.start()
        return watch

    def close(self) -> None:
        self._watch.cancel()
        self.process.kill()

    def send(self, data: bytes | dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self._watch.cancel()
        self._watch = self._watched()
        raw = data if isinstance(data, bytes) else json.dumps({"jsonrpc": "2.0", **data}).encode()
        self.process.stdin.write(raw + b"\n")
        self.process.stdin.flush()

    def message(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the server has ended"
        found: dict[str, Any] = json.loads(line)
        assert found["jsonrpc"] == "2.0"
        return found

    def answer(self, number: Any) -> dict[str, Any]:
        """The answer to that request; what comes before it is passed over."""
        while True:
            message = self.message()
            if message.get("id") == number and "method" not in message:
                return message

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        self._last += 1
        self.send({"id": self._last, "method": method, "params": params})
        return self.answer(self._last)

    def begin(self, method: str, **params: Any) -> int:
        """As `ask`, without waiting."""
        self._last += 1
        self.send({"id": self._last, "method": method, "params": params})
        return self._last

    def end(self) -> int:
        """Close stdin and wait: the exit status."""
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        return self.process.wait(PATIENCE)


@contextlib.contextmanager
def bare(project: Project, url: str = "", *args: str, **environ: str) -> Iterator[Line]:
    with subprocess.Popen(
        [sys.executable, "-m", "coder", "acp", *args],
        cwd=project.cwd,
        env=project.environ(url, **environ),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        line = Line(process)
        try:
            yield line
        finally:
            line.close()
