"""Response body framing and content encoding, as sans-I/O parsers."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from typing import Protocol

from coder.base.http.errors import HttpError
from coder.texts import Text

_LINE_LIMIT = 16_384  # bytes of a chunk-size or trailer line
_INFLATE_STEP = 1 << 20  # bytes inflated at a time, against zip bombs


class Body(Protocol):
    """Framing of one body. `spare` holds bytes received after its end."""

    done: bool
    spare: bytes

    def feed(self, data: bytes) -> bytes:
        """The content in these bytes."""
        ...

    def end(self) -> None:
        """On EOF; raises `HttpError` if the body is incomplete."""
        ...


class SizedBody:
    """`Content-Length`."""

    def __init__(self, size: int) -> None:
        self._left = size
        self.done = size == 0
        self.spare = b""

    def feed(self, data: bytes) -> bytes:
        content, rest = data[: self._left], data[self._left :]
        self._left -= len(content)
        self.done = self._left == 0
        self.spare += rest
        return content

    def end(self) -> None:
        if not self.done:
            raise HttpError("closed", Text("fault.closed_early", n=self._left))


class OpenBody:
    """No length: the body ends with the connection."""

    def __init__(self) -> None:
        self.done = False
        self.spare = b""

    def feed(self, data: bytes) -> bytes:
        return data

    def end(self) -> None:
        self.done = True


class ChunkedBody:
    """`Transfer-Encoding: chunked`; extensions and trailers are read and dropped."""

    def __init__(self) -> None:
        self.done = False
        self.spare = b""
        self._partial = b""  # an unfinished line
        self._left = 0  # bytes of the current chunk still to come
        self._closing = False  # the line end after a chunk is still to come
        self._trailers = False

    def feed(self, data: bytes) -> bytes:
        if self._partial:
            data, self._partial = self._partial + data, b""
        parts: list[bytes] = []
        at = 0
        while at < len(data) and not self.done:
            if self._left:
                part = data[at : at + self._left]
                parts.append(part)
                at += len(part)
                self._left -= len(part)
                self._closing = not self._left
                continue
            end = data.find(b"\n", at)
            if end < 0:
                self._buffer_partial(data[at:])
                at = len(data)
                break
            self._line(data[at:end].rstrip(b"\r"))
            at = end + 1
        self.spare += data[at:] if self.done else b""
        return b"".join(parts)

    def _buffer_partial(self, line: bytes) -> None:
        if len(line) > _LINE_LIMIT:
            raise HttpError("protocol", Text("fault.chunk_line"))
        self._partial = line

    def _line(self, line: bytes) -> None:
        if self._closing:
            if line:
                raise HttpError("protocol", Text("fault.chunk_long"))
            self._closing = False
        elif self._trailers:
            self.done = not line
        else:
            self._left = _chunk_size(line)
            self._trailers = not self._left

    def end(self) -> None:
        # Some servers omit the empty line after the last chunk.
        if not self.done and not self._trailers:
            raise HttpError("closed", Text("fault.closed_midway"))
        self.done = True


def _chunk_size(line: bytes) -> int:
    digits = line.partition(b";")[0].strip()
    if not digits or len(digits) > 15 or digits.strip(b"0123456789abcdefABCDEF"):
        raise HttpError("protocol", Text("fault.chunk_size"))
    return int(digits, 16)


def body_for(method: str, status: int, headers: Mapping[str, str]) -> Body:
    """The framing of a response (RFC 9112, section 6.3)."""
    if method == "HEAD" or status in (204, 304):
        return SizedBody(0)
    if "chunked" in headers.get("transfer-encoding", "").lower():
        return ChunkedBody()
    length = headers.get("content-length", "").strip()
    if not length:
        return OpenBody()
    sizes = {part.strip() for part in length.split(",")}
    size = sizes.pop()
    if sizes or not (size.isascii() and size.isdigit()) or len(size) > 15:
        raise HttpError("protocol", Text("fault.content_length"))
    return SizedBody(int(size))


_GZIP = b"\x1f"  # the first byte of a member


class Inflater:
    """gzip and deflate. We request neither, but some gateways send them anyway."""

    def __init__(self, encoding: str) -> None:
        self._raw_allowed = encoding == "deflate"  # "deflate" in the wild may lack the zlib wrapper
        self._engine: zlib._Decompress = zlib.decompressobj(wbits=47)

    def feed(self, data: bytes) -> Iterator[bytes]:
        while data:
            if self._engine.eof:
                if data[:1] != _GZIP:
                    return  # padding
                self._engine = zlib.decompressobj(wbits=47)  # some gateways make a member of each flush
            try:
                piece = self._engine.decompress(data, _INFLATE_STEP)
            except zlib.error:
                if not self._raw_allowed:
                    raise HttpError("protocol", Text("fault.damaged")) from None
                self._raw_allowed = False
                self._engine = zlib.decompressobj(wbits=-15)
                continue
            self._raw_allowed = False
            if piece:
                yield piece
            data = self._engine.unused_data if self._engine.eof else self._engine.unconsumed_tail
