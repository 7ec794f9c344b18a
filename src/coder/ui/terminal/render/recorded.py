"""Renders a session's heading, typed messages and the last turns."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from coder.engine.setup import is_read_only_command
from coder.protocol.events import PastTurn, SessionStarted
from coder.texts import Catalog, Text
from coder.ui.terminal.render.escapes import flat, safe
from coder.ui.terminal.render.theme import filled
from coder.ui.terminal.render.width import Line, clip_left, line_width, wrap
from coder.ui.terminal.screen_state import display_path

_LISTS = ("/hooks", "/mcp", "/memory", "/modes", "/permissions", "/sessions", "/skills", "/tools")
_ASKED_ROWS = 3
_ANSWER_ROWS = 6
_LAST_ANSWER_ROWS = 12
_RECAP_STATUSES = ("cancelled", "error", "max_steps", "prompt_limit")
_LEAST_PATH = 12  # columns
_MARGIN: Line = [("", "  ")]


def brief_reply(command: str) -> Text | None:
    """Replaces the reply of a command that reported the state of that time."""
    outdated = command in _LISTS or is_read_only_command(command)
    return Text("recap.not_again") if outdated else None


def session_lines(event: SessionStarted, texts: Catalog, width: int) -> list[Line]:
    """The session's model, directory and id; a warning in the home directory."""
    name: Line = [("strong", "coder"), ("dim", f" · {flat(event.model)} · ")]
    shown = display_path(Path(event.cwd))
    cwd = clip_left(shown, max(width - line_width(name), _LEAST_PATH))
    session = texts.say("view.session", id=flat(event.session_id))
    hint: Line = [("dim", f"{session} · {texts.say('view.hint')}")]
    home = wrap([("note", texts.say("view.home"))], width) if shown == "~" else []
    return [*wrap([*name, ("", cwd)], width), *wrap(hint, width), *home]


def recent_lines(turns: Sequence[PastTurn], texts: Catalog, width: int) -> list[Line]:
    """The last turns of a session, each shortened."""
    lines: list[Line] = []
    for turn in turns:
        limit = _LAST_ANSWER_ROWS if turn is turns[-1] else _ANSWER_ROWS
        lines += _turn_lines(turn, limit, texts, width)
    return lines


def message_lines(text: str, width: int) -> list[Line]:
    """A typed message, marked and tinted to separate turns."""
    rows: list[Line] = []
    for line in safe(text).split("\n"):
        first: Line = [("said", "  ")] if rows else [("prompt said", "› ")]
        rows += wrap([("said", line)], width, first=first, rest=[("said", "  ")])
    return [filled(row, "said", width) for row in rows]


def _turn_lines(turn: PastTurn, limit: int, texts: Catalog, width: int) -> list[Line]:
    lines = _beginning(message_lines(turn.text.strip(), width), _ASKED_ROWS, texts)
    if turn.answer.strip():
        lines += _beginning(_rows(turn.answer, "", _MARGIN, width), limit, texts)
    if turn.status != "ok":
        how = turn.status if turn.status in _RECAP_STATUSES else "interrupted"
        lines.append([*_MARGIN, ("note", texts.say(f"recap.{how}"))])
    return lines


def _rows(text: str, style: str, first: Line, width: int) -> list[Line]:
    rows: list[Line] = []
    for line in safe(text).strip().split("\n"):
        rows += wrap([(style, line)], width, first=_MARGIN if rows else first, rest=_MARGIN)
    return rows


def _beginning(rows: list[Line], limit: int, texts: Catalog) -> list[Line]:
    if len(rows) <= limit:
        return rows
    more = texts.say("recap.more", n=len(rows) - limit + 1)
    return [*rows[: limit - 1], [*_MARGIN, ("dim", more)]]
