"""Model calls outside the conversation: summaries, routing, next speaker.

Their tokens and cost count for the turn, and the budget applies.
"""

from __future__ import annotations

import re
from contextlib import aclosing
from typing import Any, cast

from coder.context.conversation import message_tokens
from coder.engine.session import Session
from coder.engine.turn_state import Turn
from coder.models.model import Completed, ModelError, ModelRequest, Restarted, Retrying, TextDelta
from coder.protocol import entries
from coder.protocol.events import Notice
from coder.protocol.messages import Message, Tokens, Usage
from coder.texts import Text

_LONGEST = 400_000  # characters of an answer, thinking included
_THINKING = r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)"


async def side_request(session: Session, turn: Turn | None, model: str, instruction: str, text: str) -> str:
    """The answer's text. Raises `ModelError`, also where the budget is exhausted."""
    agent = session.agent
    messages = [Message(role="system", content=instruction), Message(role="user", content=text)]
    counter = session.conversation.counter
    money = session.meter.budget
    size = sum(message_tokens(counter, message) for message in messages) if money.limit is not None else 0
    if money.would_pass(model, size):
        raise ModelError(Text("budget.reached", **money.shown()), kind="budget")
    prompt_id = turn.prompt_id if turn is not None else session.id
    request = ModelRequest(model=model, messages=messages, prompt_id=prompt_id)
    parts: list[str] = []
    length = 0
    usage: Usage | None = None
    with money.waiting_for(model, size):
        async with aclosing(cast("Any", agent.model.stream(request))) as chunks:
            async for chunk in chunks:
                match chunk:
                    case TextDelta(piece):
                        parts.append(piece)
                        length += len(piece)
                        if length > _LONGEST:  # a model that does not stop
                            break
                    case Restarted():
                        parts.clear()
                    case Retrying():
                        agent.emit(Notice(retry_text(chunk), "warning"))
                    case Completed():
                        usage = chunk.usage
    answer = "".join(parts)
    if usage is None or not usage.prompt:
        usage = _counted_here(session, messages, answer)
    _count(session, turn, model, usage)
    return re.sub(_THINKING, "", answer, flags=re.DOTALL).strip()


def one_of(answer: str, *words: str) -> str:
    """Which of the words an answer gives: its first word, else the last that occurs, else none."""
    first = re.match(r"\W*(\w+)", answer)
    if first and first[1].upper() in words:
        return first[1].upper()
    found = re.findall(rf"\b(?:{'|'.join(words)})\b", answer)
    return str(found[-1]) if found else ""


def retry_text(retrying: Retrying) -> Text:
    return Text("model.retry", reason=retrying.reason, attempt=retrying.attempt, wait=f"{retrying.wait:.1f}")


def _count(session: Session, turn: Turn | None, model: str, usage: Usage) -> None:
    cost = session.meter.count_side_request(model, usage)
    session.log.append(entries.Usage(model=model, tokens=Tokens.of(usage), cost_usd=cost))
    if turn is not None:
        turn.usage = turn.usage.plus(usage)
        turn.cost += cost or 0.0


def _counted_here(session: Session, messages: list[Message], answer: str) -> Usage:
    counter = session.conversation.counter
    prompt = sum(message_tokens(counter, message) for message in messages)
    completion = counter.count(answer)
    return Usage(prompt=prompt, completion=completion, total=prompt + completion, source="local")
