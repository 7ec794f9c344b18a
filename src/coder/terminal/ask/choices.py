"""The keys that decide an approval, and the rows that offer them."""

from __future__ import annotations

import msgspec

from coder.policy.visible import visible
from coder.protocol.events import ApprovalRequested
from coder.terminal.ask.rows import about_turn
from coder.terminal.render.width import Line, line_width, wrap
from coder.texts import Texts
from coder.tools.registry import built_in
from coder.tools.text.hunks import hunks_of

_BETWEEN = " · "


class Choice(msgspec.Struct, frozen=True):
    """A key, and what it does in a few words."""

    key: str
    about: str


def choices(event: ApprovalRequested, mode: str, texts: Texts) -> list[Choice]:
    """What the question offers, the likeliest first. `mode`: the operating mode."""
    say = texts.say
    if about_turn(event):  # no reason is passed on, and the subject says what `always` means
        always = [Choice("a", say("approval.key_always_turn"))] if event.can_always else []
        return [Choice("y", say("approval.key_yes")), Choice("n", say("approval.key_no_plain")), *always]
    found = [Choice("y", say("approval.key_yes"))]
    if event.can_always:
        names = ", ".join(f"`{visible(name).text}`" for name in event.always_names)
        found.append(Choice("a", say("approval.key_always", names=names)))
    diff = event.subject_kind == "diff"
    edits = diff and built_in(event.tool).edits_files()
    if edits and mode == "default":  # else auto-edit would change nothing, or loosen plan
        found.append(Choice("e", say("approval.key_edits")))
    if edits and hunks_of(str(event.subject)):
        found.append(Choice("h", say("approval.key_hunks")))
    if diff:
        found.append(Choice("d", say("approval.key_diff")))
    return [*found, Choice("n", say("approval.key_no"))]


def choice_rows(offered: list[Choice], columns: int) -> list[Line]:
    """The choices side by side, in as few rows as they need; a row ends between two of them where that
    takes no more rows."""
    rows: list[Line] = []
    line: Line = []
    for choice in offered:
        one: Line = [("ask", choice.key), ("", f" {choice.about}")]
        line += [("dim", _BETWEEN), *one] if line else one
        if rows and line_width(rows[-1]) + line_width(one) + len(_BETWEEN) <= columns:
            rows[-1] += [("dim", _BETWEEN), *one]
        else:
            rows += wrap(one, columns)
    return min(rows, wrap(line, columns), key=len)
