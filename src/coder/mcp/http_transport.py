"""A server at an address: every message is posted, and answered as JSON or as an event stream.

Header values are keys as often as not: they are sent to the endpoint's own origin and shown nowhere.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Coroutine, Mapping
from typing import Any

from coder.mcp import jsonrpc
from coder.mcp.bodies import messages
from coder.mcp.jsonrpc import Listener, Progress, Waiting
from coder.mcp.shapes import HttpEndpoint, Json, McpFault
from coder.mcp.versions import shake_hands
from coder.model.http.address import parse_address
from coder.model.http.client import HttpClient, Response
from coder.model.http.faults import HttpFault
from coder.model.http.sse import LineTooLong
from coder.rpc.peer import RpcError, notification
from coder.texts import Phrase

_QUIET = 7 * 86_400.0  # seconds without a byte: how long a call may take is its caller's to say
_CONNECT = 30.0
_PARTING = 2.0  # seconds for what a server need not answer: a cancellation, the end of a session
_STREAM_TRIES = 3  # in a row, for the stream of what a server says by itself
_STREAM_REST = 1.0  # seconds between them
_STREAM_HELD = 30.0  # seconds that a stream must have lasted not to count as a try
_ERROR_BODY = 65_536  # bytes
_MOST_BEHIND = 32  # posts at a time that nobody waits for


class _SessionLost(Exception):
    """The server does not know our session (any more)."""

    def __init__(self, session: str) -> None:
        super().__init__()
        self.session = session


def http_client(environment: Mapping[str, str] | None = None) -> HttpClient:
    """A client that several servers may share; `environment` names the proxies."""
    return HttpClient(idle=_QUIET, connect=_CONNECT, environment=environment)


class HttpTransport:
    """One server. There is no connection to lose: each request fails or succeeds by itself."""

    repeats = True

    def __init__(
        self, name: str, endpoint: HttpEndpoint, listener: Listener, http: HttpClient | None = None
    ) -> None:
        """Raises `McpFault` for an address that is none."""
        try:
            self._address = parse_address(endpoint.url)
        except HttpFault as fault:
            raise McpFault("mcp.unreachable", name=name, why=fault.phrase) from None
        self._name = name
        self._url = endpoint.url
        self._headers = endpoint.headers
        self._listener = listener
        self._http = http or http_client()
        self._own = http is None
        self._waiting = Waiting()
        self.refused_with = 0  # the last status that was a refusal
        self._session = ""
        self._version = ""
        self._modern = False
        self._renewing = asyncio.Lock()
        self._stream: asyncio.Task[None] | None = None
        self._behind: set[asyncio.Task[None]] = set()  # posts that nobody waits for

    # what is asked of it

    async def request(
        self,
        method: str,
        params: Json,
        *,
        headers: dict[str, str] | None = None,
        on_progress: Progress | None = None,
        courtesy: bool = True,
    ) -> Json:
        try:
            return await self._request(method, params, headers, on_progress, courtesy=courtesy)
        except _SessionLost as lost:
            await self._renew(lost.session)
        try:
            return await self._request(method, params, headers, on_progress, courtesy=courtesy)
        except _SessionLost:
            raise McpFault("mcp.session_lost", name=self._name) from None

    async def notify(self, method: str, params: Json | None = None) -> None:
        await self._send(notification(method, params))
        listening = self._stream is not None and not self._stream.done()
        if method == "notifications/initialized" and self._session and not listening:
            self._stream = asyncio.create_task(self._hear_stream())

    def settle(self, version: str, *, modern: bool) -> None:
        self._version, self._modern = version, modern

    def unread(self) -> bool:
        return False

    def stderr_tail(self) -> str:
        return ""

    async def close(self) -> None:
        """Stop listening and give the session back. Bounded, whatever the server does."""
        tasks = [task for task in (self._stream, *self._behind) if task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._waiting.end(McpFault("mcp.closed", name=self._name))
        if self._session:
            with contextlib.suppress(TimeoutError, HttpFault):
                async with asyncio.timeout(_PARTING):
                    response = await self._http.request("DELETE", self._url, self._all_headers({}))
                    response.abort()
        if self._own:
            await self._http.close()

    # requests

    async def _request(
        self,
        method: str,
        params: Json,
        headers: dict[str, str] | None,
        on_progress: Progress | None,
        *,
        courtesy: bool,
    ) -> Json:
        # In the new era the closed response says it; before, a closed response said nothing.
        cancelled = self._leave_behind if courtesy and not self._modern else None
        with self._waiting.asking(method, params, on_progress, cancelled) as (message, answer):
            response = await self._post(message, headers or {}, opening=method == "initialize")
            return await self._answer(response, message["id"], answer)

    async def _answer(self, response: Response, number: int, answer: asyncio.Future[Json]) -> Json:
        done = False
        try:
            async for message in self._messages(response):
                if "method" not in message and message.get("id") is None:
                    message["id"] = number  # an error found before the request's own number was read
                self._heard(message)
                if answer.done():
                    done = True
                    return jsonrpc.result_of(self._name, answer.result())
        finally:
            if done:
                response.release()
            else:
                response.abort()
        raise McpFault("mcp.cut_off", name=self._name)

    async def _post(self, message: Json, headers: Mapping[str, str], *, opening: bool = False) -> Response:
        """The response, once it is known to be one; raises `RpcError`, `McpFault` and `_SessionLost`."""
        session = "" if opening else self._session
        harmless = message.get("method") != "tools/call"
        wanted = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            **headers,
        }
        try:
            every = {**self._headers, **wanted} if opening else self._all_headers(wanted)
            response = await self._http.request(
                "POST", self._target, every, jsonrpc.encode(message), resend=harmless
            )
        except HttpFault as fault:
            raise self._unreachable(fault) from None
        try:
            if response.status >= 300:
                await self._refused(response, session)
            if opening:
                self._session = response.headers.get("mcp-session-id", "")
        except BaseException:
            response.abort()
            raise
        return response

    @property
    def _target(self) -> str:
        return self._url

    async def _refused(self, response: Response, session: str) -> None:
        """Raises what a status says. A JSON-RPC error in the body knows better than the status."""
        self.refused_with = response.status
        if response.status in (401, 403):
            raise McpFault("mcp.denied", name=self._name, status=response.status, address=self._address.shown)
        try:
            body = await response.read(_ERROR_BODY)
        except HttpFault as fault:
            raise self._unreachable(fault) from None
        if response.status == 404 and session:
            raise _SessionLost(session)
        for message in jsonrpc.decode(body):
            if isinstance(message.get("error"), dict):
                jsonrpc.result_of(self._name, message)
        shown = self._address.shown
        raise RpcError(0, Phrase("mcp.status", address=shown, status=response.status))

    async def _send(self, message: Json) -> None:
        """Post what is no request; whatever is said to it does not matter."""
        with contextlib.suppress(RpcError, _SessionLost):
            (await self._post(message, {})).abort()

    def _all_headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        spoken = {"MCP-Protocol-Version": self._version} if self._version else {}
        session = {"Mcp-Session-Id": self._session} if self._session else {}
        return {**self._headers, **spoken, **session, **headers}

    async def _renew(self, lost: str) -> None:
        """Shake hands again, once for all who lost the same session; its tools may be others now."""
        async with self._renewing:
            if self._session == lost:
                await shake_hands(self._name, self)
                self._listener.on_tools_changed()

    # what a server says

    async def _messages(self, response: Response) -> AsyncGenerator[Json, None]:
        try:
            async for message in messages(response):
                yield message
        except LineTooLong:
            raise self._too_long() from None
        except HttpFault as fault:
            raise self._unreachable(fault) from None

    def _heard(self, message: Json) -> None:
        reply = jsonrpc.hear(message, self._waiting, self._listener)
        if reply is not None:
            self._leave_behind(reply)

    async def _hear_stream(self) -> None:
        """What a server of the old era says by itself; many say nothing, and answer 405."""
        tries = 0
        while tries < _STREAM_TRIES:
            begun = asyncio.get_running_loop().time()
            with contextlib.suppress(HttpFault, McpFault):
                headers = self._all_headers({"Accept": "text/event-stream"})
                response = await self._http.request("GET", self._url, headers)
                try:
                    if response.status != 200:
                        return
                    async for message in self._messages(response):
                        self._heard(message)
                finally:
                    response.abort()
            held = asyncio.get_running_loop().time() - begun > _STREAM_HELD
            tries = 0 if held else tries + 1
            await asyncio.sleep(_STREAM_REST)

    def _leave_behind(self, message: Json) -> None:
        """Post what nobody waits for; a server that asks without end is not answered without end."""
        if len(self._behind) >= _MOST_BEHIND:
            return
        task = asyncio.create_task(self._part(self._send(message)))
        self._behind.add(task)
        task.add_done_callback(self._behind.discard)

    async def _part(self, sending: Coroutine[Any, Any, None]) -> None:
        with contextlib.suppress(TimeoutError, McpFault):
            async with asyncio.timeout(_PARTING):
                await sending

    # faults

    def _unreachable(self, fault: HttpFault) -> McpFault:
        return McpFault("mcp.unreachable", name=self._name, why=fault.phrase)

    def _too_long(self) -> McpFault:
        return McpFault("mcp.long_message", name=self._name, limit=jsonrpc.MAX_MESSAGE // (1024 * 1024))
