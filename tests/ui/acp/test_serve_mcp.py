"""`coder serve-mcp`: coder as an MCP server, with our own client and by hand."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from typing import Any

import pytest

from coder.extend.mcp.client import StdioEndpoint, connect
from coder.protocol.events import SessionStarted
from coder.texts import CoderError
from coder.ui.mcp_server import McpChoices, McpTaskServer, _Call, _Progress
from coder.ui.stdio import EditorOutbox
from kit import ScriptedServer
from kit.calls import bash
from kit.driving import Project

WRITE = {"name": "write", "arguments": {"path": "made.txt", "content": "x\n"}}


class Client:
    """Lines to and from the process."""

    def __init__(self, project: Project, url: str, *args: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "coder", "serve-mcp", *args], cwd=project.cwd, env=project.environ(url),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8",
        )  # fmt: skip
        self.notes: list[dict[str, Any]] = []
        self._last = 0

    def send(self, method: str, params: dict[str, Any], *, notify: bool = False) -> int:
        self._last += not notify
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        assert self.process.stdin
        self.process.stdin.write(json.dumps(message if notify else {**message, "id": self._last}) + "\n")
        self.process.stdin.flush()
        return self._last

    def answer(self, number: int) -> dict[str, Any]:
        assert self.process.stdout
        for line in self.process.stdout:
            message: dict[str, Any] = json.loads(line)
            if message.get("id") == number:
                return message
            self.notes.append(message)
        raise AssertionError(self.process.stderr.read() if self.process.stderr else "")

    def call(self, meta: dict[str, Any] | None = None, **arguments: Any) -> dict[str, Any]:
        params = {"name": "task", "arguments": arguments, "_meta": meta or {}}
        result: dict[str, Any] = self.answer(self.send("tools/call", params))["result"]
        return result

    def end(self) -> int:
        self.process.communicate(timeout=60)
        return self.process.returncode


def test_a_task_is_done_under_the_person_s_policy(project: Project) -> None:
    (project.cwd / "sub").mkdir()
    script = [
        {"calls": [WRITE]},
        {"text": "made"},
        {"calls": [WRITE]},
        {"text": "only looked"},
        {"text": "words"},
    ]
    with ScriptedServer(script) as server:
        client = Client(project, server.url, "--mode", "auto-edit")
        hello = client.answer(client.send("initialize", {"protocolVersion": "2025-06-18"}))["result"]
        assert hello["protocolVersion"] == "2025-06-18"
        (tool,) = client.answer(client.send("tools/list", {}))["result"]["tools"]
        assert tool["name"] == "task"
        done = client.call({"progressToken": "p"}, task="make it", folder="sub")
        assert (done["content"][0]["text"], done["isError"]) == ("made", False)
        assert done["structuredContent"]["status"] == "ok"
        assert (project.cwd / "sub" / "made.txt").exists()
        assert client.notes[0]["params"]["message"] == "write made.txt"
        client.call(task="look", look_only=True)
        assert not (project.cwd / "made.txt").exists()
        client.call(task="!touch bang.txt")  # a caller's text is never the person's shell
        assert not (project.cwd / "bang.txt").exists()
        for folder in ("..", "a\0b", "x" * 5000):
            outside = client.call(task="x", folder=folder)
            assert outside["isError"]
            assert "is no folder below" in outside["content"][0]["text"]
        assert client.call(tsk="x")["isError"]
        assert client.end() == 0
        assert "!touch bang.txt" in json.dumps(server.chats[-1])


def test_a_cancelled_task_stops(project: Project) -> None:
    with ScriptedServer([{"calls": [bash("sleep 60")]}, {"text": "never"}]) as server:
        client = Client(project, server.url, "--mode", "yolo")
        params = {"name": "task", "arguments": {"task": "sleep"}, "_meta": {"progressToken": 1}}
        number = client.send("tools/call", params)
        assert client.process.stdout
        assert json.loads(client.process.stdout.readline())["method"] == "notifications/progress"
        client.send("notifications/cancelled", {"requestId": number}, notify=True)
        assert client.answer(number)["error"]["code"] == -32800
        assert client.end() == 0
    assert project.of_type("turn_end")[0]["meta"]["status"] == "cancelled"
    assert project.events()[-1]["type"] == "session_end"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_completes_the_record(project: Project, number: int) -> None:
    """Hosts end their servers by one."""
    with ScriptedServer([{"calls": [bash("sleep 60")]}, {"text": "never"}]) as server:
        client = Client(project, server.url, "--mode", "yolo")
        params = {"name": "task", "arguments": {"task": "sleep"}, "_meta": {"progressToken": 1}}
        client.send("tools/call", params)
        assert client.process.stdout
        assert json.loads(client.process.stdout.readline())["method"] == "notifications/progress"
        client.process.send_signal(number)
        assert client.end() == 130
    assert project.of_type("turn_end")[0]["meta"]["status"] == "cancelled"
    assert project.events()[-1]["type"] == "session_end"


def test_our_own_client_uses_it(project: Project) -> None:
    async def scenario(url: str) -> str:
        endpoint = StdioEndpoint(
            argv=[sys.executable, "-m", "coder", "serve-mcp"],
            cwd=project.cwd,
            environment=project.environ(url),
        )
        connection = await connect(
            "coder", endpoint, root=project.cwd, startup_timeout_ms=60_000,
            on_list_changed=lambda kind: None, on_closed=lambda why: None,
        )  # fmt: skip
        try:
            assert [tool.name for tool in connection.tools] == ["task"]
            outcome = await connection.call(
                "task", {"task": "say hi"}, timeout_ms=60_000, on_progress=lambda text: None
            )
            return outcome.text
        finally:
            await connection.close()

    with ScriptedServer([{"text": "hi there"}]) as server:
        assert "hi there" in asyncio.run(scenario(server.url))


def test_a_folder_that_is_exchanged_while_its_task_waits_is_refused(project: Project) -> None:
    """Other tasks of the same caller may turn it into a link to somewhere else."""
    (project.cwd / "sub").mkdir()

    async def scenario() -> dict[str, Any]:
        chosen = McpChoices(root=project.cwd, environ=project.environ("http://127.0.0.1:9/"))
        server = McpTaskServer(chosen, EditorOutbox(1, lambda error: None))
        for _ in range(4):
            await server._places.acquire()  # four tasks run
        arguments = {"task": "read it all", "folder": "sub"}
        waiting = asyncio.create_task(server.call(_Call("task", arguments)))
        await asyncio.sleep(0)
        (project.cwd / "sub").rmdir()
        (project.cwd / "sub").symlink_to(project.home)
        server._places.release()
        return await waiting

    result = asyncio.run(scenario())
    assert result["isError"]
    assert "is no folder below" in result["content"][0]["text"]
    elsewhere = SessionStarted("1", str(project.home), "m", "default", "balanced")
    with pytest.raises(CoderError):
        _Progress(Any, None, project.cwd / "sub").handle(elsewhere)  # type: ignore[arg-type]


@pytest.mark.parametrize("folder", [".git/hooks", "sub/.git", ".coder", ".claude/agents", "hooks", "..", "/"])
def test_a_folder_that_no_task_may_write_to_is_no_workspace(project: Project, folder: str) -> None:
    for name in (".git/hooks", "sub/.git", ".coder", ".claude/agents"):
        (project.cwd / name).mkdir(parents=True)
    (project.cwd / "hooks").symlink_to(".git/hooks")
    hook = {"name": "write", "arguments": {"path": "pre-commit", "content": "evil\n"}}
    with ScriptedServer([{"calls": [hook]}, {"text": "done"}]) as server:
        client = Client(project, server.url, "--mode", "yolo")
        refused = client.call(task="write a hook", folder=folder)
        assert client.end() == 0
    assert refused["isError"]
    assert "is no folder below" in refused["content"][0]["text"]
    assert not list(project.cwd.rglob("pre-commit"))


def test_only_sessions_of_earlier_answers_are_gone_on_with(project: Project) -> None:
    with ScriptedServer(
        [{"text": "the launch code is 0000"}, {"text": "hello"}, {"text": "again"}]
    ) as server:
        assert project.coder("--once", "what is it?", url=server.url).returncode == 0
        (own,) = (path.stem for path in project.logs())
        client = Client(project, server.url)
        refused = client.call(task="repeat all that was said", session=own)
        assert refused["isError"]
        assert "no session of an earlier answer" in refused["content"][0]["text"]
        mine = client.call(task="hi")["structuredContent"]["session_id"]
        assert client.call(task="go on", session=mine)["content"][0]["text"] == "again"
        assert client.end() == 0
    assert "launch code" not in str(server.chats[1:])
