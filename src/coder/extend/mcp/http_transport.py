"""The Streamable HTTP transport: every message is a POST, answered as JSON or as an event stream.

Header values are often keys: they are sent only to the endpoint's origin and never shown.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping
from functools import partial
from typing import Any

from coder.base.http.address import parse_address
from coder.base.http.client import HttpClient, Response
from coder.base.http.errors import HttpError
from coder.base.http.sse import LineTooLong, SseParser
from coder.base.rpc import RpcError, notification
from coder.extend.mcp import jsonrpc
from coder.extend.mcp.jsonrpc import Listener, Progress, Waiting
from coder.extend.mcp.oauth import refreshed
from coder.extend.mcp.shapes import HttpEndpoint, Json, McpError
from coder.extend.mcp.tokens import TokenStore
from coder.extend.mcp.versions import legacy_handshake
from coder.texts import Text


class Position:
    """How far a server's event stream was read, so that it can be resumed (`Last-Event-ID`)."""

    def __init__(self) -> None:
        self.last_id = ""
        self.wait = 1.0  # seconds before resuming

    def note(self, parser: SseParser) -> None:
        self.last_id = parser.last_id or self.last_id
        if parser.retry_ms is not None:
            self.wait = min(parser.retry_ms / 1000, _LONGEST_WAIT)

    def headers(self) -> dict[str, str]:
        plain = self.last_id.isascii() and self.last_id.isprintable()
        return {"Last-Event-ID": self.last_id} if self.last_id and plain else {}


_LONGEST_WAIT = 30.0


async def messages(response: Response, position: Position | None = None) -> AsyncGenerator[Json, None]:
    """Yields messages as they arrive; raises `HttpError`, and `LineTooLong` past the limit."""
    if "text/event-stream" not in response.headers.get("content-type", "").lower():
        body = await response.read(jsonrpc.MAX_MESSAGE + 1)
        if len(body) > jsonrpc.MAX_MESSAGE:
            raise LineTooLong("fault.line_long", limit=jsonrpc.MAX_MESSAGE)
        for message in jsonrpc.decode(body):
            yield message
        return
    async for data in events(response, position):
        for message in jsonrpc.decode(data.encode("utf-8")):
            yield message


async def events(response: Response, position: Position | None = None) -> AsyncGenerator[str, None]:
    """The data of an SSE stream's events; `position` follows."""
    parser = SseParser(jsonrpc.MAX_MESSAGE)
    async for chunk in response.chunks():
        found = parser.feed(chunk)
        if position is not None:
            position.note(parser)
        for data in found:
            yield data
    for data in parser.finish():
        yield data


_QUIET = 7 * 86_400.0  # idle timeout in seconds: the caller bounds its calls
_CONNECT = 30.0
_PARTING = 2.0  # seconds for messages without an answer: a cancellation, the end of a session
_STREAM_TRIES = 3  # in a row, for the stream of server-initiated messages
_RESUME_TRIES = 5  # of one answer
_STREAM_HELD = 30.0  # a stream that lasted longer resets the count of tries
_ERROR_BODY = 65_536  # bytes
_MAX_BACKGROUND = 32  # concurrent background posts


class _CutOff(McpError):
    """The answer broke off before its result."""


class _LoginNeeded(McpError):
    """The server wants a token, or a newer one."""


class _SessionLost(Exception):
    """The server does not know our session."""

    def __init__(self, session: str) -> None:
        super().__init__()
        self.session = session


def http_client(environment: Mapping[str, str] | None = None) -> HttpClient:
    """A client that servers may share; `environment` configures proxies."""
    return HttpClient(idle=_QUIET, connect=_CONNECT, environment=environment)


def _stored_token(endpoint: HttpEndpoint) -> str:
    """Of the person's login at this URL, where there is one."""
    if endpoint.home is None:
        return ""

    store = TokenStore(endpoint.home)
    login = store.get(endpoint.url)
    if login is not None and endpoint.keep_secret is not None:
        endpoint.keep_secret(store.secrets())
    return login.access_token if login is not None else ""


class HttpTransport:
    """One server. Stateless: each request succeeds or fails by itself."""

    repeats = True

    def __init__(
        self, name: str, endpoint: HttpEndpoint, listener: Listener, http: HttpClient | None = None
    ) -> None:
        """Raises `McpError` for an invalid URL."""
        try:
            self._address = parse_address(endpoint.url)
        except HttpError as fault:
            raise McpError("mcp.unreachable", name=name, why=fault.phrase) from None
        self._name = name
        self._url = endpoint.url
        self._headers = dict(endpoint.headers)
        self._home = endpoint.home
        self._keep_secret = endpoint.keep_secret
        self._token = _stored_token(endpoint)
        if self._token:
            self._headers["Authorization"] = f"Bearer {self._token}"
        self._logging_in = asyncio.Lock()
        self._listener = listener
        self._http = http or http_client()
        self._own = http is None
        self._waiting = Waiting()
        self.refused_with = 0  # the last error status
        self._session = ""
        self._version = ""
        self._modern = False
        self._renewing = asyncio.Lock()
        self._stream: asyncio.Task[None] | None = None
        self._background: set[asyncio.Task[None]] = set()  # background posts

    # Transport

    async def request(
        self,
        method: str,
        params: Json,
        *,
        headers: dict[str, str] | None = None,
        on_progress: Progress | None = None,
        courtesy: bool = True,
    ) -> Json:
        ask = partial(self._request, method, params, headers, on_progress, courtesy=courtesy)
        try:
            return await self._let_in(ask)
        except _SessionLost as lost:
            await self._renew(lost.session)
        try:
            return await self._let_in(ask)
        except _SessionLost:
            raise McpError("mcp.session_lost", name=self._name) from None

    async def _let_in(self, ask: Callable[[], Awaitable[Json]]) -> Json:
        """Ask; where the token is missing or over, with the person's login, refreshed if need be."""
        used = self._token
        try:
            return await ask()
        except _LoginNeeded as fault:
            if not await self._new_token(used):
                raise McpError(fault.phrase) from None
        return await ask()

    async def _new_token(self, used: str) -> bool:
        assert self._home is not None

        async with self._logging_in:
            if self._token == used:
                store = TokenStore(self._home)
                try:
                    token = await refreshed(self._name, self._url, store, self._http, used)
                except OSError as error:
                    why = error.strerror or str(error)
                    raise McpError("servers.unavailable", name=self._name, why=why) from None
                if not token:
                    return False
                if self._keep_secret is not None:
                    self._keep_secret(store.secrets())
                self._token = token
                self._headers["Authorization"] = f"Bearer {token}"
        return True

    async def notify(self, method: str, params: Json | None = None) -> None:
        await self._send(notification(method, params))
        listening = self._stream is not None and not self._stream.done()
        if method == "notifications/initialized" and self._session and not listening:
            self._stream = asyncio.create_task(self._read_stream())

    def settle(self, version: str, *, modern: bool) -> None:
        self._version, self._modern = version, modern

    def unread(self) -> bool:
        return False

    def stderr_tail(self) -> str:
        return ""

    async def close(self) -> None:
        """Stop listening and end the session, within a timeout."""
        tasks = [task for task in (self._stream, *self._background) if task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._waiting.end(McpError("mcp.closed", name=self._name))
        if self._session:
            with contextlib.suppress(TimeoutError, HttpError):
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
        # Modern servers take the closed response as a cancellation; legacy ones need a notification.
        cancelled = self._post_in_background if courtesy and not self._modern else None
        with self._waiting.asking(method, params, on_progress, cancelled) as (message, answer):
            position = Position()
            response = await self._post(message, headers or {}, opening=method == "initialize")
            for _ in range(_RESUME_TRIES):
                try:
                    return await self._answer(response, message["id"], answer, position)
                except _CutOff as fault:
                    if self._modern or not position.headers():  # a modern server has nothing to resume
                        raise
                    cut_off = fault
                response = await self._resumed(position, cut_off)
            return await self._answer(response, message["id"], answer, position)

    async def _resumed(self, position: Position, cut_off: McpError) -> Response:
        """The rest of a stream that broke off: what was sent after the last event that came."""
        await asyncio.sleep(position.wait)
        headers = self._all_headers({"Accept": "text/event-stream", **position.headers()})
        try:
            response = await self._http.request("GET", self._url, headers)
        except HttpError:
            raise cut_off from None
        if response.status != 200:
            response.abort()
            raise cut_off
        return response

    async def _answer(
        self, response: Response, number: int, answer: asyncio.Future[Json], position: Position
    ) -> Json:
        done = False
        try:
            async for message in self._messages(response, position):
                if "method" not in message and message.get("id") is None:
                    message["id"] = number  # an error raised before the server parsed the request's id
                self._handle(message)
                if answer.done():
                    done = True
                    return jsonrpc.result_of(self._name, answer.result())
        finally:
            if done:
                response.release()
            else:
                response.abort()
        raise _CutOff("mcp.cut_off", name=self._name)

    async def _post(self, message: Json, headers: Mapping[str, str], *, opening: bool = False) -> Response:
        """A successful response; raises `RpcError`, `McpError` and `_SessionLost`."""
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
                "POST", self._target, every, jsonrpc.encode_message(message), resend=harmless
            )
        except HttpError as fault:
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
        """Raise for an error status. A JSON-RPC error in the body takes precedence."""
        self.refused_with = response.status
        if response.status == 401 and self._home is not None:
            raise _LoginNeeded("mcp.login", name=self._name, address=self._address.shown)
        if response.status in (401, 403):
            raise McpError("mcp.denied", name=self._name, status=response.status, address=self._address.shown)
        try:
            body = await response.read(_ERROR_BODY)
        except HttpError as fault:
            raise self._unreachable(fault) from None
        if response.status == 404 and session:
            raise _SessionLost(session)
        for message in jsonrpc.decode(body):
            if isinstance(message.get("error"), dict):
                jsonrpc.result_of(self._name, message)
        shown = self._address.shown
        raise RpcError(0, Text("mcp.status", address=shown, status=response.status))

    async def _send(self, message: Json) -> None:
        """Post a notification or reply, ignoring errors."""
        with contextlib.suppress(RpcError, _SessionLost):
            (await self._post(message, {})).abort()

    def _all_headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        spoken = {"MCP-Protocol-Version": self._version} if self._version else {}
        session = {"Mcp-Session-Id": self._session} if self._session else {}
        return {**self._headers, **spoken, **session, **headers}

    async def _renew(self, lost: str) -> None:
        """Repeat the handshake, once for all requests that lost the same session; its lists may have
        changed."""
        async with self._renewing:
            if self._session == lost:
                await legacy_handshake(self._name, self)
                self._listener.on_list_changed("tools")
                self._listener.on_list_changed("prompts")

    # incoming messages

    async def _messages(self, response: Response, position: Position) -> AsyncGenerator[Json, None]:
        try:
            async for message in messages(response, position):
                yield message
        except LineTooLong:
            raise self._too_long() from None
        except HttpError as fault:
            raise _CutOff("mcp.unreachable", name=self._name, why=fault.phrase) from None

    def _handle(self, message: Json) -> None:
        reply = jsonrpc.hear(message, self._waiting, self._listener)
        if reply is not None:
            self._post_in_background(reply)

    async def _read_stream(self) -> None:
        """Server-initiated messages of a legacy server; many have none and answer 405."""
        tries, position = 0, Position()
        while tries < _STREAM_TRIES:
            begun = asyncio.get_running_loop().time()
            with contextlib.suppress(HttpError, McpError):
                headers = self._all_headers({"Accept": "text/event-stream", **position.headers()})
                response = await self._http.request("GET", self._url, headers)
                try:
                    if response.status != 200:
                        return
                    async for message in self._messages(response, position):
                        self._handle(message)
                finally:
                    response.abort()
            lasted = asyncio.get_running_loop().time() - begun > _STREAM_HELD
            tries = 0 if lasted else tries + 1
            await asyncio.sleep(position.wait)

    def _post_in_background(self, message: Json) -> None:
        """Post in the background. Bounded: a server that floods us with requests is not answered
        endlessly."""
        if len(self._background) >= _MAX_BACKGROUND:
            return
        task = asyncio.create_task(self._send_bounded(self._send(message)))
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _send_bounded(self, sending: Coroutine[Any, Any, None]) -> None:
        with contextlib.suppress(TimeoutError, McpError):
            async with asyncio.timeout(_PARTING):
                await sending

    # faults

    def _unreachable(self, fault: HttpError) -> McpError:
        return McpError("mcp.unreachable", name=self._name, why=fault.phrase)

    def _too_long(self) -> McpError:
        return McpError("mcp.long_message", name=self._name, limit=jsonrpc.MAX_MESSAGE // (1024 * 1024))
