"""What a session starts with, what a person said, and the last turns of a session, in short."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from coder.protocol.events import PastTurn, SessionStarted
from coder.terminal.render.sanitize import flat, safe
from coder.terminal.render.theme import filled
from coder.terminal.render.width import Line, clip_left, line_width, wrap
from coder.terminal.state import display_path
from coder.texts import Texts

_ASKED_ROWS = 3
_ANSWER_ROWS = 6
_LAST_ANSWER_ROWS = 12
_STATUSES = ("cancelled", "error", "max_steps", "prompt_limit")
_LEAST_PATH = 12  # columns
_MARGIN: Line = [("", "  ")]


def session_lines(event: SessionStarted, texts: Texts, width: int) -> list[Line]:
    """Model, directory and id of the session; of the home directory a warning."""
    name: Line = [("strong", "coder"), ("dim", f" · {flat(event.model)} · ")]
    shown = display_path(Path(event.cwd))
    cwd = clip_left(shown, max(width - line_width(name), _LEAST_PATH))
    session = texts.say("view.session", id=flat(event.session_id))
    hint: Line = [("dim", f"{session} · {texts.say('view.hint')}")]
    home = wrap([("note", texts.say("view.home"))], width) if shown == "~" else []
    return [*wrap([*name, ("", cwd)], width), *wrap(hint, width), *home]


def recent_lines(turns: Sequence[PastTurn], texts: Texts, width: int) -> list[Line]:
    """The last turns of a session, each shortened."""
    lines: list[Line] = []
    for turn in turns:
        limit = _LAST_ANSWER_ROWS if turn is turns[-1] else _ANSWER_ROWS
        lines += _turn_lines(turn, limit, texts, width)
    return lines


def message_lines(text: str, width: int) -> list[Line]:
    """What the person said: marked and tinted, so that turns can be told apart."""
    rows: list[Line] = []
    for line in safe(text).split("\n"):
        first: Line = [("said", "  ")] if rows else [("prompt said", "› ")]
        rows += wrap([("said", line)], width, first=first, rest=[("said", "  ")])
    return [filled(row, "said", width) for row in rows]


def _turn_lines(turn: PastTurn, limit: int, texts: Texts, width: int) -> list[Line]:
    lines = _beginning(message_lines(turn.text.strip(), width), _ASKED_ROWS, texts)
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
