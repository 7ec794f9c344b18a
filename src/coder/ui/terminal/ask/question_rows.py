"""Renders approval questions: the exact text that will run, with invisible characters escaped.

A bar before every row (`┊` on continuation rows) keeps the text from imitating the question around it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal, NamedTuple

from coder.policy.visible import MARK, Visible, visible, warnings
from coder.protocol.events import ApprovalRequested
from coder.texts import AnyText, Catalog, Text
from coder.tools.text.hunks import Hunk
from coder.ui.terminal.render.escapes import flat
from coder.ui.terminal.render.event_lines import NEW_FILE_HEAD, is_new_file
from coder.ui.terminal.render.width import Line, Span, cut_to, wrap

_LEAST_HEAD = 3  # rows of a new file's beginning, however low the terminal is
_SELF_EVIDENT = "policy.preset.ask"  # the question itself implies it
_ORDINARY = (_SELF_EVIDENT, "policy.configured.ask", "policy.part")
_BEGINS, _GOES_ON = "│ ", "┊ "


def is_about_turn(event: ApprovalRequested) -> bool:
    """Whether the question is about the turn, not a call. A custom mode's command has no call id either."""
    return event.tool == "turn" and not event.call_id


def approval_lines(
    event: ApprovalRequested,
    texts: Catalog,
    width: int = 0,
    height: int = 0,
    *,
    heads: bool = False,
    keys: bool = False,
) -> list[Line]:
    """The subject, telling reasons, warnings, and what `always` would remember. `height`: visible rows; 0 if
    unknown. `heads`: show only the beginning of a long new file, as all of it can be paged. `keys`: the
    choices below explain `always`."""
    if is_about_turn(event):  # the subject is the question
        question: list[Line] = [[("ask", line)] for line in visible(texts.of(event.subject)).text.split("\n")]
        return [row for line in question for row in wrap(line, width)] if width else question
    reasons = [one for one in event.reasons if not (isinstance(one, Text) and one.key == _SELF_EVIDENT)]
    remarks: list[Span] = [("strong", visible(texts.of(one)).text) for one in event.operations]
    remarks += [_reason(reason, texts) for reason in reasons]
    if event.can_always and event.always_names and not keys:
        names = ", ".join(f"`{visible(name).text}`" for name in event.always_names)
        remarks.append(("", texts.say("approval.remembers", names=names)))
    tool = flat(event.tool)
    head: Line = [("ask", texts.say("approval.head", tool=tool))]
    shown = DecisionText(tool, texts.of(event.subject), "diff" if event.subject_kind == "diff" else "")
    if heads and is_new_file(shown.text):
        return [head, *shown.head_lines(remarks, texts, width, height)]
    return [head, *shown.lines(remarks, texts, width, height)]


def _reason(reason: AnyText, texts: Catalog) -> Span:
    """Dim for a rule that asks; a risk is not."""
    ordinary = isinstance(reason, Text) and reason.key in _ORDINARY
    text = texts.say("approval.reason", reason=visible(texts.of(reason)).text)
    return "dim" if ordinary else "", text


def hunk_rows(hunk: Hunk, number: int, count: int, texts: Catalog, width: int) -> list[Line]:
    """One hunk of a review, shown like a whole diff."""
    title = texts.say("approval.hunk", n=number, all=count, path=visible(hunk.path).text)
    names = visible("\n".join(hunk.names)).text  # for the language
    body = _body_rows(f"{names}\n{visible(hunk.text).text}", width, diff=True, heads=False)
    return [[("strong", title)], *(row for rows in body for row in rows)]


class DecisionText(NamedTuple):
    """A text to decide on; `name` refers to it if it has scrolled off the screen."""

    name: str
    text: str
    kind: Literal["", "diff"] = ""

    def head_lines(self, remarks: list[Span], texts: Catalog, width: int, height: int) -> list[Line]:
        """As `lines`, but only the first rows, and the number of following lines, if it does not fit."""
        seen = visible(self.text)
        whole = self.lines(remarks, texts, width, 0)
        if not height or 1 + len(whole) <= height:
            return whole
        warned: list[Span] = [("note", warning) for warning in warnings(seen, texts)]
        after = [row for span in (*remarks, *warned) for row in _row_of(span, width)]
        rows: list[Line] = []
        body = _body_rows(seen.text, width, diff=True)
        room = max(_LEAST_HEAD, min(NEW_FILE_HEAD, height - 2 - len(after)))
        shown = 0
        while shown < len(body) and len(rows) + len(body[shown]) <= room:
            rows += body[shown]
            shown += 1
        if shown == len(body):
            return self.lines(remarks, texts, width, height)
        more = texts.say("approval.rest_of_file", n=len(body) - shown)
        return [*rows, *_row_of(("", more), width), *after]

    def lines(self, remarks: list[Span], texts: Catalog, width: int, height: int) -> list[Line]:
        """The text's rows, then `remarks` and warnings. One row above them introduces the text."""
        seen = visible(self.text)
        warned: list[Span] = [("note", warning) for warning in warnings(seen, texts)]
        after = [row for span in (*remarks, *warned) for row in _row_of(span, width)]
        body = _body_rows(seen.text, width, diff=self.kind == "diff")
        lines = [row for rows in body for row in rows]
        if height and 1 + len(lines) + len(after) > height:
            size = _how_much(self.name, seen, len(body) if self.kind else seen.lines, texts)
            part = _row_of(("", size(len(body))), width)  # measured with the longest number
            shown = _last_that_fit(body, height - len(after) - len(part))
            after += _row_of(("", size(shown)), width)
        return [*lines, *after]


def _how_much(tool: str, seen: Visible, lines: int, texts: Catalog) -> Callable[[int], str]:
    if seen.lines == 1:
        return lambda _shown: texts.say("approval.one_part_seen", tool=tool, n=seen.longest)
    return lambda shown: texts.say("approval.part_seen", tool=tool, shown=shown, n=lines)


def _last_that_fit(body: list[list[Line]], room: int) -> int:
    """The number of last lines that fit completely."""
    for shown, rows in enumerate(reversed(body)):
        room -= len(rows)
        if room < 0:
            return shown
    return len(body)


def _body_rows(text: str, width: int, *, diff: bool = False, heads: bool = True) -> list[list[Line]]:
    """The rows of each line."""
    if diff:
        from coder.ui.terminal.render.diff_rows import diff_blocks

        return diff_blocks(text, width, ([("dim", _BEGINS)], [("dim", _GOES_ON)]), heads=heads)
    room = max(1, width - len(_BEGINS)) if width else 0
    return [_rows_of(line, room) for line in text.removesuffix("\n").split("\n")]


def _rows_of(line: str, room: int) -> list[Line]:
    rows = cut_to(line, room) if room else [line]
    return [[("dim", _GOES_ON if at else _BEGINS), *_marked(row)] for at, row in enumerate(rows)]


def _marked(row: str) -> list[Span]:
    parts = re.split(f"({MARK})", row)
    return [("note" if at % 2 else "strong", part) for at, part in enumerate(parts) if part]


def _row_of(span: Span, width: int) -> list[Line]:
    margin: Line = [("", "  ")]
    return wrap([span], width, first=margin, rest=[("", "    ")]) if width else [[*margin, span]]
