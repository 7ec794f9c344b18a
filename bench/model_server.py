"""A model that answers at once, in a process of its own, and keeps the time of every request.

    python bench/model_server.py      prints its port, then serves until its stdin is closed

    PUT /script {"steps": 10, "text_bytes": 200}   ten tool calls, then a text of that size; forgets the log
    GET /log                                       [{"first": ns, "done": ns}, …] of the chat requests since

Times are of CLOCK_MONOTONIC, which the processes of one machine share: `first` is a request's first byte,
`done` the moment when the last byte of its answer was handed to the kernel. Standard library only.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from itertools import islice
from typing import Any

CHUNK = 16  # characters in one delta, about what providers send


def event(delta: dict[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return b"data: " + json.dumps({"object": "chat.completion.chunk", "choices": [choice]}).encode() + b"\n\n"


def closing() -> bytes:
    usage = {"prompt_tokens": 1000, "completion_tokens": 10, "total_tokens": 1010}
    return b"data: " + json.dumps({"choices": [], "usage": usage}).encode() + b"\n\ndata: [DONE]\n\n"


def call_answer(command: str, number: int) -> bytes:
    # The commands differ from one another: repeats are what a loop guard looks for.
    arguments = json.dumps({"command": f"{command} {number}"})
    call = {"index": 0, "id": f"call_{number}", "type": "function"}
    delta = {"tool_calls": [{**call, "function": {"name": "bash", "arguments": arguments}}]}
    return event({"role": "assistant", "content": ""}) + event(delta) + event({}, "tool_calls") + closing()


def text_answer(size: int) -> bytes:
    # Every line differs: a text that repeats itself is what a loop guard looks for.
    lines = (
        f"{n}. The {n * 7919 % 9973} brown foxes of `line_{n}` jump over *{n % 89}* dogs.\n"
        for n in range(size)
    )
    text = "".join(islice(lines, size // 40 + 1))[:size]
    pieces = (event({"content": text[at : at + CHUNK]}) for at in range(0, size, CHUNK))
    return event({"role": "assistant", "content": ""}) + b"".join(pieces) + event({}, "stop") + closing()


class Model:
    """The script, how far it has been played, and what was asked when."""

    def __init__(self) -> None:
        self.load({})

    def load(self, script: dict[str, Any]) -> None:
        self.steps = script.get("steps", 0)
        self.command = script.get("command", "true")
        self.final = text_answer(script.get("text_bytes", 20))
        self.log: list[dict[str, int]] = []

    def answer(self, first: int) -> tuple[bytes, dict[str, int]]:
        number = len(self.log)
        entry = {"first": first, "done": 0}
        self.log.append(entry)
        return (call_answer(self.command, number) if number < self.steps else self.final), entry


class Connection(asyncio.Protocol):
    """HTTP/1.1 on one socket, kept alive, one request at a time."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.buffer = bytearray()
        self.first = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        if not self.buffer:
            self.first = time.monotonic_ns()
        self.buffer += data
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        head = bytes(self.buffer[:end]).decode("latin-1")
        lines = [line.partition(":") for line in head.split("\r\n")[1:]]
        length = next((int(value) for name, _, value in lines if name.lower() == "content-length"), 0)
        if len(self.buffer) < end + 4 + length:
            return
        body = bytes(self.buffer[end + 4 : end + 4 + length])
        self.buffer.clear()
        self._serve(head.split(" ", 1)[0], body)

    def _serve(self, method: str, body: bytes) -> None:
        if method == "POST":
            answer, entry = self.model.answer(self.first)
            self.transport.write(http(b"text/event-stream", answer))
            entry["done"] = time.monotonic_ns()
            return
        if method == "PUT":
            self.model.load(json.loads(body))
        self.transport.write(http(b"application/json", json.dumps(self.model.log).encode()))


def http(kind: bytes, body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\nContent-Length: %d\r\n\r\n%b" % (kind, len(body), body)


async def serve() -> None:
    loop = asyncio.get_running_loop()
    model = Model()
    server = await loop.create_server(lambda: Connection(model), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    ended = asyncio.Event()
    loop.add_reader(sys.stdin.fileno(), ended.set)
    await ended.wait()
    server.close()


if __name__ == "__main__":
    asyncio.run(serve())
