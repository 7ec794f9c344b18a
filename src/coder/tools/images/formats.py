"""Image formats: type and size in pixels from the headers alone. No pixel is decoded."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator

import msgspec

HEAD = 16  # bytes that tell the type
_MOST_CHUNKS = 100_000  # of a PNG or JPEG; writers use a few KB for each


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
    for at, _, kind, is_whole in _chunks(data):
        if not is_whole or (at == 8 and (kind != b"IHDR" or _number(data, at, 4, "big") != 13)):
            raise Broken
    return _number(data, 16, 4, "big"), _number(data, 20, 4, "big")


def _chunks(data: bytes) -> Iterator[tuple[int, int, bytes, bool]]:
    """Start, end, type of each chunk of a PNG up to the last, and whether it has its checksum."""
    at = 8
    for _ in range(_MOST_CHUNKS):
        end = at + 12 + _number(data, at, 4, "big")
        kind = data[at + 4 : at + 8]
        yield (
            at,
            end,
            kind,
            _number(data, end - 4, 4, "big") == zlib.crc32(memoryview(data)[at + 4 : end - 4]),
        )
        if kind == b"IEND":
            return
        at = end
    raise Broken


def without_damage(data: bytes) -> bytes:
    """A PNG without its damaged ancillary chunks (colour profile, comments), which viewers ignore and which
    providers may refuse the whole image for. Raises `Broken`."""
    if media_type_of(data[:HEAD]) != "image/png":
        return data
    kept = [(at, end) for at, end, kind, is_whole in _chunks(data) if is_whole or not kind[:1].islower()]
    if sum(end - at for at, end in kept) == kept[-1][1] - 8:
        return data
    return data[:8] + b"".join(data[at:end] for at, end in kept)


_FRAME_HEADERS = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}
_MARKER = re.compile(rb"\xff+[^\x00\xff\xd0-\xd7]")  # without those that stand in a scan's data
# Of a progressive JPEG; encoders write about ten. A decoder looks at all pixels for each, of 75 bytes or so.
_MOST_SCANS = 100


def _jpeg(data: bytes) -> tuple[int, int]:
    if data.rfind(b"\xff\xd9") < 0:
        raise Broken
    at, size, scans = 2, (0, 0), 0
    for _ in range(_MOST_CHUNKS):
        found = _MARKER.search(data, at) if scans else _MARKER.match(data, at)
        if found is None:
            break
        marker, at = data[found.end() - 1], found.end()
        if marker == 0x01:  # has no length
            continue
        if marker == 0xD9:  # the end
            break
        if marker in _FRAME_HEADERS and not scans:
            size = _number(data, at + 5, 2, "big"), _number(data, at + 3, 2, "big")
        scans += marker == 0xDA
        if scans > _MOST_SCANS or (scans and size == (0, 0)):
            raise Broken
        at += max(2, int.from_bytes(data[at : at + 2], "big"))
    else:
        raise Broken
    return size


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
