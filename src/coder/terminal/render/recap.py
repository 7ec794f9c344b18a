"""Recap of a resumed session: its last turns, a few rows each."""

from __future__ import annotations

from coder.protocol.events import PastTurn, SessionStarted
from coder.terminal.render.sanitize import flat, safe
from coder.terminal.render.width import Line, wrap
from coder.texts import Texts

_ASKED_ROWS = 3
_ANSWER_ROWS = 6
_LAST_ANSWER_ROWS = 12
_STATUSES = ("cancelled", "error", "max_steps", "prompt_limit")
_MARGIN: Line = [("", "  ")]


def session_lines(event: SessionStarted, texts: Texts, width: int) -> list[Line]:
    """The session's id, and its last turns if it is resumed."""
    lines: list[Line] = [[("dim", texts.say("view.session", id=flat(event.session_id)))]]
    earlier = event.turns - len(event.recent)
    if event.recent and earlier > 0:
        lines.append([("dim", texts.say("recap.earlier", n=earlier))])
    for turn in event.recent:
        limit = _LAST_ANSWER_ROWS if turn is event.recent[-1] else _ANSWER_ROWS
        lines += _turn_lines(turn, limit, texts, width)
    return lines


def _turn_lines(turn: PastTurn, limit: int, texts: Texts, width: int) -> list[Line]:
    asked = _rows(turn.text, "strong", [("prompt", "> ")], width)
    lines = _beginning(asked, _ASKED_ROWS, texts)
    if turn.answer.strip():
        lines += _beginning(_rows(turn.answer, "", _MARGIN, width), limit, texts)
    if turn.status != "ok":
        how = turn.status if turn.status in _STATUSES else "interrupted"
        lines.append([*_MARGIN, ("note", texts.say(f"recap.{how}"))])
    return lines


def _rows(text: str, style: str, first: Line, width: int) -> list[Line]:
    rows: list[Line] = []
    for line in safe(text).strip().split("\n"):
        rows += wrap([(style, line)], width, first=_MARGIN if rows else first, rest=_MARGIN)
    return rows


def _beginning(rows: list[Line], limit: int, texts: Texts) -> list[Line]:
    if len(rows) <= limit:
        return rows
    more = texts.say("recap.more", n=len(rows) - limit + 1)
    return [*rows[: limit - 1], [*_MARGIN, ("dim", more)]]
