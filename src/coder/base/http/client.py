"""A minimal HTTP/1.1 client with keep-alive, which imports in a fraction of a library's time.

Cancelling a request closes its socket at once. It never logs, so no key can leak into a log.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING
from urllib.parse import urljoin

from coder.base import http
from coder.base.http.address import Address, parse_address, proxy_for
from coder.base.http.connection import HttpConnection, Resolve, basic, open_connection, tls_context
from coder.base.http.errors import HttpError
from coder.texts import Text

if TYPE_CHECKING:
    import ssl

    from coder.base.http.body import Body

_REDIRECTS = 3
_IDLE_SECONDS = 55.0  # most servers close an idle connection after 60 s or more
_TAIL_SECONDS = 0.05  # wait for the rest of a body before reusing its connection
_MAX_IDLE = 4  # idle connections; the main agent and a few subagents

Route = tuple[str, str, int, str]


class Response:
    """Status, headers (lower-case names) and the body, which is read once."""

    def __init__(
        self,
        client: HttpClient,
        route: Route,
        connection: HttpConnection,
        status: int,
        headers: dict[str, str],
        body: Body,
    ) -> None:
        self.status = status
        self.headers = headers
        self.idle = client.idle
        self._client = client
        self._route = route
        self._connection = connection
        self._body = body
        self._released = False

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """The decoded body, in chunks as large as what has arrived."""
        encoding = self.headers.get("content-encoding", "").strip().lower()
        inflater = http.body.Inflater(encoding) if encoding in ("gzip", "x-gzip", "deflate") else None
        while not self._body.done:
            data = await self._connection.receive(self.idle)
            if not data:
                self._body.end()
                break
            content = self._body.feed(data)
            if inflater is None:
                if content:
                    yield content
            else:
                for piece in inflater.feed(content):
                    yield piece

    async def read(self, limit: int) -> bytes:
        """The whole body, or its first `limit` bytes."""
        parts: list[bytes] = []
        size = 0
        async for part in self.chunks():
            parts.append(part)
            size += len(part)
            if size >= limit:
                break
        return b"".join(parts)[:limit]

    def release(self) -> None:
        """Return the connection to the pool."""
        if self._released:
            return
        self._released = True
        if "close" in self.headers.get("connection", "").lower():
            self._connection.abort()
        else:
            self._client.keep_alive(self._route, self._connection, self._body)

    def abort(self) -> None:
        """Close the connection, unless released."""
        if not self._released:
            self._released = True
            self._connection.abort()


class HttpClient:
    """`idle` is the timeout of each wait for bytes, in seconds; the whole response has none."""

    def __init__(
        self,
        *,
        idle: float = 120.0,
        connect: float = 30.0,
        environment: Mapping[str, str] | None = None,
        resolve: Resolve | None = None,
    ) -> None:
        """`resolve` chooses the IP address to connect to, or raises `HttpError`; not used with a proxy."""
        self.idle = idle
        self._resolve = resolve
        self._connect = min(connect, idle)
        self._environment = os.environ if environment is None else environment
        self._idle_connections: list[tuple[Route, HttpConnection, Body, float]] = []
        self._tls: ssl.SSLContext | None = None

    async def request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes = b"",
        *,
        follow: bool = True,
        resend: bool = True,
    ) -> Response:
        """Send, follow same-origin redirects if `follow`, return once the head has arrived. `resend`: retry
        if a reused connection was stale; only for idempotent requests."""
        address = parse_address(url)
        for _ in range(_REDIRECTS + 1):
            response = await self._send(method, address, headers, body, resend)
            if not follow or response.status not in (301, 302, 303, 307, 308):
                return response
            response.abort()
            address = _redirected(address, response)
        raise HttpError("redirect", Text("fault.redirects", n=_REDIRECTS, address=address.shown))

    async def _send(
        self, method: str, address: Address, headers: Mapping[str, str], body: bytes, resend: bool
    ) -> Response:
        proxy = proxy_for(address, self._environment)
        route = (*address.origin, f"{proxy.host}:{proxy.port}" if proxy else "")
        message = _message(method, address, proxy, headers, body)
        while (idle_connection := await self._take_idle(route)) is not None:
            try:
                return await self._exchange(idle_connection, route, method, message)
            except HttpError as error:
                if not (resend and error.before_answer):
                    raise
        connection = await open_connection(address, proxy, self._connect, self._tls_context, self._resolve)
        return await self._exchange(connection, route, method, message)

    async def _exchange(
        self, connection: HttpConnection, route: Route, method: str, message: bytes
    ) -> Response:
        try:
            connection.send(message)
            from coder.base.http.body import body_for  # while the server is at work

            status, headers = await self._head(connection)
            return Response(self, route, connection, status, headers, body_for(method, status, headers))
        except BaseException:
            connection.abort()
            raise

    async def _head(self, connection: HttpConnection) -> tuple[int, dict[str, str]]:
        while True:
            status, headers = _parse_head(await connection.read_head(self.idle))
            if status == 101:
                raise HttpError("protocol", Text("fault.switch"))
            if status >= 200:
                return status, headers

    def _tls_context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = tls_context()
        return self._tls

    def keep_alive(self, route: Route, connection: HttpConnection, body: Body) -> None:
        """Add a connection to the pool; the rest of its body may still arrive."""
        self._idle_connections.append((route, connection, body, connection.loop.time()))
        while len(self._idle_connections) > _MAX_IDLE:
            self._idle_connections.pop(0)[1].abort()

    async def _take_idle(self, route: Route) -> HttpConnection | None:
        """The newest reusable connection for this route; stale ones are closed."""
        loop = asyncio.get_running_loop()
        self._idle_connections = [
            idle_connection for idle_connection in self._idle_connections if idle_connection[1].loop is loop
        ]
        while (at := _newest(self._idle_connections, route)) is not None:
            _, connection, body, since = self._idle_connections.pop(at)
            try:
                if loop.time() - since < _IDLE_SECONDS and await _reusable(connection, body):
                    return connection
            except asyncio.CancelledError:
                connection.abort()
                raise
            connection.abort()
        return None

    async def close(self) -> None:
        """Close idle connections."""
        idle_connection, self._idle_connections = self._idle_connections, []
        loop = asyncio.get_running_loop()
        for _, connection, _, _ in idle_connection:
            if connection.loop is loop:
                connection.abort()
        await asyncio.sleep(0)  # the sockets close in the loop's next round


def _newest(idle_connection: list[tuple[Route, HttpConnection, Body, float]], route: Route) -> int | None:
    return next(
        (at for at in range(len(idle_connection) - 1, -1, -1) if idle_connection[at][0] == route), None
    )


async def _reusable(connection: HttpConnection, body: Body) -> bool:
    """Whether the last body is complete and nothing follows it."""
    try:
        body.feed(connection.take())
        while not body.done and connection.usable:
            body.feed(await connection.receive(_TAIL_SECONDS))
    except HttpError:
        return False
    return connection.usable and body.done and not body.spare


def _message(
    method: str, address: Address, proxy: Address | None, headers: Mapping[str, str], body: bytes
) -> bytes:
    through = proxy is not None and address.scheme == "http"
    target = f"http://{address.host_header}{address.target}" if through else address.target
    merged = {"host": ("Host", address.host_header), "accept-encoding": ("Accept-Encoding", "identity")}
    if address.credentials:
        merged["authorization"] = ("Authorization", basic(address.credentials))
    if proxy is not None and through and proxy.credentials:
        merged["proxy-authorization"] = ("Proxy-Authorization", basic(proxy.credentials))
    for name, value in headers.items():
        merged[name.lower()] = (name, value.strip())
    if body or method not in ("GET", "HEAD"):
        merged["content-length"] = ("Content-Length", str(len(body)))
    lines = [f"{method} {target} HTTP/1.1"]
    for name, value in merged.values():
        if not _valid_header_text(name) or not _valid_header_text(value):
            raise HttpError("header", Text("fault.header_characters", name=ascii(name)))
        lines.append(f"{name}: {value}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def _valid_header_text(text: str) -> bool:
    return all(" " <= c <= "~" or c == "\t" or "\xa0" <= c <= "\xff" for c in text)


def _parse_head(head: bytes) -> tuple[int, dict[str, str]]:
    lines = head.decode("latin-1").split("\n")
    words = lines[0].split(None, 2)
    if len(words) < 2 or not words[0].startswith("HTTP/1.") or not words[1].isdigit() or len(words[1]) != 3:
        raise HttpError("address", Text("fault.not_http"))
    headers: dict[str, str] = {}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if colon:
            key = name.strip().lower()
            headers[key] = f"{headers[key]}, {value.strip()}" if key in headers else value.strip()
    if words[0] == "HTTP/1.0" and "keep-alive" not in headers.get("connection", "").lower():
        headers["connection"] = "close"
    return int(words[1]), headers


def _redirected(address: Address, response: Response) -> Address:
    location = response.headers.get("location", "").strip()
    if location:
        location = urljoin(f"{address.scheme}://{address.host_header}{address.target}", location)
    target = parse_address(location) if "://" in location else None
    if target is None or response.status not in (307, 308) or target.origin != address.origin:
        where = target.shown if target else Text("fault.nowhere")
        clause = Text("fault.redirect_to", address=address.shown, status=response.status, where=where)
        raise HttpError("redirect", clause)
    return Address(*address.origin, target.target, address.credentials)
