"""Renders the mode bar: one line without the focus, a row per mode with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from coder.protocol.modes import ModeStateChanged, ModeVariableState, RenderedMode
from coder.texts import Catalog
from coder.ui.terminal.modes.known import Entry
from coder.ui.terminal.render.escapes import flat
from coder.ui.terminal.render.width import Line, clip, line_width, text_width, wrap

if TYPE_CHECKING:
    from coder.ui.terminal.modes.form import Field

VALUE_COLUMNS = 24  # of a value in its label; the form shows all of it
NAME_COLUMNS = 24


def summary(entries: Sequence[Entry], texts: Catalog) -> Line:
    """`Mode: a · b`, with the problems of requested modes; empty if there are none."""
    line: Line = []
    for entry in entries:
        if not entry.on and not entry.errors:
            continue
        line.append(("dim", " · " if line else texts.say("terminal.modes_label")))
        line.append(("" if entry.on else "dim", flat(entry.mode.display_name)))
        if fault := problem_text(entry, texts):
            line.append(("bad", f" ⚠ {fault}"))
    return line


class ModeAnnouncer:
    """Without a bar: the summary as a line, whenever it changes."""

    def __init__(self, texts: Catalog) -> None:
        self._texts = texts
        self._last = self._text([])

    def take(self, event: ModeStateChanged) -> str | None:
        now = self._text(event.enabled_modes)
        before, self._last = self._last, now
        return now if now != before else None

    def _text(self, modes: Sequence[RenderedMode]) -> str:
        names = " · ".join(flat(mode.display_name) for mode in modes)
        return self._texts.say("terminal.modes_label") + (names or self._texts.say("modes.none"))


def keys_line(key: str, width: int, texts: Catalog) -> Line:
    """The key help, in a short form if it does not fit."""
    text = texts.say(key)
    return clip([("dim", text if text_width(text) <= width else texts.say(f"{key}_narrow"))], width)


def problem_text(entry: Entry, texts: Catalog) -> str:
    """Why the mode is not as requested."""
    if entry.missing:
        return texts.say("terminal.mode_missing", names=", ".join(entry.missing))
    return flat(texts.of(entry.errors[0].message)) if entry.errors else ""


class Focus:
    """The focused mode and variable; `editing` is the field being edited in its label, if any."""

    def __init__(self) -> None:
        self.row = 0
        self.variable = 0
        self.editing: Field | None = None


def mode_lines(entries: Sequence[Entry], focus: Focus, width: int, texts: Catalog) -> list[list[Line]]:
    """The rows of each mode."""
    names = min(NAME_COLUMNS, max(text_width(flat(entry.mode.display_name)) for entry in entries))
    names = min(names, max(6, width // 2))
    return [
        _mode(entry, focus if at == focus.row else None, names, width, texts)
        for at, entry in enumerate(entries)
    ]


def _mode(entry: Entry, focus: Focus | None, names: int, width: int, texts: Catalog) -> list[Line]:
    style = "strong" if focus else "" if entry.on else "dim"
    name = clip([(style, flat(entry.mode.display_name))], names)
    head: Line = [
        ("", "▸ " if focus else "○ " if entry.on else "  "),
        *name,
        ("", " " * (names - line_width(name))),
    ]
    if fault := problem_text(entry, texts):
        head.append(("bad", f" ⚠ {fault}"))
    elif not entry.on:
        head.append(("dim", f" {texts.say('terminal.mode_off')}"))
    if entry.wanted != entry.on and not entry.errors:
        head.append(("dim", " …"))
    labels = [
        _label(state, focus if focus is not None and at == focus.variable else None, entry.on, width)
        for at, state in enumerate(entry.mode.variables)
    ]
    return _wrap_labels(head, labels, names, width)


def _wrap_labels(head: Line, labels: Sequence[Line], names: int, width: int) -> list[Line]:
    """Wrap between labels."""
    indent = " " * min(names + 3, width // 4)
    rows = wrap(head, width) if line_width(head) > width else [head]
    for label in labels:
        if line_width(rows[-1]) + 1 + line_width(label) > width and len(rows[-1]) > 1:
            rows.append([("", indent)])
            rows[-1] = [*rows[-1], *clip(label, width - len(indent))]
        else:
            rows[-1] = [*rows[-1], ("", " "), *label]
    return [clip(row, width) for row in rows]


def _label(state: ModeVariableState, focus: Focus | None, on: bool, width: int) -> Line:
    editing = focus.editing if focus is not None else None
    if editing is not None and editing.choices:
        return [("strong", f"[{state.name}={one_line(editing.shown or '?')}]")]
    if editing is not None:
        from coder.ui.terminal.modes.form import caret_line  # already imported: a field exists

        # the label may wrap below the name, indented by a quarter of the width; the caret must still be
        # visible
        room = max(4, min(VALUE_COLUMNS * 2, width - width // 4 - text_width(state.name) - 4))
        return [("strong", f"[{state.name}="), *caret_line(editing.caret, room), ("strong", "]")]
    lacking = state.required and not state.value
    style = "bad" if lacking or not state.is_valid else "dim" if state.value is None or not on else ""
    value = "!" if lacking else "?" if state.value is None else one_line(state.value)
    text = f"[{state.name}={value}]"
    return [(f"{style} chosen" if focus is not None else style, text)]


def one_line(value: str) -> str:
    shown = clip([("", flat(value))], VALUE_COLUMNS)
    return "".join(text for _, text in shown)


def window(groups: Sequence[Sequence[Line]], focused: int, room: int) -> list[Line]:
    """At most `room` rows, scrolled to the focused row and as much of its group as fits."""
    rows = [row for group in groups for row in group]
    if len(rows) <= room:
        return rows
    first = sum(len(group) for group in groups[:focused])
    last = first + len(groups[focused])
    top = min(max(0, last - room), first)
    at = first + next((n for n, row in enumerate(groups[focused]) if _has_focus(row)), 0)
    top = max(top, at - room + 1)
    return rows[top : top + room]


def _has_focus(row: Line) -> bool:
    return any("chosen" in style for style, _ in row)
