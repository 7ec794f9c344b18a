"""Images of a conversation: taken in, recorded, and sent to models that see.

They stay in the conversation whoever answers; what a model cannot see is left out of its requests alone.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from functools import partial
from hashlib import sha256

import msgspec

from coder.config.models import sees_images
from coder.engine.session import Session
from coder.engine.session_parts import History
from coder.engine.turn_state import Turn
from coder.models.model import ModelError
from coder.protocol import entries
from coder.protocol.events import Notice
from coder.protocol.messages import Image, Message
from coder.texts import Text
from coder.tools.images import Batch, Unusable, decoded, described

_REQUEST_BYTES = 16_000_000  # of Base64: the lowest limit is 20 MB for a whole request (Gemini)
_BLIND = "[{n} not shown here: you cannot see images]"
_DROPPED = "[{n} not shown any more]"


def record(history: History, images: Sequence[Image], redact: Callable[[str], str]) -> list[str]:
    """Their ids, once each of them is in the record."""
    ids = []
    for image in images:
        image_id = sha256(image.data.encode("ascii")).hexdigest()[:16]
        if image_id not in history.recorded_images:
            entry = entries.Image(
                image_id=image_id,
                media_type=image.media_type,
                name=redact(image.name),
                width=image.width,
                height=image.height,
            )
            history.log.append(entry, image.data)
            history.recorded_images.add(image_id)
        ids.append(image_id)
    return ids


async def received(session: Session, images: Sequence[Image]) -> tuple[list[Image], list[str]]:
    """Images that a front end sent, as models take them, and a line of the message for each."""
    taken, notes = await asyncio.to_thread(_received, images)
    for note in notes:
        session.agent.emit(Notice(note, "warning"))
    shown = [f"[image {image.name}: {described(image)}]" for image in taken]
    return taken, [*shown, *(f"[not shown: {note}]" for note in notes)]


def _received(images: Sequence[Image]) -> tuple[list[Image], list[Text]]:
    taken = Batch()
    notes: list[Text] = []
    for number, image in enumerate(images, 1):
        name = image.name or f"image-{number}"
        try:
            taken.add(name, partial(decoded, image.data, name))
        except Unusable as fault:
            notes.append(fault.phrase)
    return taken.images, notes


def sees(session: Session, model: str) -> bool | None:
    """None if nothing is known of the model: it is tried."""
    if model in session.images.refused:
        return False
    return sees_images(session.agent.config, model)


def messages_for(session: Session, turn: Turn) -> Sequence[Message]:
    """The conversation as the turn's model can be sent it. The person is told first what it will not see."""
    messages = session.conversation.messages
    seen = sees(session, turn.model)
    _tell(session, turn, seen)
    if seen is False:
        return [_without(message, _BLIND) for message in messages]
    return _within_limit(session, messages)


def _tell(session: Session, turn: Turn, seen: bool | None) -> None:
    emit, told, model = session.agent.emit, session.images.told, turn.model
    names, turn.images = turn.images, []
    if seen is False and names:
        emit(Notice(Text("image.not_sent", model=model, names=", ".join(names)), "warning"))
    elif seen is False and model not in told:
        emit(Notice(Text("image.older_not_sent", model=model), "warning"))
    elif seen is None and model not in told:
        emit(Notice(Text("image.unknown", model=model)))
    told.add(model)


def _without(message: Message, note: str) -> Message:
    if not message.images:
        return message
    count = len(message.images)
    said = note.format(n="1 image is" if count == 1 else f"{count} images are")
    return msgspec.structs.replace(message, images=[], content=f"{message.content}\n{said}".lstrip())


def _within_limit(session: Session, messages: Sequence[Message]) -> Sequence[Message]:
    """The oldest are left out of a request that would be too large: half a request's worth at a time, so that
    the provider's cache is not lost with every image."""
    sizes = [sum(len(image.data) for image in message.images) for message in messages]
    total, step = sum(sizes), _REQUEST_BYTES // 2
    if total <= _REQUEST_BYTES:
        return messages
    drop = -(-(total - _REQUEST_BYTES) // step) * step
    if "" not in session.images.told:
        session.images.told.add("")
        phrase = Text("image.dropped", megabytes=_REQUEST_BYTES * 3 // 4_000_000)
        session.agent.emit(Notice(phrase, "warning"))
    kept: list[Message] = []
    for message, size in zip(messages, sizes, strict=True):
        kept.append(_without(message, _DROPPED) if drop > 0 else message)
        drop -= size
    return kept


def refused(session: Session, turn: Turn, error: ModelError) -> bool:
    """Whether the server refused images, so that the same request without them is worth a try."""
    if not session.conversation.has_images or sees(session, turn.model) is False:
        return False
    if error.kind not in ("bad_request", "server") or not re.search(
        r"image|vision|multi-?modal|mmproj", str(error), re.IGNORECASE
    ):
        return False
    session.images.refused.add(turn.model)
    session.context.sees_images = False
    phrase = Text("image.refused", model=turn.model, reason=error.phrase)
    session.agent.emit(Notice(phrase, "warning"))
    return True
