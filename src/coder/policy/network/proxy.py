"""The protocols of a command's door: HTTP CONNECT, plain HTTP and SOCKS5, on the same port.

The clients are programs that a model wrote or chose: heads are bounded in bytes and time, and nothing that
they send is trusted but the host and port, which `Door.reach` judges."""

from __future__ import annotations

import asyncio
import contextlib
import re
from binascii import a2b_base64
from collections.abc import Callable
from hmac import compare_digest
from ipaddress import ip_address
from typing import NamedTuple, Protocol

from coder.base.http.address import Address, parse_address
from coder.base.http.connection import basic
from coder.base.http.errors import HttpError
from coder.policy.programs import names

HEAD_BYTES = 32_768
HEAD_SECONDS = 10.0
_LINGER_SECONDS = 2.0  # for a refused client to stop sending, so that it can read why
_CHUNK = 65_536
_FIELD = re.compile(r"[!#-'*+.^-z|~\w-]+[ \t]*:[^\x00-\x08\x0a-\x1f\x7f]*", re.ASCII)
# Of one hop only, or replaced.
_NOT_FORWARDED = names("host connection keep-alive proxy-connection proxy-authorization upgrade te")

Pair = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Refused(Exception):
    """Why a host is not reached. `denied`: by the rules; else it could not be reached."""

    def __init__(self, sentence: str, *, denied: bool = False) -> None:
        super().__init__(sentence)
        self.denied = denied


class Upstream(NamedTuple):
    """A connection to a host. `proxy`: the person's own, if it gets plain requests."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    proxy: Address | None = None


class Reaches(Protocol):
    """What a connection needs of its door."""

    token: str

    async def reach(self, host: str, port: int, *, plain: bool = False) -> Upstream: ...


class _Malformed(Exception):
    """Bytes that are no request; `answer` goes back."""

    def __init__(self, answer: bytes) -> None:
        super().__init__()
        self.answer = answer


class _Request(NamedTuple):
    """What a client wants. `accepted`: tells it that it has it. `refused`: makes an answer of a refusal.
    `forwarded`: the head to send on, as it is and to a proxy."""

    host: str
    port: int
    accepted: bytes
    refused: Callable[[Refused], bytes]
    forwarded: Callable[[Address | None], bytes] | None = None


async def serve(door: Reaches, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One connection, to its end."""
    ends = (OSError, EOFError, asyncio.LimitOverrunError, TimeoutError)
    with contextlib.closing(writer), contextlib.suppress(*ends):
        try:
            async with asyncio.timeout(HEAD_SECONDS):
                first = await reader.readexactly(1)
                request = await (_socks if first == b"\5" else _http)(first, reader, writer, door.token)
        except _Malformed as problem:
            await _end(reader, writer, problem.answer)
            return
        try:
            found = await door.reach(request.host, request.port, plain=request.forwarded is not None)
        except Refused as refusal:
            await _end(reader, writer, request.refused(refusal))
            return
        writer.write(request.accepted)
        if request.forwarded is not None:
            found.writer.write(request.forwarded(found.proxy))
        await relay((reader, writer), (found.reader, found.writer))


async def relay(client: Pair, server: Pair) -> None:
    """Pass bytes on in both directions until both have ended; a half-closed one goes on with the other."""
    try:
        await asyncio.gather(_pass_on(client[0], server[1]), _pass_on(server[0], client[1]))
    finally:
        for writer in (client[1], server[1]):
            writer.close()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(_CHUNK):
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()
    else:  # TLS to the person's proxy
        writer.close()


async def _end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answer: bytes) -> None:
    """Answer, and read what still comes: closing with unread bytes would reset the connection."""
    writer.write(answer)
    writer.write_eof()
    async with asyncio.timeout(_LINGER_SECONDS):
        while await reader.read(_CHUNK):
            pass


# HTTP


async def _http(
    first: bytes, reader: asyncio.StreamReader, _writer: asyncio.StreamWriter, token: str
) -> _Request:
    try:
        head = first + await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        raise _Malformed(_response(431, "Request Header Fields Too Large")) from None
    line, *fields = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    headers = [(name.strip(), value.strip()) for name, _, value in (one.partition(":") for one in fields)]
    method, _, rest = line.partition(" ")
    target, _, version = rest.rpartition(" ")
    # No field that another program could read as two: it may be the person's own proxy that gets them.
    whole = all(_FIELD.fullmatch(one) for one in fields)
    if not version.startswith("HTTP/1.") or not method.isalpha() or not whole:
        raise _Malformed(_response(400, "Bad Request", "This is the proxy of coder's sandbox."))
    logins = [value for name, value in headers if name.lower() == "proxy-authorization"]
    if token and not any(_knows(value, token) for value in logins):
        challenge = 'Proxy-Authenticate: Basic realm="coder"\r\n'
        raise _Malformed(_response(407, "Proxy Authentication Required", more=challenge))
    try:
        if method == "CONNECT":
            address = parse_address(f"https://{target}/")
            accepted = b"HTTP/1.1 200 Connection established\r\n\r\n"
            return _Request(address.host, address.port, accepted, _refusal)
        address = parse_address(target, ("http",))
    except HttpError:
        why = "The proxy takes CONNECT and http:// requests."
        raise _Malformed(_response(400, "Bad Request", why)) from None

    def forwarded(proxy: Address | None) -> bytes:
        asked = address.target if proxy is None else f"http://{address.host_header}{address.target}"
        lines = [f"{method} {asked} HTTP/1.1", f"Host: {address.host_header}", "Connection: close"]
        lines += [f"{name}: {value}" for name, value in headers if name.lower() not in _NOT_FORWARDED]
        if proxy is not None and proxy.credentials:
            lines.append(f"Proxy-Authorization: {basic(proxy.credentials)}")
        return "\r\n".join([*lines, "", ""]).encode("latin-1")

    return _Request(address.host, address.port, b"", _refusal, forwarded)


def _knows(value: str, token: str) -> bool:
    kind, _, encoded = value.partition(" ")
    with contextlib.suppress(ValueError):
        return kind.lower() == "basic" and compare_digest(
            a2b_base64(encoded.encode("ascii")), f"coder:{token}".encode()
        )
    return False


def _refusal(refusal: Refused) -> bytes:
    # Many programs show this line alone.
    status = (403, "Blocked by sandbox.network.allow") if refusal.denied else (502, "Bad Gateway")
    return _response(*status, str(refusal))


def _response(code: int, reason: str, sentence: str = "", more: str = "") -> bytes:
    body = f"coder: {sentence or reason}\n".encode()
    head = f"HTTP/1.1 {code} {reason}\r\n{more}Content-Type: text/plain; charset=utf-8\r\n"
    return f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body


# SOCKS5 (RFC 1928, RFC 1929)

_ACCEPTED, _NOT_ALLOWED, _UNREACHABLE, _NO_COMMAND, _NO_ADDRESS = 0, 2, 4, 7, 8


async def _socks(
    _first: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: str
) -> _Request:
    wanted = 2 if token else 0
    if wanted not in await _counted(reader):
        raise _Malformed(b"\5\xff")
    writer.write(bytes([5, wanted]))
    if token:
        await reader.readexactly(1)
        _user, password = await _counted(reader), await _counted(reader)
        if not compare_digest(password, token.encode()):
            raise _Malformed(b"\1\1")
        writer.write(b"\1\0")
    _version, command, _, kind = await reader.readexactly(4)
    host = await _socks_host(kind, reader)
    port = int.from_bytes(await reader.readexactly(2), "big")
    if command != 1:  # CONNECT
        raise _Malformed(_reply(_NO_COMMAND))

    def refused(refusal: Refused) -> bytes:
        return _reply(_NOT_ALLOWED if refusal.denied else _UNREACHABLE)

    return _Request(host, port, _reply(_ACCEPTED), refused)


async def _socks_host(kind: int, reader: asyncio.StreamReader) -> str:
    if kind == 3:
        return (await _counted(reader)).decode("latin-1")
    if kind not in (1, 4):
        raise _Malformed(_reply(_NO_ADDRESS))
    return str(ip_address(await reader.readexactly(4 * kind)))


async def _counted(reader: asyncio.StreamReader) -> bytes:
    return await reader.readexactly((await reader.readexactly(1))[0])


def _reply(code: int) -> bytes:
    return bytes([5, code, 0, 1, 0, 0, 0, 0, 0, 0])
