"""Images for tests, made of their bytes: whole, or as a hostile hand would make them."""

from __future__ import annotations

import random
import struct
import zlib


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width: int = 8, height: int = 6, *, noise: bool = False, seed: int = 0) -> bytes:
    """One colour, which is a few bytes; or noise, which does not shrink."""
    row = bytes([40 + seed, 80, 120]) * width
    dice = random.Random(seed)
    rows = b"".join(b"\0" + (dice.randbytes(3 * width) if noise else row) for _ in range(height))
    return png_of(width, height, zlib.compress(rows, 1))


def png_of(width: int, height: int, pixels: bytes) -> bytes:
    """With a header that says so, whatever the pixels are."""
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def gif(width: int = 8, height: int = 6) -> bytes:
    """One frame of one colour."""
    head = b"GIF89a" + struct.pack("<HHBBB", width, height, 0x80, 0, 0) + b"\0\0\0\xff\xff\xff"
    codes, size = [4], width * height  # a clear code before every two pixels keeps the codes three bits wide
    for at in range(0, size, 2):
        codes += [0] * min(2, size - at) + [4]
    bits = sum(code << 3 * at for at, code in enumerate([*codes, 5]))
    packed = bits.to_bytes((len(codes) + 1) * 3 // 8 + 1, "little")
    blocks = b"".join(bytes([len(part)]) + part for part in _parts(packed, 255))
    return head + b"," + struct.pack("<HHHHB", 0, 0, width, height, 0) + b"\x02" + blocks + b"\0;"


def bmp(width: int = 8, height: int = 6) -> bytes:
    row = (b"\x28\x50\x78" * width).ljust(-(-3 * width // 4) * 4, b"\0")
    head = struct.pack("<IiiHHIIiiII", 40, width, height, 1, 24, 0, len(row) * height, 2835, 2835, 0, 0)
    return b"BM" + struct.pack("<IHHI", 54 + len(row) * height, 0, 0, 54) + head + row * height


def _parts(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]
