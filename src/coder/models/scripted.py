"""A scripted model server over HTTP on loopback, for `coder demo` and tests.

A turn is a dict; all keys are optional:

    text, reasoning      what it says and thinks
    calls                [{"name": …, "arguments": dict or raw text, "id": …}]
    finish, usage        `finish_reason` and the `usage` object
    chunk, delay         characters per event, seconds before each event
    status, headers, body   a plain HTTP answer instead (`body`: text, bytes, or an object sent as JSON)

or a function from the request's JSON to such a dict.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any, Self

import msgspec

Turn = dict[str, Any]
# Turns, or functions from a request to a turn. `Any`, because literal turns of different shapes have no
# common type but `object`.
Script = Iterable[Any]

AFTER_THE_SCRIPT = "The script has no further answer."


class Recorded(msgspec.Struct, frozen=True):
    """A request as it arrived; header names in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    json: Any
    time: float


_LOOP_ITERATIONS = 5  # from accepting a connection to its handler


class ScriptedServer:
    """`with ScriptedServer(script) as server:` runs it in a thread, `async with` in the current loop."""

    def __init__(self, script: Script = (), *, model: str = "scripted") -> None:
        self.requests: list[Recorded] = []
        self.model = model
        self._turns = iter(script)
        self._server: asyncio.Server | None = None
        self._port = 0
        self._open: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def url(self) -> str:
        """The base URL to configure."""
        return f"http://127.0.0.1:{self._port}/v1"

    @property
    def chats(self) -> list[dict[str, Any]]:
        """The JSON of every chat request so far."""
        return [request.json for request in self.requests if request.method == "POST"]

    # starting and stopping

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=1 << 26)
        self._port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        sockets = self._server.sockets if self._server is not None else ()
        for listening in sockets:  # `close` alone would leak a connection that was just accepted
            asyncio.get_running_loop().remove_reader(listening.fileno())
        for _ in range(_LOOP_ITERATIONS):  # it has no handler yet
            for writer in list(self._open):
                writer.transport.abort()
            await asyncio.sleep(0)
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def __enter__(self) -> Self:
        ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(ready,), name="scripted model", daemon=True)
        self._thread.start()
        ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        if self._thread is not None and self._loop is not None:
            self._loop.call_soon_threadsafe(self._done.set)
            self._thread.join()

    def _run(self, ready: threading.Event) -> None:
        async def until_done() -> None:
            self._loop = asyncio.get_running_loop()
            self._done = asyncio.Event()
            await self.start()
            ready.set()
            await self._done.wait()
            await self.stop()

        try:
            asyncio.run(until_done())
        finally:
            ready.set()  # also if it failed to start

    # serving

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._open.add(writer)
        try:
            while (request := await _read_request(reader)) is not None:
                self.requests.append(request)
                await self.answer(request, writer)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client disconnected, or the server is stopping
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()  # flushes what the client has not read; `stop` aborts it
            self._open.discard(writer)
            self._tasks.discard(task)

    async def answer(self, request: Recorded, writer: asyncio.StreamWriter) -> None:
        """Answer one request."""
        if request.method == "GET":
            models = {"object": "list", "data": [{"id": self.model, "object": "model"}]}
            writer.write(http_answer(200, msgspec.json.encode(models)))
            return
        turn = next(self._turns, None)
        if turn is None:
            turn = {"text": AFTER_THE_SCRIPT}
        await self.play(turn(request.json) if callable(turn) else turn, request, writer)

    async def play(self, turn: Turn, request: Recorded, writer: asyncio.StreamWriter) -> None:
        """Send one turn of the script."""
        if "status" in turn or "body" in turn:
            body = turn.get("body", b"")
            if not isinstance(body, str | bytes):
                body = msgspec.json.encode(body)
            content = body.encode("utf-8") if isinstance(body, str) else body
            writer.write(http_answer(turn.get("status", 200), content, turn.get("headers")))
        elif isinstance(request.json, dict) and request.json.get("stream"):
            await self._stream(turn, request.json, writer)
        else:
            whole = msgspec.json.encode(whole_answer(turn, self._model_of(request.json)))
            writer.write(http_answer(200, whole, turn.get("headers")))

    async def _stream(self, turn: Turn, request: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        headers = {"Content-Type": "text/event-stream", **turn.get("headers", {})}
        writer.write(http_head(200, {**headers, "Transfer-Encoding": "chunked"}))
        usage = bool((request.get("stream_options") or {}).get("include_usage"))
        for event in [*events(turn, self._model_of(request), usage=usage), b"data: [DONE]\n\n"]:
            if turn.get("delay"):
                await asyncio.sleep(turn["delay"])
            writer.write(b"%x\r\n%b\r\n" % (len(event), event))
            if turn.get("delay"):
                await writer.drain()
        writer.write(b"0\r\n\r\n")

    def _model_of(self, request: Any) -> str:
        return str(request.get("model") or self.model) if isinstance(request, dict) else self.model


async def _read_request(reader: asyncio.StreamReader) -> Recorded | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.split("\r\n")
    method, path, _ = first.split(" ", 2)
    pairs = (line.partition(":") for line in lines if line)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    body = await reader.readexactly(int(headers.get("content-length") or 0))
    try:
        data = msgspec.json.decode(body) if body else None
    except msgspec.DecodeError:
        data = None
    return Recorded(method=method, path=path, headers=headers, json=data, time=time.monotonic())


def http_head(status: int, headers: dict[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} Scripted", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def http_answer(status: int, body: bytes, headers: dict[str, str] | None = None) -> bytes:
    """A response with `Content-Length`."""
    given = {"Content-Type": "application/json", **(headers or {})}
    return http_head(status, {**given, "Content-Length": str(len(body))}) + body


def _calls(turn: Turn) -> list[dict[str, Any]]:
    calls = []
    for at, call in enumerate(turn.get("calls", ())):
        arguments = call.get("arguments", {})
        if not isinstance(arguments, str):
            arguments = msgspec.json.encode(arguments).decode("utf-8")
        function = {"name": call["name"], "arguments": arguments}
        call_id = call.get("id", f"call_{time.monotonic_ns():x}_{at}")
        calls.append({"index": at, "id": call_id, "type": "function", "function": function})
    return calls


def _finish(turn: Turn) -> str:
    return str(turn.get("finish") or ("tool_calls" if turn.get("calls") else "stop"))


def _usage(turn: Turn) -> dict[str, Any]:
    size = len(turn.get("text", "")) // 4 + 1
    default = {"prompt_tokens": 10, "completion_tokens": size, "total_tokens": 10 + size}
    return dict(turn.get("usage") or default)


def whole_answer(turn: Turn, model: str) -> dict[str, Any]:
    """The turn as a non-streamed answer."""
    message: dict[str, Any] = {"role": "assistant", "content": turn.get("text", "")}
    if turn.get("reasoning"):
        message["reasoning_content"] = turn["reasoning"]
    if turn.get("calls"):
        message["tool_calls"] = _calls(turn)
    choice = {"index": 0, "message": message, "finish_reason": _finish(turn)}
    return {"object": "chat.completion", "model": model, "choices": [choice], "usage": _usage(turn)}


def events(turn: Turn, model: str, *, usage: bool = True) -> Iterator[bytes]:
    """The turn as server-sent events, without the closing [DONE]."""

    def event(delta: dict[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return _event({"object": "chat.completion.chunk", "model": model, "choices": [choice]})

    size = max(1, turn.get("chunk", 16))
    yield event({"role": "assistant", "content": ""})
    for name, field in (("reasoning", "reasoning_content"), ("text", "content")):
        text = turn.get(name, "")
        for at in range(0, len(text), size):
            yield event({field: text[at : at + size]})
    for call in _calls(turn):
        arguments = call["function"]["arguments"]
        yield event({"tool_calls": [{**call, "function": {**call["function"], "arguments": ""}}]})
        for at in range(0, len(arguments), size):
            piece = {"index": call["index"], "function": {"arguments": arguments[at : at + size]}}
            yield event({"tool_calls": [piece]})
    yield event({}, _finish(turn))
    if usage:
        yield _event(
            {"object": "chat.completion.chunk", "model": model, "choices": [], "usage": _usage(turn)}
        )


def _event(data: dict[str, Any]) -> bytes:
    return b"data: " + msgspec.json.encode(data) + b"\n\n"
