"""Fit single items into the context window: too long messages are rejected, too long tool results truncated
with a notice."""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec

from coder.base import process
from coder.base.files import make_private, write_atomically
from coder.context.conversation import message_bytes, message_tokens
from coder.engine.session import Session
from coder.protocol.messages import Image, Message, head_length
from coder.texts import Text
from coder.tools.tool import ToolResult

_RESULTS_SHARE = 0.75  # of the limit, for head and newest results; summary and answer need the rest
_SHORTEST = 200  # tokens that each result gets at least


def needs_compaction(session: Session) -> bool:
    """Whether the prompt has passed the compaction threshold."""
    settings = session.agent.config.compaction
    threshold = settings.threshold * session.agent.chosen.window
    # Always retry at the hard limit: the request could not be sent otherwise.
    floor = min(max(threshold, session.compactions.floor), session.agent.prompt_limit)
    return settings.auto and session.conversation.exceeds(floor)


def too_long(session: Session, text: str, images: Sequence[Image] = ()) -> Text | None:
    """Why a message would not fit even alone, or None."""
    limit = session.agent.prompt_limit
    conversation = session.conversation
    message = Message(role="user", content=text, images=list(images))
    if conversation.bytes + message_bytes(message) <= limit:  # no text has more tokens than bytes
        return None
    head = conversation.messages[: head_length(conversation.messages)]
    fixed = conversation.fixed_tokens(head)
    if fixed >= limit:
        return Text("guard.fixed_too_long", count=fixed, limit=limit)
    count = fixed + message_tokens(conversation.counter, message)
    return Text("guard.message_too_long", count=count, limit=limit) if count > limit else None


def fitted(session: Session, result: ToolResult, waiting: int) -> ToolResult:
    """The result, truncated to head and tail where compaction could not make room. `waiting`: results of the
    same response still to come."""
    conversation = session.conversation
    limit = _RESULTS_SHARE * session.agent.prompt_limit
    message = Message(role="tool", content=result.for_model, images=list(result.images))
    if conversation.bytes + message_bytes(message) <= limit:
        return result
    count = conversation.counter.count
    size = message_tokens(conversation.counter, message)
    head = conversation.messages[: head_length(conversation.messages)]
    newest = conversation.messages[len(conversation.messages) - conversation.unanswered :]
    taken = conversation.fixed_tokens(head) + sum(message_tokens(conversation.counter, m) for m in newest)
    room = max(_SHORTEST, (limit - taken) / (waiting + 1))
    if size <= room:
        return result
    if result.images:
        text = f"{result.for_model}\n[no image is shown: the context window has no room for it]"
        return fitted(session, msgspec.structs.replace(result, for_model=text, images=()), waiting)
    kept = kept_whole(session, result.for_model)
    half = int(len(result.for_model) * (room - _SHORTEST / 4) / size) // 2
    cut = _ends(result.for_model, half, kept)
    while half > 1 and count(cut) > room:  # dense parts have more tokens per character
        half = half * 3 // 4
        cut = _ends(result.for_model, half, kept)
    return msgspec.structs.replace(result, for_model=cut)


def _ends(text: str, half: int, kept: str) -> str:
    head, tail = process.output.both_ends(text, half)
    left_out = len(text) - len(head) - len(tail)
    return (
        f"{head}\n[… {left_out} characters left out: the context window has no room for them{kept} …]\n{tail}"
    )


def kept_whole(session: Session, text: str) -> str:
    """Write a text to a file for the model; returns the reference, empty on failure."""
    path = session.context.outputs / f"result-{time.time_ns():x}.txt"
    try:
        make_private(path.parent)
        write_atomically(path, text.encode("utf-8", "replace"))
    except OSError:
        return ""
    return f"; all of it is in {path}, to be read in parts"
