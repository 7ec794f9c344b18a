"""Which model answers a prompt where `provider.model` is `auto`, and which takes over when it cannot
(seed 002, "routing and stickiness"). The choice holds for the whole prompt, tool calls included."""

from __future__ import annotations

import re
from contextlib import aclosing
from typing import Any, Literal, cast

from coder.engine.plan import is_complex
from coder.engine.session import Session, Turn
from coder.model.base import Completed, ModelError, ModelRequest, TextDelta
from coder.protocol.events import Notice
from coder.protocol.messages import Message

Tier = Literal["fast", "strong"]

# Kinds of fault that another model may not have.
FALLBACK_KINDS = ("quota", "unreachable", "timeout", "server", "auth")

_QUESTION = 200  # a question up to this many characters, without any word of work in it, is a quick one
_WORK = (
    r"\b(?:refactor|implement|migrat\w*|redesign|debug|optimi[sz]e|architect\w*|rewrite|port|fix|build|design"
    r"|investigate|concurren\w*|deadlock|performance|security)\b|重构|实现|迁移|调试|优化|设计|修复|架构|重写|排查"
)
_QUICK = (
    r"^\s*(?:what|where|who|when|which|list|show|explain|hi|hello|thanks|什么|哪|谁|列出|显示|解释|你好|谢谢)"
)

_CLASSIFY = """\
Classify the request below by what it takes to answer it well. Reply with one word.
SIMPLE: a short question, a look-up, a small edit in one place.
COMPLEX: several steps or files, design, debugging, anything where a mistake would be costly."""


async def choose_model(session: Session, turn: Turn) -> None:
    """Set `turn.model` for all of the prompt."""
    desk = session.desk
    chosen_by_mode = session.modes.model if session.modes else None
    if chosen_by_mode or desk.model_name != "auto":
        turn.model = chosen_by_mode or desk.model_name
        return
    routing = desk.config.routing
    tier = rule(turn.text) or await _classified(session, turn, routing.fast)
    turn.model = (routing.fast if tier == "fast" else routing.strong) or routing.strong or routing.fast
    session.log.append("routing", meta={"model": turn.model, "tier": tier})
    desk.emit(Notice(desk.say("routing.chosen", model=turn.model)))


def rule(text: str) -> Tier | None:
    """What the words alone decide; None where they leave it open."""
    if re.search(_WORK, text, re.IGNORECASE):
        return "strong"
    if len(text) <= _QUESTION and re.search(_QUICK, text, re.IGNORECASE):
        return "fast"
    if not is_complex(text):
        return "fast"
    return None


async def _classified(session: Session, turn: Turn, model: str) -> Tier:
    """Ask the fast model; where it does not answer, the strong one is the safe choice."""
    if not model:
        return "strong"
    messages = [Message(role="system", content=_CLASSIFY), Message(role="user", content=turn.text[:4000])]
    request = ModelRequest(model=model, messages=messages, prompt_id=turn.prompt_id)
    try:
        answer = await ask_aside(session, turn, request)
    except ModelError:
        return "strong"
    return "fast" if "SIMPLE" in answer.upper() else "strong"


async def ask_aside(session: Session, turn: Turn, request: ModelRequest) -> str:
    """A question of the engine's own, outside the conversation; its tokens are counted all the same."""
    parts: list[str] = []
    async with aclosing(cast("Any", session.desk.model.stream(request))) as chunks:
        async for chunk in chunks:
            if isinstance(chunk, TextDelta):
                parts.append(chunk.text)
            elif isinstance(chunk, Completed) and chunk.usage is not None:
                turn.usage = turn.usage.plus(chunk.usage)
                session.count_aside(request.model, chunk.usage)
    return "".join(parts)


def fall_back(session: Session, turn: Turn, error: ModelError) -> bool:
    """Another model for the rest of the prompt, said aloud; False where there is none left."""
    desk = session.desk
    routing = desk.config.routing
    others = [
        m for m in (routing.strong, routing.fast) if m and m not in turn.models_tried and m != turn.model
    ]
    if desk.model_name != "auto" or error.kind not in FALLBACK_KINDS or not others:
        return False
    turn.models_tried.append(turn.model)
    desk.emit(
        Notice(desk.say("routing.fallback", old=turn.model, new=others[0], reason=str(error)), "warning")
    )
    session.log.append("routing", meta={"model": others[0], "instead_of": turn.model, "because": str(error)})
    turn.model = others[0]
    return True
