"""Choose the model for a prompt where `provider.model` is `auto`, and the fallback. The choice holds for the
whole prompt, tool calls included."""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from coder import engine
from coder.config.models import sees_images, window_for
from coder.engine.complex_tasks import is_complex
from coder.engine.session import Session
from coder.engine.turn_state import Turn
from coder.models.model import ModelError
from coder.protocol import entries
from coder.protocol.events import Notice
from coder.texts import Text

Tier = Literal["fast", "strong"]

# Errors that another model may not have.
FALLBACK_KINDS = ("quota", "unreachable", "timeout", "server", "auth")

_CLASSIFIED = 4_000  # characters of a prompt for the classifier
_QUESTION = 200  # characters: shorter questions without work words go to the fast model
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


async def choose_model(session: Session, turn: Turn, chosen_before: str = "") -> None:
    """Set `turn.model` for the prompt. `chosen_before`: for a resumed prompt."""
    agent = session.agent
    chosen_by_mode = turn.asks.model or (session.modes.model if session.modes else None)
    if chosen_by_mode or agent.chosen.name != "auto":
        _use(session, turn, chosen_by_mode or agent.chosen.name)
        return
    routing = agent.config.routing
    if not (routing.fast or routing.strong):
        raise ModelError(Text("routing.none"), kind="bad_request")
    if chosen_before and chosen_before in (routing.fast, routing.strong):
        _use(session, turn, chosen_before)
        return
    tier = _too_long_for_fast(session) or rule(turn.text) or await _classified(session, turn, routing.fast)
    wanted, other = (routing.fast, routing.strong) if tier == "fast" else (routing.strong, routing.fast)
    _use(session, turn, wanted or other)
    session.log.append(entries.Routing(model=turn.model, tier=tier))
    agent.emit(Notice(Text("routing.chosen", model=turn.model)))


def _use(session: Session, turn: Turn, model: str) -> None:
    """Switch from the next request on, with the model's window."""
    turn.model = session.meter.model_in_use = model
    agent = session.agent
    agent.chosen = msgspec.structs.replace(agent.chosen, window=window_for(agent.config, model))
    blind = model in session.images.refused or sees_images(agent.config, model) is False
    session.context.sees_images = not blind


def _too_long_for_fast(session: Session) -> Tier | None:
    """A conversation that exceeds the fast model's window stays with the strong one."""
    config = session.agent.config
    fast, strong = (window_for(config, name) for name in (config.routing.fast, config.routing.strong))
    room = config.compaction.threshold * fast
    return "strong" if fast < strong and session.conversation.exceeds(room) else None


def model_for_side_requests(session: Session) -> str:
    """The model for side requests between turns: the last one used, while it is still chosen."""
    agent = session.agent
    if agent.chosen.name != "auto":
        return session.modes.model if session.modes and session.modes.model else agent.chosen.name
    routing = agent.config.routing
    used = session.meter.model_in_use
    return used if used in (routing.fast, routing.strong) and used else routing.strong or routing.fast


def rule(text: str) -> Tier | None:
    """The tier by keywords; None if undecided."""
    if re.search(_WORK, text, re.IGNORECASE):
        return "strong"
    if len(text) <= _QUESTION and re.search(_QUICK, text, re.IGNORECASE):
        return "fast"
    if not is_complex(text):
        return "fast"
    return None


async def _classified(session: Session, turn: Turn, model: str) -> Tier:
    """Ask the fast model to classify; the strong one is the fallback."""
    if not model:
        return "strong"
    try:
        answer = await engine.side_request.side_request(
            session, turn, model, _CLASSIFY, turn.text[:_CLASSIFIED]
        )
    except ModelError:
        return "strong"
    return "fast" if engine.side_request.one_of(answer, "SIMPLE", "COMPLEX") == "SIMPLE" else "strong"


def fall_back(session: Session, turn: Turn, error: ModelError) -> bool:
    """Switch to another model for the rest of the prompt, with a notice; False if none is left."""
    agent = session.agent
    routing = agent.config.routing
    others = [
        m for m in (routing.strong, routing.fast) if m and m not in turn.models_tried and m != turn.model
    ]
    if agent.chosen.name != "auto" or error.kind not in FALLBACK_KINDS or not others:
        return False
    turn.models_tried.append(turn.model)
    agent.emit(
        Notice(Text("routing.fallback", old=turn.model, new=others[0], reason=error.phrase), "warning")
    )
    session.log.append(entries.Routing(model=others[0], instead_of=turn.model, because=str(error)))
    _use(session, turn, others[0])
    return True
