"""Bring an image within the providers' limits: as it is, scaled down with Pillow if installed, or refused."""

from __future__ import annotations

import io
import os
import re
import threading
import warnings
import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, BinaryIO

import msgspec

from coder.protocol.messages import Image
from coder.texts import CoderError
from coder.tools.paths import size_words

if TYPE_CHECKING:
    from PIL.Image import Image as Pixels


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
        is_whole = _number(data, end - 4, 4, "big") == zlib.crc32(memoryview(data)[at + 4 : end - 4])
        yield at, end, kind, is_whole
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


MAX_FILE_BYTES = 32 * 1024 * 1024  # read at most
MAX_TOTAL_BYTES = 10_000_000  # of the images of one message or result
MAX_IMAGES = 10
# The lowest limits of the providers: 5 MB in Base64 and 8000 pixels a side (Anthropic), 2000 where a request
# has more than 20 images.
MAX_BYTES = 3_750_000
MAX_SIDE = 8000
_SIDE = 2000
_MAX_PIXELS = 50_000_000  # decoded: 200 MB of memory
_SENT = ("image/png", "image/jpeg", "image/webp")  # what all providers take
_NAMES = {f"image/{name.lower()}": name for name in ("PNG", "JPEG", "GIF", "WEBP", "BMP")}

_decoding = threading.Lock()


class Unusable(CoderError):
    """Why an image cannot be sent."""


def fitted(data: bytes, name: str = "") -> Image:
    """The image for a request. Blocking: run it off the event loop. Raises `Unusable`."""
    if len(data) > MAX_FILE_BYTES:
        raise too_large(name)
    try:
        data = without_damage(data)
        picture = measured(data)
    except Broken:
        raise Unusable("image.broken", name=name) from None
    if picture is None:
        raise Unusable("image.not_one", name=name)
    _check_pixels(picture.width, picture.height, name)
    if picture.media_type in _SENT and len(data) <= MAX_BYTES and _side(picture) <= _SIDE:
        return _image(data, picture, name)
    try:
        import PIL.Image
    except ImportError:
        if picture.media_type == "image/bmp" or len(data) > MAX_BYTES or _side(picture) > MAX_SIDE:
            from coder.config.distribution import install_line  # loads `importlib.metadata`

            raise Unusable("image.needs_pillow", name=name, line=install_line("images")) from None
        return _image(data, picture, name)
    warnings.filterwarnings("ignore", module="PIL")  # of odd files; the terminal is not theirs
    try:
        # Only these decoders: every further one is attack surface. One image at a time: each may take
        # 200 MB.
        with _decoding, PIL.Image.open(io.BytesIO(data), formats=[_NAMES[picture.media_type]]) as opened:
            _check_pixels(opened.width, opened.height, name)
            return _scaled(opened, name)
    except Unusable:
        raise
    except Exception:  # Pillow raises whatever its decoders meet
        raise Unusable("image.broken", name=name) from None


def decoded(data: str, name: str) -> Image:
    """An image that came as Base64. Raises `Unusable`."""
    if len(data) > MAX_FILE_BYTES * 4 // 3 + 4:
        raise too_large(name)
    try:
        return fitted(b64decode(data, validate=True), name)
    except ValueError:  # also for non-ASCII characters
        raise Unusable("image.broken", name=name) from None


def read_image(name: str, head: bytes, file: BinaryIO) -> Image:
    """An open file's image; `head` was read already. Raises `Unusable` and `OSError`."""
    if os.fstat(file.fileno()).st_size > MAX_FILE_BYTES:
        raise too_large(name)
    return fitted(head + file.read(MAX_FILE_BYTES + 1 - len(head)), name)


class Batch:
    """The images of one message or result. Those that are too many are not looked at."""

    def __init__(self) -> None:
        self.images: list[Image] = []
        self._tried = 0
        self._room = MAX_TOTAL_BYTES

    def add(self, name: str, make: Callable[[], Image]) -> Image:
        """Raises `Unusable`, and what `make` does."""
        self._tried += 1
        image = make() if self._tried <= MAX_IMAGES else None
        if image is None or _size(image) > self._room:
            megabytes = MAX_TOTAL_BYTES // 1_000_000
            raise Unusable("image.too_many", name=name, count=MAX_IMAGES, megabytes=megabytes)
        self._room -= _size(image)
        self.images.append(image)
        return image


def too_large(name: str) -> Unusable:
    return Unusable("image.too_large", name=name, limit=size_words(MAX_FILE_BYTES))


def described(image: Image) -> str:
    """Type and size, for the model and the person."""
    kind = _NAMES.get(image.media_type, image.media_type)
    return f"{kind}, {image.width}×{image.height}, {size_words(_size(image))}"


def _size(image: Image) -> int:
    return len(image.data) * 3 // 4 - image.data[-2:].count("=")


def _check_pixels(width: int, height: int, name: str) -> None:
    if width * height > _MAX_PIXELS:
        raise Unusable("image.too_many_pixels", name=name, width=width, height=height)


def _side(picture: Picture) -> int:
    return max(picture.width, picture.height)


def _image(data: bytes, picture: Picture, name: str) -> Image:
    text = b64encode(data).decode("ascii")
    return Image(picture.media_type, text, name=name, width=picture.width, height=picture.height)


def _scaled(opened: Pixels, name: str) -> Image:
    """The first frame, upright, at most `_SIDE` a side: PNG, or JPEG if that is too large."""
    import PIL.Image
    from PIL import ImageOps

    clear = "A" in opened.getbands() or "transparency" in opened.info
    mode = "RGBA" if clear else "RGB"
    pixels: Pixels = opened if opened.mode in ("RGB", "RGBA", "L") else opened.convert(mode)
    pixels.thumbnail((_SIDE, _SIDE))  # in place, and of a JPEG without decoding all of it
    pixels = ImageOps.exif_transpose(pixels).convert(mode)
    size = pixels.size
    for form, options in (("PNG", {}), ("JPEG", {"quality": 85}), ("JPEG", {"quality": 60})):
        out = io.BytesIO()
        flat = pixels
        if form == "JPEG" and clear:
            flat = PIL.Image.alpha_composite(PIL.Image.new("RGBA", size, "white"), pixels).convert("RGB")
        flat.save(out, form, **options)
        if out.tell() <= MAX_BYTES:
            media_type = f"image/{form.lower()}"
            return _image(out.getvalue(), Picture(media_type, *size), name)
    raise too_large(name)
