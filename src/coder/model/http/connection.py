"""One connection: opened (through a proxy, under TLS where asked), written to, read in batches.

An asyncio `Protocol` rather than streams, so that everything that has arrived is taken in one go:
a long answer of many small events then costs one wake-up per network read, not one per event.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from coder.model.http.address import Address
from coder.model.http.faults import HttpFault
from coder.texts import Phrase

if TYPE_CHECKING:
    import ssl

_PAUSE_AT = 1 << 20  # bytes waiting unread before the sender is made to wait
_BULK = 1 << 16  # bytes waiting that are worth a wake-up of their own
_PACE = 0.01  # seconds between wake-ups once a server drips events faster than anybody reads
_UNPACED = 8  # quick wake-ups in a row before that begins, so that an answer starts without delay
_HEAD_LIMIT = 65_536  # bytes of a response head; real ones are below 8 KB

Resolve = Callable[[Address], Awaitable[str]]  # the IP address to connect to

# Where systems keep their certificates, for Pythons built elsewhere whose own default is an empty place.
_CERTIFICATE_FILES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)


class HttpConnection(asyncio.Protocol):
    """A connection and the bytes of it that nobody has taken yet."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.transport: asyncio.Transport | None = None
        self.ended = False
        self.reset: Phrase | None = None
        self._waiting = bytearray()
        self._reader: asyncio.Future[None] | None = None
        self._paused = False
        self._woken = 0.0
        self._quick = 0
        self._pacing: asyncio.TimerHandle | None = None

    # what asyncio calls

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
        """Whether these bytes may wait a moment for more to join them: a wake-up costs far more than an
        event, and a screen shows twenty frames a second at best."""
        now = self.loop.time()
        since, self._woken = now - self._woken, now
        self._quick = self._quick + 1 if since < _PACE else 0
        if self._quick <= _UNPACED or len(self._waiting) > _BULK or self._reader is None:
            return False
        self._pause()
        if self._pacing is None:
            self._pacing = self.loop.call_later(_PACE, self._pace_over)
        return True

    def _pace_over(self) -> None:
        self._pacing = None
        self._woken = self.loop.time()
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
            self.reset = _reason(exc)
        self._wake()

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    # what we call

    @property
    def usable(self) -> bool:
        return not self.ended and self.transport is not None and not self.transport.is_closing()

    def send(self, data: bytes) -> None:
        assert self.transport is not None
        self._quick = 0  # pacing is for one long answer; the first bytes of the next one are not to wait
        self.transport.write(data)

    def take(self) -> bytes:
        """All that has arrived and was not taken, without waiting."""
        data = bytes(self._waiting)
        self._waiting.clear()
        if self._paused and self.usable:
            assert self.transport is not None
            self._paused = False
            self.transport.resume_reading()
        return data

    def give_back(self, data: bytes) -> None:
        """Bytes taken too many are the first to be taken again."""
        self._waiting[:0] = data

    async def receive(self, idle: float) -> bytes:
        """The next bytes; empty at an orderly end. Waits at most `idle` seconds for them."""
        if not self._waiting and not self.ended:
            await self._arrival(idle)
        if self._waiting:
            return self.take()
        if self.reset:
            raise HttpFault("closed", self.reset)
        return b""

    async def _arrival(self, idle: float) -> None:
        reader = self._reader = self.loop.create_future()
        timer = self.loop.call_later(idle, _give_up, reader)
        try:
            await reader
        except TimeoutError:
            raise HttpFault("idle_timeout", Phrase("fault.idle", seconds=f"{idle:g}")) from None
        finally:
            timer.cancel()
            self._reader = None

    async def read_head(self, idle: float) -> bytes:
        """The bytes up to the blank line that ends a response head, without it."""
        head = b""
        while True:
            try:
                data = await self.receive(idle)
            except HttpFault as fault:
                fault.before_answer = fault.kind == "closed" and not head
                raise
            if not data:
                clause = Phrase("fault.closed_in_head" if head else "fault.no_answer")
                raise HttpFault("closed", clause, before_answer=not head)
            head += data
            end, width = _end_of_head(head)
            if end >= 0:
                self.give_back(head[end + width :])
                return head[:end]
            if len(head) > _HEAD_LIMIT:
                raise HttpFault("protocol", Phrase("fault.head_long"))

    def abort(self) -> None:
        """Close at once; what was not sent is dropped."""
        self.ended = True
        if self._pacing is not None:
            self._pacing.cancel()
        if self.transport is not None:
            self.transport.abort()


def _give_up(reader: asyncio.Future[None]) -> None:
    if not reader.done():
        reader.set_exception(TimeoutError())


def _end_of_head(head: bytes) -> tuple[int, int]:
    strict, lax = head.find(b"\r\n\r\n"), head.find(b"\n\n")
    if strict >= 0 and (lax < 0 or strict < lax):
        return strict, 4
    return lax, 2


def _reason(exc: Exception) -> Phrase:
    if isinstance(exc, ConnectionResetError | BrokenPipeError):
        return Phrase("fault.reset")
    return Phrase("fault.connection_failed", why=_words(exc))


def _words(exc: BaseException) -> str:
    number = getattr(exc, "errno", None)
    # asyncio's own texts name socket addresses; the system's name the trouble.
    return os.strerror(number).lower() if number else str(exc) or type(exc).__name__


async def open_wire(
    address: Address,
    proxy: Address | None,
    within: float,
    tls: Callable[[], ssl.SSLContext],
    resolve: Resolve | None = None,
) -> HttpConnection:
    """Connect to where requests for `address` go; every failure is an `HttpFault`."""
    try:
        async with asyncio.timeout(within):
            if proxy is None:
                return await _connect(address, tls, resolve)
            wire = await _connect(proxy, tls)
            if address.scheme == "https":
                try:
                    await _tunnel(wire, address, proxy, within, tls)
                except BaseException:
                    wire.abort()
                    raise
            return wire
    except TimeoutError:
        raise HttpFault("connect_timeout", Phrase("fault.no_connection", seconds=f"{within:g}")) from None


async def _connect(
    address: Address, tls: Callable[[], ssl.SSLContext], resolve: Resolve | None = None
) -> HttpConnection:
    loop = asyncio.get_running_loop()
    context = tls() if address.scheme == "https" else None
    # Connected to is what was resolved, and nothing that the name may mean a moment later.
    host = address.host if resolve is None else await resolve(address)
    # Racing addresses is for names that have several; a cancelled race may leave a socket open (CPython's
    # staggered_race), which a server on this machine, cancelled often, need not risk.
    delay = None if _is_near(host) else 0.25
    name = address.host if context is not None else None
    try:
        _, wire = await loop.create_connection(
            HttpConnection, host, address.port, ssl=context, server_hostname=name, happy_eyeballs_delay=delay
        )
    except OSError as exc:
        raise _connect_fault(exc) from None
    return wire


def _is_near(host: str) -> bool:
    """An address written out, or this machine's own name."""
    return host == "localhost" or ":" in host or host.replace(".", "").isdigit()


def _connect_fault(exc: OSError) -> HttpFault:
    import errno
    import socket
    import ssl

    if isinstance(exc, ssl.SSLCertVerificationError):
        return HttpFault("tls", Phrase("fault.certificate", why=exc.verify_message or exc.reason))
    if isinstance(exc, ssl.SSLError):
        return HttpFault("tls", Phrase("fault.handshake", why=exc.reason or Phrase("fault.no_tls")))
    if isinstance(exc, socket.gaierror):
        return HttpFault("dns", Phrase("fault.host_unknown"))
    # Of several addresses that failed (localhost has two), asyncio makes one text.
    if isinstance(exc, ConnectionRefusedError) or f"[Errno {errno.ECONNREFUSED}]" in str(exc):
        return HttpFault("refused", Phrase("fault.refused"))
    if isinstance(exc, ConnectionResetError | ConnectionAbortedError):
        return HttpFault("closed", Phrase("fault.reset"))
    if isinstance(exc, TimeoutError):
        return HttpFault("connect_timeout", Phrase("fault.timed_out"))
    return HttpFault("refused", Phrase("fault.words", words=_words(exc)))


async def _tunnel(
    wire: HttpConnection, address: Address, proxy: Address, within: float, tls: Callable[[], ssl.SSLContext]
) -> None:
    """Ask the proxy for a way through, then speak TLS with the server behind it."""
    name = f"[{address.host}]" if ":" in address.host else address.host
    lines = [f"CONNECT {name}:{address.port} HTTP/1.1", f"Host: {name}:{address.port}"]
    if proxy.credentials:
        lines.append(f"Proxy-Authorization: {basic(proxy.credentials)}")
    wire.send("\r\n".join([*lines, "", ""]).encode("latin-1"))
    status = (await wire.read_head(within)).split(b"\r\n", 1)[0].decode("latin-1")
    words = status.split(None, 2)
    if len(words) < 2 or words[1] != "200":
        raise HttpFault("proxy", Phrase("fault.proxy_refused", proxy=proxy.shown, status=status[:100]))
    assert wire.transport is not None
    try:
        transport = await wire.loop.start_tls(wire.transport, wire, tls(), server_hostname=address.host)
    except OSError as exc:
        raise _connect_fault(exc) from None
    assert isinstance(transport, asyncio.Transport)
    wire.transport = transport


def basic(credentials: str) -> str:
    """The `Basic` value of an authorization header."""
    from binascii import b2a_base64

    text = credentials if ":" in credentials else credentials + ":"
    return "Basic " + b2a_base64(text.encode("utf-8"), newline=False).decode("ascii")


def tls_context() -> ssl.SSLContext:
    """The system's trust, or what SSL_CERT_FILE and SSL_CERT_DIR name (OpenSSL reads both itself)."""
    import ssl

    context = ssl.create_default_context()
    named = os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR")
    if not named and not context.cert_store_stats()["x509_ca"]:
        default = ssl.get_default_verify_paths().capath
        found = next((path for path in _CERTIFICATE_FILES if os.path.isfile(path)), None)  # noqa: PTH113 - pathlib would be imported for this alone
        if found and not default:
            context.load_verify_locations(found)
    return context
