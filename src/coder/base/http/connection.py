"""One HTTP connection: connect (through a proxy, with TLS), write, read in batches.

An asyncio `Protocol` rather than streams, to read everything that has arrived at once: an answer of many
small events costs one wake-up per network read, not one per event.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from binascii import b2a_base64
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from coder.base.http.address import Address
from coder.base.http.errors import HttpError
from coder.texts import Text

if TYPE_CHECKING:
    import ssl

_PAUSE_AT = 1 << 20  # unread bytes at which back-pressure is applied
_BULK = 1 << 16  # unread bytes that are delivered without throttling
_PACE = 0.01  # seconds between wake-ups once throttled
_UNPACED = 8  # quick wake-ups in a row before throttling starts, so that an answer starts without delay
_HEAD_LIMIT = 65_536  # bytes of a response head; real ones are below 8 KB

Resolve = Callable[[Address], Awaitable[str]]  # the IP address to connect to

# System CA bundles, for Python builds whose default location is empty.
_CERTIFICATE_FILES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)


class HttpConnection(asyncio.Protocol):
    """A connection with its receive buffer."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.transport: asyncio.Transport | None = None
        self.ended = False
        self.reset: Text | None = None
        self._waiting = bytearray()
        self._reader: asyncio.Future[None] | None = None
        self._paused = False
        self._last_data = 0.0
        self._quick = 0
        self._pacing: asyncio.TimerHandle | None = None

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._waiting += data
        if self._paced():
            return
        if len(self._waiting) > _PAUSE_AT:
            self._pause()
        self._wake()

    def _paced(self) -> bool:
        """Throttle wake-ups for many small events: a wake-up costs far more than an event."""
        now = self.loop.time()
        since, self._last_data = now - self._last_data, now
        self._quick = self._quick + 1 if since < _PACE else 0
        if self._quick <= _UNPACED or len(self._waiting) > _BULK or self._reader is None:
            return False
        self._pause()
        if self._pacing is None:
            self._pacing = self.loop.call_later(_PACE, self._pacing_done)
        return True

    def _pacing_done(self) -> None:
        self._pacing = None
        self._last_data = self.loop.time()
        self._wake()

    def _pause(self) -> None:
        if not self._paused and self.usable:
            assert self.transport is not None
            self._paused = True
            self.transport.pause_reading()

    def eof_received(self) -> None:
        self.ended = True
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended = True
        if exc is not None:
            reset = isinstance(exc, ConnectionResetError | BrokenPipeError)
            self.reset = (
                Text("fault.reset") if reset else Text("fault.connection_failed", why=_os_message(exc))
            )
        self._wake()

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    # our interface

    @property
    def usable(self) -> bool:
        return not self.ended and self.transport is not None and not self.transport.is_closing()

    def send(self, data: bytes) -> None:
        assert self.transport is not None
        self._quick = 0  # the first bytes of the next answer are not throttled
        self.transport.write(data)

    def take(self) -> bytes:
        """Everything received and not yet taken, without waiting."""
        data = bytes(self._waiting)
        self._waiting.clear()
        if self._paused and self.usable:
            assert self.transport is not None
            self._paused = False
            self.transport.resume_reading()
        return data

    def unread(self, data: bytes) -> None:
        """Put bytes back at the front of the buffer."""
        self._waiting[:0] = data

    async def receive(self, idle: float) -> bytes:
        """The next bytes; empty at EOF. Waits at most `idle` seconds."""
        if not self._waiting and not self.ended:
            await self._wait_for_data(idle)
        if self._waiting:
            return self.take()
        if self.reset:
            raise HttpError("closed", self.reset)
        return b""

    async def _wait_for_data(self, idle: float) -> None:
        reader = self._reader = self.loop.create_future()
        timer = self.loop.call_later(idle, _time_out, reader)
        try:
            await reader
        except TimeoutError:
            raise HttpError("idle_timeout", Text("fault.idle", seconds=f"{idle:g}")) from None
        finally:
            timer.cancel()
            self._reader = None

    async def read_head(self, idle: float) -> bytes:
        """The response head without its final blank line."""
        head = b""
        while True:
            try:
                data = await self.receive(idle)
            except HttpError as error:
                error.before_answer = error.kind == "closed" and not head
                raise
            if not data:
                clause = Text("fault.closed_in_head" if head else "fault.no_answer")
                raise HttpError("closed", clause, before_answer=not head)
            head += data
            end, width = _end_of_head(head)
            if end >= 0:
                self.unread(head[end + width :])
                return head[:end]
            if len(head) > _HEAD_LIMIT:
                raise HttpError("protocol", Text("fault.head_long"))

    def abort(self) -> None:
        """Close at once, dropping unsent data."""
        self.ended = True
        if self._pacing is not None:
            self._pacing.cancel()
        if self.transport is not None:
            self.transport.abort()


def _time_out(reader: asyncio.Future[None]) -> None:
    if not reader.done():
        reader.set_exception(TimeoutError())


def _end_of_head(head: bytes) -> tuple[int, int]:
    strict, lax = head.find(b"\r\n\r\n"), head.find(b"\n\n")
    if strict >= 0 and (lax < 0 or strict < lax):
        return strict, 4
    return lax, 2


def _os_message(exc: BaseException) -> str:
    number = getattr(exc, "errno", None)
    # asyncio's messages contain socket addresses; strerror names the cause.
    return os.strerror(number).lower() if number else str(exc) or type(exc).__name__


async def open_connection(
    address: Address,
    proxy: Address | None,
    connect_seconds: float,
    tls: Callable[[], ssl.SSLContext],
    resolve: Resolve | None = None,
) -> HttpConnection:
    """Connect to `address` or its proxy; every failure is an `HttpError`."""
    try:
        async with asyncio.timeout(connect_seconds):
            if proxy is None:
                return await _connect(address, tls, resolve)
            connection = await _connect(proxy, tls)
            if address.scheme == "https":
                try:
                    await _tunnel(connection, address, proxy, connect_seconds, tls)
                except BaseException:
                    connection.abort()
                    raise
            return connection
    except TimeoutError:
        raise HttpError(
            "connect_timeout", Text("fault.no_connection", seconds=f"{connect_seconds:g}")
        ) from None


async def _connect(
    address: Address, tls: Callable[[], ssl.SSLContext], resolve: Resolve | None = None
) -> HttpConnection:
    loop = asyncio.get_running_loop()
    context = tls() if address.scheme == "https" else None
    # Connect to the resolved IP, not to the name: it may resolve differently a moment later (DNS rebinding).
    host = address.host if resolve is None else await resolve(address)
    # Happy eyeballs only for names with several addresses: cancelling it may leak a socket (CPython's
    # staggered_race), and requests to local servers are cancelled often.
    delay = None if host == "localhost" or ":" in host or host.replace(".", "").isdigit() else 0.25
    name = address.host if context is not None else None
    try:
        _, connection = await loop.create_connection(
            HttpConnection, host, address.port, ssl=context, server_hostname=name, happy_eyeballs_delay=delay
        )
    except OSError as exc:
        raise _connect_error(exc) from None
    return connection


def _connect_error(exc: OSError) -> HttpError:
    import ssl

    if isinstance(exc, ssl.SSLCertVerificationError):
        return HttpError("tls", Text("fault.certificate", why=exc.verify_message or exc.reason))
    if isinstance(exc, ssl.SSLError):
        return HttpError("tls", Text("fault.handshake", why=exc.reason or Text("fault.no_tls")))
    if isinstance(exc, socket.gaierror):
        return HttpError("dns", Text("fault.host_unknown"))
    # asyncio merges the errors of several addresses (localhost has two) into one message.
    if isinstance(exc, ConnectionRefusedError) or f"[Errno {errno.ECONNREFUSED}]" in str(exc):
        return HttpError("refused", Text("fault.refused"))
    if isinstance(exc, ConnectionResetError | ConnectionAbortedError):
        return HttpError("closed", Text("fault.reset"))
    if isinstance(exc, TimeoutError):
        return HttpError("connect_timeout", Text("fault.timed_out"))
    return HttpError("refused", Text("fault.words", words=_os_message(exc)))


async def _tunnel(
    connection: HttpConnection,
    address: Address,
    proxy: Address,
    connect_seconds: float,
    tls: Callable[[], ssl.SSLContext],
) -> None:
    """CONNECT through the proxy, then start TLS with the server."""
    name = f"[{address.host}]" if ":" in address.host else address.host
    lines = [f"CONNECT {name}:{address.port} HTTP/1.1", f"Host: {name}:{address.port}"]
    if proxy.credentials:
        lines.append(f"Proxy-Authorization: {basic(proxy.credentials)}")
    connection.send("\r\n".join([*lines, "", ""]).encode("latin-1"))
    status = (await connection.read_head(connect_seconds)).split(b"\r\n", 1)[0].decode("latin-1")
    words = status.split(None, 2)
    if len(words) < 2 or words[1] != "200":
        raise HttpError("proxy", Text("fault.proxy_refused", proxy=proxy.shown, status=status[:100]))
    if connection.take():  # would be read as the server's answer, as if it had come through TLS
        raise HttpError("proxy", Text("fault.proxy_early", proxy=proxy.shown))
    assert connection.transport is not None
    try:
        transport = await connection.loop.start_tls(
            connection.transport, connection, tls(), server_hostname=address.host
        )
    except OSError as exc:
        raise _connect_error(exc) from None
    assert isinstance(transport, asyncio.Transport)
    connection.transport = transport


def basic(credentials: str) -> str:
    """The `Basic` value of an authorization header."""
    text = credentials if ":" in credentials else credentials + ":"
    return "Basic " + b2a_base64(text.encode("utf-8"), newline=False).decode("ascii")


def tls_context() -> ssl.SSLContext:
    """The system's CA certificates, or SSL_CERT_FILE and SSL_CERT_DIR (which OpenSSL reads itself)."""
    import ssl

    context = ssl.create_default_context()
    named = os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR")
    if not named and not context.cert_store_stats()["x509_ca"]:
        default = ssl.get_default_verify_paths().capath
        found = next((path for path in _CERTIFICATE_FILES if os.path.isfile(path)), None)  # noqa: PTH113 - pathlib would be imported for this alone
        if found and not default:
            context.load_verify_locations(found)
    return context
