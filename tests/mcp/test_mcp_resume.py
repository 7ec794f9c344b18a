"""Answers over HTTP that break off, and are resumed after the last event that came."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from coder.extend.mcp.client import HttpEndpoint, McpError
from kit.mcp_client import connected
from kit.mcp_http import Exchange, HttpServer, http_server


def breaks_off(server: HttpServer, last_id: str, posted: list[Any]) -> None:
    """Calls are answered with one numbered event and the end of the stream."""

    def answer(exchange: Exchange) -> None:
        posted.append(exchange.message)
        progress = {"progressToken": exchange.message["id"], "progress": 1, "total": 2}
        told = {"jsonrpc": "2.0", "method": "notifications/progress", "params": progress}
        number = f"id: {last_id}\n" if last_id else ""
        exchange.stream()
        exchange.writer.write(f"retry: 10\n{number}data: {json.dumps(told)}\n\n".encode())

    server.on["tools/call"] = answer


def test_the_rest_of_an_answer_is_fetched_once_the_stream_broke_off(tmp_path: Path) -> None:
    posted: list[Any] = []
    resumed: list[str] = []

    async def scenario() -> None:
        async with http_server(events=True) as server:
            breaks_off(server, "e-7", posted)

            async def rest(exchange: Exchange) -> None:
                if "last-event-id" not in exchange.headers:
                    exchange.body(405)
                    return
                resumed.append(exchange.headers["last-event-id"])
                exchange.stream()
                if len(resumed) == 1:  # it breaks off again, further on
                    exchange.writer.write(b"id: e-8\ndata:\n\n")
                    return
                content = [{"type": "text", "text": "done"}]
                exchange.event({"id": posted[0]["id"], "result": {"content": content}})

            server.on["GET"] = rest
            async with connected(tmp_path, HttpEndpoint(server.url)) as client:
                heard: list[str] = []
                outcome = await client.connection.call(
                    "echo", {}, timeout_ms=60_000, on_progress=heard.append
                )
                assert (outcome.text, heard) == ("done", ["1/2"])

    asyncio.run(scenario())
    assert resumed == ["e-7", "e-8"]
    assert len(posted) == 1


@pytest.mark.parametrize("last_id", ["", "e-7", "é-7"])
def test_what_cannot_be_resumed_fails_in_a_sentence_and_is_not_repeated(tmp_path: Path, last_id: str) -> None:
    posted: list[Any] = []

    async def scenario() -> None:
        async with http_server(events=True) as server:
            breaks_off(server, last_id, posted)
            server.on["GET"] = lambda exchange: exchange.body(405)
            async with connected(tmp_path, HttpEndpoint(server.url)) as client:
                with pytest.raises(McpError, match="ended its answer before the result"):
                    await client.call("echo")

    asyncio.run(scenario())
    assert len(posted) == 1


def test_a_server_that_never_ends_to_break_off_is_given_up(tmp_path: Path) -> None:
    posted: list[Any] = []
    asked: list[str] = []

    async def scenario() -> None:
        async with http_server(events=True) as server:
            breaks_off(server, "e-7", posted)

            def again(exchange: Exchange) -> None:
                if "last-event-id" not in exchange.headers:
                    exchange.body(405)
                    return
                asked.append(exchange.headers["last-event-id"])
                exchange.stream()
                exchange.writer.write(b"id: e-8\ndata:\n\n")

            server.on["GET"] = again
            async with connected(tmp_path, HttpEndpoint(server.url)) as client:
                with pytest.raises(McpError, match="ended its answer before the result"):
                    await client.call("echo")

    asyncio.run(scenario())
    assert len(asked) == 5
