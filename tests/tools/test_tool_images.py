"""Images: recognized by their bytes, bounded before anything is decoded, scaled down where Pillow is."""

from __future__ import annotations

import builtins
import contextlib
import importlib.util
import io
import os
import re
import struct
import tracemalloc
import zlib
from base64 import b64decode
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from world import World

from coder.config.distribution import install_line
from coder.protocol.messages import Image
from coder.tools import images as fit
from coder.tools.images import MAX_FILE_BYTES, Batch, Broken, Unusable, decoded, fitted, measured
from coder.tools.read import Read
from kit.images import bmp, chunk, gif, png, png_of

needs_pillow = pytest.mark.skipif(importlib.util.find_spec("PIL") is None, reason="Pillow is not installed")


@pytest.fixture
def without_pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name.partition(".")[0] == "PIL":
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)


def saved(form: str, width: int = 8, height: int = 6, **options: Any) -> bytes:
    import PIL.Image

    out = io.BytesIO()
    PIL.Image.new("RGB", (width, height), "teal").save(out, form, **options)
    return out.getvalue()


def whole(data: bytes) -> tuple[str, int, int] | None:
    found = measured(data)
    return None if found is None else (found.media_type, found.width, found.height)


def test_types_and_sizes() -> None:
    assert whole(png(7, 5)) == ("image/png", 7, 5)
    assert whole(gif(7, 5)) == ("image/gif", 7, 5)
    assert whole(bmp(7, 5)) == ("image/bmp", 7, 5)
    assert whole(b"BM is how this text begins, and it goes on") is None
    assert whole(b"") is None


def test_a_damaged_comment_is_left_out_and_damaged_pixels_are_refused() -> None:
    """Viewers ignore the first; the reference server of MCP sends such an image."""
    data, text = png(), chunk(b"tEXt", b"Title\0x")
    at = len(data) - 12
    image = fitted(data[:at] + text[:-1] + bytes([text[-1] ^ 1]) + data[at:])
    assert b64decode(image.data) == data
    assert b64decode(fitted(data[:at] + text + data[at:]).data) == data[:at] + text + data[at:]
    with pytest.raises(Unusable):
        fitted(data[: at - 1] + bytes([data[at - 1] ^ 1]) + data[at:])


@needs_pillow
@pytest.mark.parametrize(
    ("form", "options"),
    [
        *(("JPEG", {}), ("JPEG", {"progressive": True}), ("WEBP", {}), ("WEBP", {"lossless": True})),
        ("WEBP", {"lossless": True, "exif": b"Exif\0\0II*\0\0\0\0\0"}),
        *(("PNG", {}), ("GIF", {}), ("BMP", {})),
    ],
)
def test_the_same_as_pillow_says(form: str, options: dict[str, Any]) -> None:
    assert whole(saved(form, 31, 17, **options)) == (f"image/{form.lower()}", 31, 17)


@needs_pillow
@pytest.mark.parametrize("form", ["PNG", "JPEG", "WEBP"])
def test_no_truncated_image_passes_for_a_whole_one(form: str) -> None:
    data = saved(form, 40, 30)
    for end in range(12, len(data) - 1):
        with pytest.raises(Unusable):
            fitted(data[:end])


def test_a_flipped_byte_is_found() -> None:
    data = bytearray(png())
    data[-20] ^= 1
    with pytest.raises(Broken):
        measured(bytes(data))


@given(st.binary(max_size=300), st.sampled_from([png(), gif(), bmp(), b"\xff\xd8\xff", b"RIFF....WEBPVP8 "]))
def test_no_bytes_make_it_raise_anything_else(noise: bytes, start: bytes) -> None:
    for data in (start[: len(noise) % 60] + noise, start + noise, start[:40] + noise + start[40:]):
        try:
            measured(data)
        except Broken:
            continue


def test_what_fits_goes_as_it_is() -> None:
    data = png(1200, 900)
    image = fitted(data, "a.png")
    assert (b64decode(image.data), image.media_type) == (data, "image/png")
    assert (image.name, image.width, image.height) == ("a.png", 1200, 900)


@needs_pillow
def test_what_is_too_large_is_scaled_down() -> None:
    wide = fitted(png(5000, 100))
    assert (wide.width, wide.height, wide.media_type) == (2000, 40, "image/png")
    assert whole(b64decode(wide.data)) == ("image/png", 2000, 40)
    heavy = fitted(png(1500, 1400, noise=True))  # more than 6 MB, and as PNG not less
    assert heavy.media_type == "image/jpeg"
    assert len(b64decode(heavy.data)) <= fit.MAX_BYTES


@needs_pillow
@pytest.mark.parametrize("data", [gif(), bmp()])
def test_what_not_all_providers_take_is_converted(data: bytes) -> None:
    assert whole(b64decode(fitted(data).data)) == ("image/png", 8, 6)


@needs_pillow
def test_a_photo_is_upright_and_says_nothing_of_its_camera() -> None:
    import PIL.Image

    exif = PIL.Image.Exif()
    exif[0x0112] = 6  # turned
    exif[0x010F] = "SECRET CAMERA"
    image = fitted(saved("JPEG", 3000, 1000, exif=exif))
    assert image.height == 2000
    assert b"SECRET" not in b64decode(image.data)


@pytest.mark.usefixtures("without_pillow")
def test_without_pillow_it_is_sent_as_it_is_or_refused_with_a_sentence() -> None:
    assert fitted(png(5000, 100)).width == 5000
    assert fitted(gif()).media_type == "image/gif"
    for data in (bmp(), png(9000, 10), png(1500, 1400, noise=True)):
        with pytest.raises(Unusable, match=re.escape(install_line("images"))):
            fitted(data, "x")


def bombs() -> dict[str, bytes]:
    zeros = zlib.compress(bytes(50_000_000), 9)
    text = chunk(b"zTXt", b"Comment\0\0" + zeros)
    head = png_of(3000, 10, zlib.compress(b"\0" * 90_010))
    return {
        "pixels": png_of(60_000, 60_000, zeros),
        "sides": png_of(2**31 - 1, 2**31 - 1, zeros),
        "gif": b"GIF89a" + struct.pack("<HHBBB", 65_535, 65_535, 0, 0, 0) + b";",
        "text": head[:33] + text + head[33:],
        "empty": png_of(0, 10, zeros),
        "chunks": head[:33] + chunk(b"tEXt", b"") * 200_000 + head[33:],
    }


@pytest.mark.thorough
@needs_pillow
@pytest.mark.parametrize("name", list(bombs()))
def test_a_bomb_is_not_decoded(name: str) -> None:
    data = bombs()[name]
    tracemalloc.start()
    try:
        with pytest.raises(Unusable):
            fitted(data, name)
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


@needs_pillow
@pytest.mark.parametrize("before", [b"", b"\xff\xfe\0\x04\xff\xd9"], ids=["bare", "behind a false end"])
def test_a_jpeg_of_endless_scans_is_not_decoded(before: bytes) -> None:
    """Each is a few bytes, and a look at all pixels: a file of 30 MB would take hours."""
    whole_one = saved("JPEG", 2100, 8, progressive=True)
    scans = [match.start() for match in re.finditer(rb"\xff\xda", whole_one)]
    assert fitted(whole_one).width == 2000
    again = before + whole_one[scans[-1] : -2]
    with pytest.raises(Unusable):
        fitted(whole_one[:-2] + again * 100 + whole_one[-2:])
    assert fitted(whole_one + again * 100).width == 2000  # behind its end


def test_of_too_many_the_rest_is_not_even_looked_at() -> None:
    looked: list[int] = []

    def look(number: int) -> Image:
        looked.append(number)
        return fitted(png() if number % 2 else png()[:-3])

    batch = Batch()
    for number in range(500):
        with contextlib.suppress(Unusable):
            batch.add("x", partial(look, number))
    assert looked == list(range(10))
    assert len(batch.images) == 5


@needs_pillow
def test_what_pillow_warns_of_does_not_reach_the_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    import warnings

    exif = b"Exif\0\0II*\0\x08\0\0\0\xff\xff" + bytes(40)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        with contextlib.suppress(Unusable):
            fitted(saved("JPEG", 2500, 10, exif=exif))
    assert capfd.readouterr() == ("", "")


def test_base64_that_is_none_or_endless() -> None:
    for data in ("", "not base64!", "AAAA", "é" * 40):
        with pytest.raises(Unusable):
            decoded(data, "x")
    with pytest.raises(Unusable, match="larger than"):
        decoded("A" * (MAX_FILE_BYTES * 2), "x")


# read


@pytest.fixture
def world(tmp_path: Path) -> World:
    (tmp_path / "workspace").mkdir()
    made = World(tmp_path / "workspace")
    made.context.sees_images = True
    return made


def test_read_shows_an_image_whatever_it_is_called(world: World) -> None:
    (world.root / "notes.txt").write_bytes(png())
    result = world.call(Read(), path="notes.txt")
    assert result.ok
    assert [b64decode(image.data) for image in result.images] == [png()]
    assert result.for_model == f"notes.txt is an image (PNG, 8×6, {len(png())} B), shown beside this result"


def test_a_model_that_does_not_see_is_told_so(world: World) -> None:
    world.context.sees_images = False
    (world.root / "a.png").write_bytes(png())
    result = world.call(Read(), path="a.png")
    assert (result.ok, result.images) == (False, ())
    assert "you cannot see images" in result.for_model


def test_read_of_what_only_claims_to_be_an_image(world: World) -> None:
    (world.root / "text.png").write_text("plain words\n")
    assert world.call(Read(), path="text.png").for_model.startswith("1\tplain words")
    (world.root / "cut.png").write_bytes(png()[:60])
    cut = world.call(Read(), path="cut.png")
    assert (cut.ok, cut.images) == (False, ())
    assert "truncated or damaged" in cut.for_model
    (world.root / "huge.png").write_bytes(png())
    os.truncate(world.root / "huge.png", 100_000_000)  # sparse
    huge = world.call(Read(), path="huge.png")
    assert (huge.ok, huge.images) == (False, ())
    assert "larger than 32.0 MB" in huge.for_model


def test_read_takes_no_image_through_a_pipe_or_out_of_the_workspace(world: World) -> None:
    outside = world.root.parent / "outside.png"
    outside.write_bytes(png())
    (world.root / "link.png").symlink_to(outside)
    os.mkfifo(world.root / "pipe.png")
    for name in ("link.png", "pipe.png", str(outside)):
        result = world.call(Read(), path=name)
        assert (result.ok, result.images) == (False, ())
