"""A lean HTTP/1.1 client: what a model request needs, and starts in a fraction of a library's time.

Connections are kept and used again; cancelling a request closes its socket at once.
It never writes a log, so it cannot write a key into one.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING

from coder.model.http.address import Address, parse_address, proxy_for
from coder.model.http.body import Body, Inflater, body_for
from coder.model.http.connection import HttpConnection, Resolve, basic, open_wire, tls_context
from coder.model.http.faults import HttpFault
from coder.texts import Phrase

if TYPE_CHECKING:
    import ssl

_REDIRECTS = 3
_KEPT_SECONDS = 55.0  # most servers close an idle connection after 60 s or more
_TAIL_SECONDS = 0.05  # for the last bytes of an answer; a new connection would take longer
_KEPT_AT_MOST = 4  # idle connections; the main agent and a few subagents

Route = tuple[str, str, int, str]


class Response:
    """Status, headers (lower-case names) and the body, which is read once."""

    def __init__(
        self,
        client: HttpClient,
        route: Route,
        wire: HttpConnection,
        status: int,
        headers: dict[str, str],
        body: Body,
    ) -> None:
        self.status = status
        self.headers = headers
        self.idle = client.idle
        self._client = client
        self._route = route
        self._wire = wire
        self._body = body
        self._released = False

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """The body as it arrives, unframed and decompressed; all that has arrived at a time."""
        encoding = self.headers.get("content-encoding", "").strip().lower()
        inflater = Inflater(encoding) if encoding in ("gzip", "x-gzip", "deflate") else None
        while not self._body.done:
            data = await self._wire.receive(self.idle)
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
        """Done with the answer: the connection may serve another request once its last bytes are in."""
        if self._released:
            return
        self._released = True
        if "close" in self.headers.get("connection", "").lower():
            self._wire.abort()
        else:
            self._client.keep(self._route, self._wire, self._body)

    def abort(self) -> None:
        """Close the connection whatever is still to come."""
        if not self._released:
            self._released = True
            self._wire.abort()


class HttpClient:
    """Sends requests. `idle` bounds each wait for bytes, in seconds; there is no bound on the whole."""

    def __init__(
        self,
        *,
        idle: float = 120.0,
        connect: float = 30.0,
        environment: Mapping[str, str] | None = None,
        resolve: Resolve | None = None,
    ) -> None:
        """`resolve` chooses the IP address to connect to, or raises `HttpFault`; not asked behind a proxy."""
        self.idle = idle
        self._resolve = resolve
        self._connect = min(connect, idle)
        self._environment = os.environ if environment is None else environment
        self._kept: list[tuple[Route, HttpConnection, Body, float]] = []
        self._tls: ssl.SSLContext | None = None

    async def request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes = b"",
        *,
        follow: bool = True,
        again: bool = True,
    ) -> Response:
        """Send, follow redirects within the origin (unless told not to), and return once the head is in.
        What gets no answer on a connection that was kept is sent `again`, unless that may do harm."""
        address = parse_address(url)
        for _ in range(_REDIRECTS + 1):
            response = await self._send(method, address, headers, body, again)
            if not follow or response.status not in (301, 302, 303, 307, 308):
                return response
            response.abort()
            address = _redirected(address, response)
        raise HttpFault("redirect", Phrase("fault.redirects", n=_REDIRECTS, address=address.shown))

    async def _send(
        self, method: str, address: Address, headers: Mapping[str, str], body: bytes, again: bool
    ) -> Response:
        proxy = proxy_for(address, self._environment)
        route = (*address.origin, f"{proxy.host}:{proxy.port}" if proxy else "")
        message = _message(method, address, proxy, headers, body)
        while (kept := await self._take_kept(route)) is not None:
            try:
                return await self._exchange(kept, route, method, message)
            except HttpFault as fault:
                if not (again and fault.before_answer):
                    raise
        wire = await open_wire(address, proxy, self._connect, self._tls_context, self._resolve)
        return await self._exchange(wire, route, method, message)

    async def _exchange(self, wire: HttpConnection, route: Route, method: str, message: bytes) -> Response:
        try:
            wire.send(message)
            status, headers = await self._head(wire)
            return Response(self, route, wire, status, headers, body_for(method, status, headers))
        except BaseException:
            wire.abort()
            raise

    async def _head(self, wire: HttpConnection) -> tuple[int, dict[str, str]]:
        while True:
            status, headers = _parse_head(await wire.read_head(self.idle))
            if status == 101:
                raise HttpFault("protocol", Phrase("fault.switch"))
            if status >= 200:
                return status, headers

    def _tls_context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = tls_context()
        return self._tls

    def keep(self, route: Route, wire: HttpConnection, body: Body) -> None:
        """Remember a connection whose answer is in, or all but in."""
        self._kept.append((route, wire, body, wire.loop.time()))
        while len(self._kept) > _KEPT_AT_MOST:
            self._kept.pop(0)[1].abort()

    async def _take_kept(self, route: Route) -> HttpConnection | None:
        """The newest kept connection for this route that is still good; the bad ones are dropped."""
        loop = asyncio.get_running_loop()
        self._kept = [kept for kept in self._kept if kept[1].loop is loop]
        while (at := _newest(self._kept, route)) is not None:
            _, wire, body, since = self._kept.pop(at)
            try:
                if loop.time() - since < _KEPT_SECONDS and await _reusable(wire, body):
                    return wire
            except asyncio.CancelledError:
                wire.abort()
                raise
            wire.abort()
        return None

    async def close(self) -> None:
        """Close every kept connection."""
        kept, self._kept = self._kept, []
        loop = asyncio.get_running_loop()
        for _, wire, _, _ in kept:
            if wire.loop is loop:
                wire.abort()
        await asyncio.sleep(0)  # the sockets close in the loop's next round


def _newest(kept: list[tuple[Route, HttpConnection, Body, float]], route: Route) -> int | None:
    return next((at for at in range(len(kept) - 1, -1, -1) if kept[at][0] == route), None)


async def _reusable(wire: HttpConnection, body: Body) -> bool:
    """Whether the last answer is in to its last byte, and nothing after it."""
    try:
        body.feed(wire.take())
        while not body.done and wire.usable:
            body.feed(await wire.receive(_TAIL_SECONDS))
    except HttpFault:
        return False
    return wire.usable and body.done and not body.spare


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
        if not _plain(name) or not _plain(value):
            raise HttpFault("header", Phrase("fault.header_characters", name=ascii(name)))
        lines.append(f"{name}: {value}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def _plain(text: str) -> bool:
    return all(" " <= c <= "~" or c == "\t" or "\xa0" <= c <= "\xff" for c in text)


def _parse_head(head: bytes) -> tuple[int, dict[str, str]]:
    lines = head.decode("latin-1").split("\n")
    words = lines[0].split(None, 2)
    if len(words) < 2 or not words[0].startswith("HTTP/1.") or not words[1].isdigit() or len(words[1]) != 3:
        raise HttpFault("address", Phrase("fault.not_http"))
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
    if location.startswith("/") and not location.startswith("//"):
        location = f"{address.scheme}://{address.host_header}{location}"
    target = parse_address(location) if "://" in location else None
    if target is None or response.status not in (307, 308) or target.origin != address.origin:
        where = target.shown if target else Phrase("fault.nowhere")
        clause = Phrase("fault.redirect_to", address=address.shown, status=response.status, where=where)
        raise HttpFault("redirect", clause)
    return Address(*address.origin, target.target, address.credentials)
