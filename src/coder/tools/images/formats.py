"""Image formats: type and size in pixels from the headers alone. No pixel is decoded."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import msgspec

HEAD = 16  # bytes that tell the type
_MOST_CHUNKS = 100_000  # of a PNG; writers use a few KB for each


class Broken(Exception):
    """Truncated or damaged."""


class Picture(msgspec.Struct, frozen=True):
    """An image as its header describes it."""

    media_type: str
    width: int
    height: int


def media_type_of(head: bytes) -> str:
    """The type by the first `HEAD` bytes, whatever the file is called; empty for other data."""
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if head.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if head.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return "image/webp"
    # Two letters begin many texts too: the reserved fields of a bitmap are zero.
    if head.startswith(b"BM") and head[6:10] == b"\0\0\0\0":
        return "image/bmp"
    return ""


def measured(data: bytes) -> Picture | None:
    """None for other data; raises `Broken`."""
    media_type = media_type_of(data[:HEAD])
    if not media_type:
        return None
    try:
        width, height = _SIZES[media_type](data)
    except IndexError:
        raise Broken from None
    if width < 1 or height < 1:
        raise Broken
    return Picture(media_type, width, height)


def _number(data: bytes, at: int, size: int, order: str = "little") -> int:
    if at < 0 or at + size > len(data):
        raise Broken
    return int.from_bytes(data[at : at + size], "big" if order == "big" else "little")


def _png(data: bytes) -> tuple[int, int]:
    """Every chunk up to the last is there and has its checksum."""
    at, kind = 8, b""
    for _ in range(_MOST_CHUNKS):
        if kind == b"IEND":
            return _number(data, 16, 4, "big"), _number(data, 20, 4, "big")
        length = _number(data, at, 4, "big")
        kind = data[at + 4 : at + 8]
        if at == 8 and (kind != b"IHDR" or length != 13):
            raise Broken
        if _number(data, at + 8 + length, 4, "big") != zlib.crc32(memoryview(data)[at + 4 : at + 8 + length]):
            raise Broken
        at += 12 + length
    raise Broken


_FRAME_HEADERS = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}
_BARE_MARKERS = {0x01, *range(0xD0, 0xD8)}  # without a length


def _jpeg(data: bytes) -> tuple[int, int]:
    if data.rfind(b"\xff\xd9") < 0:
        raise Broken
    at = 2
    while True:
        if data[at] != 0xFF:
            raise Broken
        while data[at] == 0xFF:  # fill bytes
            at += 1
        marker = data[at]
        at += 1
        if marker in _BARE_MARKERS:
            continue
        if marker in _FRAME_HEADERS:
            return _number(data, at + 5, 2, "big"), _number(data, at + 3, 2, "big")
        if marker in (0xD9, 0xDA):  # the image's data without a frame header before it
            raise Broken
        at += max(2, _number(data, at, 2, "big"))


def _gif(data: bytes) -> tuple[int, int]:
    if data.rstrip(b"\0")[-1:] != b";":
        raise Broken
    return _number(data, 6, 2), _number(data, 8, 2)


def _webp(data: bytes) -> tuple[int, int]:
    if _number(data, 4, 4) + 8 > len(data):
        raise Broken
    kind = data[12:16]
    if kind == b"VP8X":
        return _number(data, 24, 3) + 1, _number(data, 27, 3) + 1
    if kind == b"VP8L":
        bits = _number(data, 21, 4)
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8 " and data[23:26] == b"\x9d\x01\x2a":
        return _number(data, 26, 2) & 0x3FFF, _number(data, 28, 2) & 0x3FFF
    raise Broken


def _bmp(data: bytes) -> tuple[int, int]:
    if _number(data, 2, 4) > len(data) or _number(data, 14, 4) < 40:
        raise Broken
    height = _number(data, 22, 4)
    return _number(data, 18, 4), min(height, (1 << 32) - height)  # negative: the rows run downwards


_SIZES: dict[str, Callable[[bytes], tuple[int, int]]] = {
    "image/png": _png,
    "image/jpeg": _jpeg,
    "image/gif": _gif,
    "image/webp": _webp,
    "image/bmp": _bmp,
}
