"""A scripted model that breaks on purpose, the ways that servers and networks do.

A turn of the script may carry `fault`; the other keys mean what they mean for `ScriptedServer`:

    reset           the connection is reset before any answer
    half_head       closed inside the response head
    cut_text        closed half-way through the text
    cut_call        closed inside the arguments of a tool call
    cut_character   closed inside a multi-byte character
    reset_text      reset half-way through the text
    garbage         lines that are neither SSE nor JSON among good ones
    html            a web page with status 200
    drip            one byte at a time
    no_done         the stream ends without finish_reason and without [DONE]
    length_short    Content-Length promises more than comes
    error_midway    an `error` object inside the stream
    silent          the head, then nothing
    close_after     a good answer that says keep-alive, then the connection is closed
"""

from __future__ import annotations

import asyncio
from typing import Any

from coder.models.scripted import Recorded, Script, ScriptedServer, Turn, http_answer, http_head
from kit.fakes import error_event, stream_of

_STREAM = {"Content-Type": "text/event-stream"}


class Chaos(ScriptedServer):
    """`with Chaos([{"fault": "reset"}, {"text": "fine"}], wire="messages") as server: …`"""

    def __init__(self, script: Script = (), *, wire: str = "chat", model: str = "scripted") -> None:
        super().__init__(script, model=model)
        self.wire = wire

    @staticmethod
    def limited(retry_after: str | None = None, **headers: str) -> Turn:
        """A 429, with or without `Retry-After`."""
        given = {**headers, **({"Retry-After": retry_after} if retry_after is not None else {})}
        return {"status": 429, "headers": given, "body": {"error": {"message": "slow down"}}}

    @staticmethod
    def failing(status: int = 503) -> Turn:
        """A server error with a text body."""
        return {"status": status, "headers": {"Content-Type": "text/plain"}, "body": "upstream failed"}

    async def play(self, turn: Turn, request: Recorded, writer: asyncio.StreamWriter) -> None:
        fault = turn.get("fault")
        if fault is None:
            await self._whole(turn, request, writer)
            return
        await getattr(self, f"_{fault}")(turn, request, writer)
        if fault not in ("silent", "garbage", "drip"):
            await _close(writer)

    async def _whole(self, turn: Turn, request: Recorded, writer: asyncio.StreamWriter) -> None:
        if self.wire == "chat" or "status" in turn or "body" in turn:
            await super().play(turn, request, writer)
            return
        body = b"".join(self._events(turn))
        writer.write(http_head(200, {**_STREAM, "Transfer-Encoding": "chunked"}))
        writer.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))

    def _events(self, turn: Turn) -> list[bytes]:
        return [event for _, event in stream_of(self.wire, turn)]

    def _until(self, turn: Turn, kind: str) -> bytes:
        """Up to and with the middle one of the events of that kind."""
        whole = stream_of(self.wire, turn)
        found = [at for at, (what, _) in enumerate(whole) if what == kind]
        return b"".join(event for _, event in whole[: found[len(found) // 2] + 1])

    async def _reset(self, turn: Turn, request: Recorded, writer: asyncio.StreamWriter) -> None:
        reset(writer)

    async def _half_head(self, turn: Turn, request: Recorded, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/ev")

    async def _cut_text(self, turn: Turn, request: Recorded, writer: asyncio.StreamWriter) -> None:
        writer.write(http_head(200, _STREAM) + self._until(turn, "text"))

    async def _reset_text(self, turn: Turn, request: Recorded, writer: asyncio.StreamWriter) -> None:
        data = self._until(turn, "text")
        writer.write(http_head(200, {**_STREAM, "Transfer-Encoding": "chunked"}))
        writer.write(b"%x\r\n%b\r\n" % (len(data), data))
        await writer.drain()
        await asyncio.sleep(0.05)  # a reset overtakes what the client has not read yet
        reset(writer)

    async def _cut_call(self, turn: Turn, request: Recorded, writer: asyncio.StreamWriter) -> None:
        writer.write(http_head(200, _STREAM) + self._until(turn, "call"))

    async def _cut_character(self, turn: Turn, request: Recorded, writer: asyncio.StreamWriter) -> None:
        data = b"".join(self._events(turn))
        at = next(at for at, byte in enumerate(data) if byte >= 0x80)
        writer.write(http_head(200, _STREAM) + data[: at + 1])

    async def _garbage(self, turn: Turn, request: Recorded, writer: asyncio.StreamWriter) -> None:
        rubbish = b"data: {broken\n\nevent: ping\n: comment\nwhat is this\n\ndata: 17\n\n"
        body = rubbish + rubbish.join(self._events(turn))
        writer.write(http_answer(200, body, _STREAM))

    async def _html(self, turn: Turn, request: Recorded, writer: asyncio.StreamWriter) -> None:
        page = b"<!DOCTYPE html><html><head><title>Sign in</title></head><body>hello</body></html>"
        writer.write(http_answer(200, page, {"Content-Type": "text/html"}))

    async def _drip(self, turn: Turn, request: Recorded, writer: asyncio.StreamWriter) -> None:
        data = b"".join(self._events(turn))
        chunks = b"".join(b"1;ext=x\r\n%b\r\n" % data[at : at + 1] for at in range(len(data)))
        answer = http_head(200, {**_STREAM, "Transfer-Encoding": "chunked"})
        answer += chunks + b"0\r\nTrailer: yes\r\n\r\n"
        for at in range(0, len(answer), 7):
            writer.write(answer[at : at + 7])
            await asyncio.sleep(0)

    async def _no_done(self, turn: Turn, request: Recorded, writer: asyncio.StreamWriter) -> None:
        whole = [event for kind, event in stream_of(self.wire, turn, usage=False) if kind != "end"]
        writer.write(http_answer(200, b"".join(whole), _STREAM))

    async def _length_short(self, turn: Turn, request: Recorded, writer: asyncio.StreamWriter) -> None:
        data = self._until(turn, "text")
        writer.write(http_head(200, {**_STREAM, "Content-Length": str(len(data) * 2)}) + data)

    async def _error_midway(self, turn: Turn, request: Recorded, writer: asyncio.StreamWriter) -> None:
        body = self._until(turn, "text") + error_event(self.wire)
        writer.write(http_answer(200, body, _STREAM))

    async def _silent(self, turn: Turn, request: Recorded, writer: asyncio.StreamWriter) -> None:
        writer.write(http_head(200, {**_STREAM, "Transfer-Encoding": "chunked"}))
        await writer.drain()
        await asyncio.Event().wait()

    async def _close_after(self, turn: Turn, request: Recorded, writer: asyncio.StreamWriter) -> None:
        good: dict[str, Any] = {key: value for key, value in turn.items() if key != "fault"}
        await self._whole(good, request, writer)


def reset(writer: asyncio.StreamWriter) -> None:
    """End a connection with RST instead of FIN."""
    import socket
    import struct

    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def _close(writer: asyncio.StreamWriter) -> None:
    if not writer.is_closing():
        await writer.drain()
        writer.close()
