"""The reference server of npm, `@modelcontextprotocol/server-everything`: in a session, and over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from coder.extend.mcp.client import HttpEndpoint
from coder.protocol.events import ToolOutput
from kit import ScriptedServer
from kit.calls import call
from kit.driving import Project, drive, of
from kit.mcp_client import McpClient
from kit.npm import npm_program


@pytest.mark.thorough
def test_a_session_with_its_tools_resources_and_prompts(project: Project) -> None:
    command, *args = npm_program("mcp-server-everything")
    project.configure(
        mcp={"servers": {"everything": {"command": command, "args": args}}},
        permission={"tools": {"mcp__everything__*": "allow"}},
        provider={"models": {"scripted": {"images": True}}},
        workflow={"require_todo_for_complex": False},
    )
    script = [
        {
            "calls": [
                call("mcp__everything__echo", message="héllo"),
                call("mcp__everything__get-sum", a=2, b=40),
                call("mcp__everything__get-tiny-image"),
                call("mcp__everything__trigger-long-running-operation", duration=0.2, steps=2),
                call("mcp__everything__get-structured-content", location="Chicago"),
                call("mcp__everything__get-sum", a="x"),
            ]
        },
        {"text": "seen"},
        {"text": "greeted"},
    ]
    inputs = ["see @everything:demo://resource/dynamic/text/1", "/everything:args-prompt Paris"]
    with ScriptedServer(script) as model:
        driver = drive(project, model.url, inputs)
        asked, told, prompt = (chat["messages"] for chat in model.chats)
        offered = [tool["function"]["name"] for tool in model.chats[0]["tools"]]
    assert "Resource 1: This is a plaintext resource" in str(asked)
    assert "mcp__everything__get-roots-list" in offered  # added once it had asked for our roots
    results = [message["content"] for message in told if message["role"] == "tool"]
    assert results[0] == "Echo: héllo"
    assert "is 42" in results[1]
    assert "[image 1: PNG" in str(results[2])
    assert "image_url" in str(told)
    assert "completed" in results[3]
    assert [event.text.strip() for event in of(driver.seen, ToolOutput) if "/2" in event.text] == [
        "1/2",
        "2/2",
    ]
    assert "temperature" in results[4]
    assert results[5].startswith("error: ")
    assert "What's weather in Paris?" in prompt[-1]["content"]


class _Cutting:
    """A proxy that breaks off the answer to the first call, after its first event."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.resumed = 0
        self._armed = True
        self._serving: set[asyncio.Task[None]] = set()

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._serving.add(asyncio.create_task(self._serve(reader, writer)))

    async def close(self) -> None:
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self.port)
        cuts = False

        async def upwards() -> None:
            nonlocal cuts
            while data := await reader.read(65536):
                self.resumed += b"last-event-id:" in data.lower()
                if self._armed and b'"tools/call"' in data:
                    self._armed, cuts = False, True
                up_writer.write(data)

        async def downwards() -> None:
            seen = b""
            while data := await up_reader.read(65536):
                if not cuts:
                    writer.write(data)
                    continue
                before, seen = seen, seen + data
                if b"progress" not in before:  # so that the client has an id to go on from
                    writer.write(data[: data.rindex(b"\n\n") + 2] if b"\n\n" in data else data)
                if b"completed" in seen:  # the result is in the server's store
                    return

        try:
            async with asyncio.TaskGroup() as both:
                up = both.create_task(upwards())
                await downwards()
                up.cancel()
        finally:
            for one in (writer, up_writer):
                one.close()
                with contextlib.suppress(OSError):
                    await one.wait_closed()


@contextmanager
def over_http(root: Path) -> Iterator[int]:
    """Its port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environ = {**os.environ, "PORT": str(port), "HOME": str(root)}
    argv = [*npm_program("mcp-server-everything"), "streamableHttp"]
    with subprocess.Popen(argv, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        try:
            assert process.stderr is not None
            said = process.stderr.readline()
            assert b"listening" in said, said
            yield port
        finally:
            process.terminate()


@pytest.mark.thorough
def test_an_answer_over_http_that_breaks_off_is_resumed(tmp_path: Path) -> None:
    async def scenario(port: int) -> None:
        cutting = _Cutting(port)
        proxy = await asyncio.start_server(cutting.accept, "127.0.0.1", 0)
        client = McpClient()
        await client.open(tmp_path, HttpEndpoint(f"http://127.0.0.1:{proxy.sockets[0].getsockname()[1]}/mcp"))
        heard: list[str] = []
        outcome = await client.connection.call(
            "trigger-long-running-operation",
            {"duration": 0.4, "steps": 4},
            timeout_ms=60_000,
            on_progress=heard.append,
        )
        assert "completed" in outcome.text
        assert heard == ["1/4", "2/4", "3/4", "4/4"]
        assert cutting.resumed
        assert (await client.call("echo", message="on")).text == "Echo: on"
        await client.connection.close()
        proxy.close()
        await cutting.close()

    with over_http(tmp_path) as port:
        asyncio.run(scenario(port))
