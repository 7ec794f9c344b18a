"""Whether the model should go on speaking after an answer without tool calls (SPEC §1.9)."""

from __future__ import annotations

from coder.engine.answer import Answer
from coder.engine.session import Session, Turn

CONTINUE = "Please continue."
_EMPTY_IN_A_ROW = 2  # a model that says nothing three times has nothing to say


async def wants_to_continue(session: Session, turn: Turn, answer: Answer) -> bool:
    """A truncated or empty answer is continued without asking anyone; the note is in the record."""
    runtime = session.desk.config.runtime
    if runtime.next_speaker == "off" or turn.continuations >= runtime.max_continuations:
        return False
    empty = not answer.text.strip()
    turn.empty_answers = turn.empty_answers + 1 if empty else 0
    if answer.finish_reason != "length" and (not empty or turn.empty_answers > _EMPTY_IN_A_ROW):
        return False
    turn.continuations += 1
    session.add_note(CONTINUE, "truncated" if answer.finish_reason == "length" else "empty")
    return True
