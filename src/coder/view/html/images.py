"""Images of a record: which a message or a result names, and those that a browser may draw."""

from __future__ import annotations

import base64
from typing import NamedTuple

from coder.protocol import entries
from coder.protocol.history import HistoryEvent
from coder.tools.images.fit import MAX_BYTES, MAX_SIDE
from coder.tools.images.formats import Broken, measured

_DRAWN = ("image/png", "image/jpeg", "image/gif", "image/webp")  # neither script nor references in them


class Kept(NamedTuple):
    """An image's entry and its place in the record, where its content stays. `drawn`: a browser may."""

    entry: entries.Image
    at: int
    drawn: bool


def named_images(event: HistoryEvent) -> list[str]:
    """The ids of the images that an input or a result has."""
    entry = event.inner.entry
    return entry.images if isinstance(entry, (entries.TurnStart, entries.Observation)) else []


def keep_image(images: dict[str, Kept], event: HistoryEvent, at: int) -> bool:
    """Whether the event is an image; it is kept by its id then."""
    entry = event.inner.entry
    if not isinstance(entry, entries.Image):
        return False
    images[entry.image_id] = Kept(entry, at, image_of(event) is not None)
    return True


def image_of(event: HistoryEvent) -> tuple[str, bytes] | None:
    """Type and content, by what the content is and not by what the record says; None where a browser should
    not draw it: no image, or larger than coder records any."""
    if not isinstance(event.inner.entry, entries.Image) or len(event.content) > MAX_BYTES * 4 // 3 + 4:
        return None
    try:
        data = base64.b64decode(event.content, validate=True)
        picture = measured(data)
    except (ValueError, Broken):
        return None
    if picture is None or picture.media_type not in _DRAWN or max(picture.width, picture.height) > MAX_SIDE:
        return None
    return picture.media_type, data
