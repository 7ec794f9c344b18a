"""Images for models, in English."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "image.broken": "{name} is truncated or damaged: it is no whole image.",
    "image.dropped": "The oldest images are left out of the request: it has room for {megabytes} MB of them.",
    "image.needs_pillow": "{name} must be made smaller or converted before a model can see it; "
    "{line} brings what that takes.",
    "image.not_one": "{name} is no image that a model can be shown (PNG, JPEG, GIF, WebP or BMP).",
    "image.not_sent": "{model} cannot see images: not sent: {names}.",
    "image.older_not_sent": "{model} cannot see images: those of this conversation are not sent to it.",
    "image.refused": "{model} refused a request with images, which is repeated without them: {reason}",
    "image.too_large": "{name} is larger than {limit}.",
    "image.too_many": "{name} was left out: a message carries at most {count} images, "
    "of {megabytes} MB together.",
    "image.too_many_pixels": "{name} has {width}×{height} pixels, more than can be taken in.",
    "image.unknown": "Whether {model} sees images is not known: they are sent. "
    "If it does not, set images to false for it in provider.models.",
}
