"""MCP of the editor's companion: JSON-RPC over local streamable HTTP.

Requests are posted and answered as JSON or SSE; notifications arrive on one long SSE stream, whose end is the
end of the connection. Shares messages with `coder.extend.mcp`, but not the transport.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Any

from coder import __version__, encode_message, messages
from coder.base.http.client import HttpClient, Response
from coder.base.http.errors import HttpError
from coder.base.http.sse import LineTooLong
from coder.base.process.own_process import is_own_socket
from coder.base.rpc import METHOD_NOT_FOUND, error, notification, request, result
from coder.texts import CoderError

PROTOCOL = "2025-06-18"
_ANSWER = 60.0  # seconds without a byte
_LISTENING = 7 * 86_400.0  # may be silent for days; a companion that ends closes the stream

Message = dict[str, Any]


class IdeFault(CoderError):
    """The companion is unreachable or returned an error."""


class CompanionTransport:
    """One session with a companion. Any error ends it; the caller opens another."""

    def __init__(self, port: int, token: str) -> None:
        # The server accepts only this host, and no proxy is used.
        self._port = port
        self._url = f"http://127.0.0.1:{port}/mcp"
        self._http = HttpClient(idle=_ANSWER, connect=5.0, environment={})
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._next_id = 0

    async def open(self) -> None:
        """The handshake. The editor's tools are not listed: none is used. Raises `IdeFault`."""
        if not is_own_socket(self._port):  # the port of an editor that crashed is anybody's
            raise IdeFault("context.ide.not_yours", port=self._port)
        result = await self.request(
            "initialize",
            {
                "protocolVersion": PROTOCOL,
                "capabilities": {},
                "clientInfo": {"name": "coder", "version": __version__},
            },
        )
        version = result.get("protocolVersion")
        self._headers["MCP-Protocol-Version"] = version if isinstance(version, str) else PROTOCOL
        await self._notify("notifications/initialized")

    async def request(self, method: str, params: Message) -> Message:
        """The result; raises `IdeFault`."""
        self._next_id += 1
        wanted = self._next_id
        response = await self._post(request(wanted, method, params))
        try:
            if session := response.headers.get("mcp-session-id"):
                self._headers["Mcp-Session-Id"] = session
            async for message in messages(response):
                if message.get("id") == wanted and "method" not in message:
                    return _result(message)
        except (HttpError, LineTooLong) as fault:
            raise IdeFault("context.ide.unreachable", why=fault.phrase) from fault
        finally:
            response.abort()
        raise IdeFault("context.ide.no_answer", method=method)

    async def notifications(self) -> AsyncGenerator[tuple[str, Message], None]:
        """The editor's notifications until it closes the stream; answers its requests on the way."""
        headers = {**self._headers, "Accept": "text/event-stream"}
        try:
            response = await self._http.request("GET", self._url, headers)
        except HttpError as fault:
            raise IdeFault("context.ide.unreachable", why=fault.phrase) from fault
        try:
            if response.status != 200:
                raise IdeFault("context.ide.status", status=response.status)
            response.idle = _LISTENING
            async for message in messages(response):
                method = message.get("method")
                if isinstance(method, str) and "id" in message:
                    await self._answer(message["id"], method)
                elif isinstance(method, str):
                    params = message.get("params")
                    yield method, params if isinstance(params, dict) else {}
        except (HttpError, LineTooLong) as fault:
            raise IdeFault("context.ide.unreachable", why=fault.phrase) from fault
        finally:
            response.abort()

    async def close(self) -> None:
        await self._http.close()

    async def _notify(self, method: str) -> None:
        (await self._post(notification(method))).abort()

    async def _answer(self, request_id: object, method: str) -> None:
        """Answer a ping; reject other requests."""
        no = error(request_id, METHOD_NOT_FOUND, f"{method} is not supported")
        (await self._post(result(request_id, {}) if method == "ping" else no)).abort()

    async def _post(self, message: Message) -> Response:
        headers = {
            **self._headers,
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
        }
        try:
            response = await self._http.request("POST", self._url, headers, encode_message(message))
        except HttpError as fault:
            raise IdeFault("context.ide.unreachable", why=fault.phrase) from fault
        if response.status >= 300:
            response.abort()
            raise IdeFault("context.ide.status", status=response.status)
        return response


def _result(message: Mapping[str, Any]) -> Message:
    error = message.get("error")
    if isinstance(error, dict):
        raise IdeFault("context.ide.says", why=str(error.get("message") or error.get("code")))
    result = message.get("result")
    return result if isinstance(result, dict) else {}
