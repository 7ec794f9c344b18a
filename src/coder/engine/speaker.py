"""Whether the model should go on speaking after an answer without tool calls."""

from __future__ import annotations

import re

from coder.engine.answer import Answer
from coder.engine.aside import ask_aside, one_of
from coder.engine.session import Session
from coder.engine.turn_state import Turn
from coder.model.base import ModelError

CONTINUE = "Please continue."
_EMPTY_IN_A_ROW = 2  # a model that says nothing three times has nothing to say
_SHOWN = 2_000  # characters of an answer's end that the model is asked about
_END = 300  # characters at the end of an answer where an announcement would stand

# The last words announce work that no tool call followed.
_ANNOUNCES = (
    r"(?:\b(?:let me|i(?:'ll| will| am going to|'m going to)|next,? i|now i(?:'ll| will)?|going to)\b"
    r"[^.!?\n]*"
    r"|(?:接下来|现在|下面|然后)?我(?:将|来|会|先|去|要)[^。！？\n]*)[.:：。…]*\s*$"
)

_QUESTION = """\
Below is the end of an assistant's answer to a person who gave it a task. Who should speak next?
Reply with one word: MODEL if it announced work that it has not done yet, USER if it is done or asks back."""


async def wants_to_continue(session: Session, turn: Turn, answer: Answer) -> bool:
    """A truncated or empty answer is continued without asking anyone; the note is in the record."""
    runtime = session.desk.config.runtime
    if runtime.next_speaker == "off" or turn.continuations >= runtime.max_continuations:
        return False
    reason = _by_rule(turn, answer)
    if not reason and answer.text.strip() and (runtime.next_speaker == "always" or announces(answer.text)):
        reason = await _by_model(session, turn, answer.text)
    if not reason:
        return False
    turn.continuations += 1
    session.add_note(CONTINUE, reason)
    return True


def _by_rule(turn: Turn, answer: Answer) -> str:
    empty = not answer.text.strip()
    turn.empty_answers = turn.empty_answers + 1 if empty else 0
    if answer.finish_reason == "length":
        return "truncated"
    return "empty" if empty and turn.empty_answers <= _EMPTY_IN_A_ROW else ""


def announces(text: str) -> bool:
    return bool(re.search(_ANNOUNCES, text.rstrip()[-_END:], re.IGNORECASE))


async def _by_model(session: Session, turn: Turn, text: str) -> str:
    """Where the check itself fails, the turn simply ends."""
    try:
        said = await ask_aside(session, turn, turn.model, _QUESTION, text[-_SHOWN:])
    except ModelError:
        return ""
    return "announced" if one_of(said, "MODEL", "USER") == "MODEL" else ""
