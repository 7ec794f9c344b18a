"""Bring an image within the providers' limits: as it is, scaled down with Pillow where that is installed, or
refused with a sentence."""

from __future__ import annotations

import io
import os
import threading
import warnings
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import TYPE_CHECKING, BinaryIO

from coder.protocol.messages import Image
from coder.texts import Fault
from coder.tools.images.formats import Broken, Picture, measured, without_damage
from coder.tools.paths import size_words

if TYPE_CHECKING:
    from PIL.Image import Image as Pixels

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
_NAMES = {
    "image/png": "PNG",
    "image/jpeg": "JPEG",
    "image/gif": "GIF",
    "image/webp": "WEBP",
    "image/bmp": "BMP",
}


_decoding = threading.Lock()


class Unusable(Fault):
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
            from coder.config.installed import install_line  # loads `importlib.metadata`

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
    except ValueError:  # also where there are characters beyond ASCII
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
    """The first frame, upright, at most `_SIDE` a side: PNG, or JPEG where that is too large."""
    from PIL import ImageOps

    clear = "A" in opened.getbands() or "transparency" in opened.info
    mode = "RGBA" if clear else "RGB"
    pixels: Pixels = opened if opened.mode in ("RGB", "RGBA", "L") else opened.convert(mode)
    pixels.thumbnail((_SIDE, _SIDE))  # in place, and of a JPEG without decoding all of it
    pixels = ImageOps.exif_transpose(pixels).convert(mode)
    size = pixels.size
    for form, options in (("PNG", {}), ("JPEG", {"quality": 85}), ("JPEG", {"quality": 60})):
        out = io.BytesIO()
        flat = _on_white(pixels) if form == "JPEG" and clear else pixels
        flat.save(out, form, **options)
        if out.tell() <= MAX_BYTES:
            media_type = f"image/{form.lower()}"
            return _image(out.getvalue(), Picture(media_type, *size), name)
    raise too_large(name)


def _on_white(pixels: Pixels) -> Pixels:
    import PIL.Image

    return PIL.Image.alpha_composite(PIL.Image.new("RGBA", pixels.size, "white"), pixels).convert("RGB")
