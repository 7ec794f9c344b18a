"""The mode bar: a summary below the input; with the focus, an editor for modes and their variables.

It holds only the focus and the value being edited; `known_modes` has the modes' state.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from coder.protocol.modes import ModeStateChanged, ModeVariableState, RenderedMode
from coder.texts import Catalog
from coder.ui.terminal.modes.known_modes import ModeEntry
from coder.ui.terminal.render.escapes import flat
from coder.ui.terminal.render.width import Line, clip, line_width, text_width, wrap

if TYPE_CHECKING:
    from coder.ui.terminal.modes.form import FormField

from collections.abc import Callable
from typing import TYPE_CHECKING

from coder.protocol.modes import (
    USE_DEFAULT,
    ModeVariable,
    ModeVariableInput,
    SetModeState,
    SetValue,
    TriggerInstantMode,
)
from coder.ui.terminal.modes.known_modes import KnownModes, as_inputs
from coder.ui.terminal.render.theme import Theme

if TYPE_CHECKING:  # imported lazily: most sessions edit no mode
    from coder.ui.terminal.modes.form import FormField, ModeForm

_PICKED_ROWS = 6

Send = Callable[[SetModeState | TriggerInstantMode], bool]
"""False if it cannot be sent now."""


class ModeBar:
    """Shown below the input. Down on the newest line calls `enter`; if that is True, `key` gets every key
    until it returns something other than "stay"."""

    def __init__(
        self,
        known: KnownModes,
        texts: Catalog,
        theme: Theme,
        send: Send,
        size: Callable[[], tuple[int, int]],
        *,
        plain: bool = False,
    ) -> None:
        """`plain`: nothing is shown."""
        self.known, self.texts, self.theme, self._plain = known, texts, theme, plain
        self.focused = False
        self.focus = BarFocus()
        self.form: ModeForm | None = None
        self._from_line = False
        self._send = send
        self._size = size

    @property
    def editing(self) -> bool:
        return self.form is not None or self.focus.editing is not None

    # entering and leaving

    def enter(self) -> bool:
        """Focus the mode that was enabled last."""
        entries = self.known.entries()
        if not entries or self._plain:
            return False
        ids = [entry.mode.mode_id for entry in entries]
        self.focus = BarFocus()
        self.focus.row = ids.index(self.known.newest) if self.known.newest in ids else len(ids) - 1
        self.focused = True
        return True

    def leave(self) -> None:
        self.focused, self.form = False, None
        self.focus = BarFocus()
        self.known.remove_disabled()

    def open_form(
        self,
        mode_id: str,
        values: dict[str, str] | None = None,
        *,
        variable: str = "",
        from_line: bool = False,
    ) -> bool:
        """False if the mode has no variables. `values` come from an incomplete command line; with `from_line`
        the focus returns to the input, else to the bar."""
        definition, mode = self.known.definition(mode_id), self.known.mode(mode_id)
        variables = self.known.variables(mode_id)
        if not variables or self._plain:
            return False
        from coder.ui.terminal.modes.form import ModeForm

        title = definition.display_name if definition else mode.display_name if mode else mode_id
        about = definition.description or definition.argument_hint if definition else ""
        self.form = ModeForm(
            mode_id,
            f"{title} — {about}" if about else title,
            definition.kind if definition else "persistent",
            variables,
            {**self.known.explicit(mode_id), **(values or {})},
            variable,
        )
        ids = [entry.mode.mode_id for entry in self.known.entries()]
        self.focus = BarFocus()
        self.focus.row = ids.index(mode_id) if mode_id in ids else 0
        self.focused, self._from_line = True, from_line
        return True

    # keys

    def key(self, name: str, data: str) -> KeyAnswer:
        answer: KeyAnswer = "stay"
        if self.form is not None:
            self._form_key(self.form, name, data)
            answer = "stay" if self.focused else "leave"
        elif self.focus.editing is not None:
            self._edit_key(self.focus.editing, name, data)
        else:
            answer = self._row_key(name)
        if answer != "stay":
            self.leave()
        return answer

    def _row_key(self, name: str) -> KeyAnswer:
        entries, focus = self.known.entries(), self.focus
        focus.row = min(focus.row, len(entries) - 1)
        leaving = name == "escape" or (name in ("up", "c-p") and focus.row == 0)
        if leaving or not entries:
            return "leave"
        if name in ("up", "c-p", "down", "c-n"):
            focus.row = min(len(entries) - 1, focus.row + (1 if name in ("down", "c-n") else -1))
            focus.variable = 0
        elif name in ("left", "right", "s-tab"):
            self._move(entries[focus.row], 1 if name == "right" else -1)
        elif name == " ":
            self._switch(entries[focus.row])
        elif name == "enter":
            self._edit(entries[focus.row])
        elif name == "tab":
            self.open_form(entries[focus.row].mode.mode_id, variable=self._variable_name(entries[focus.row]))
        elif len(name) == 1 or name == "paste":
            return "pass"
        return "stay"

    def _move(self, entry: ModeEntry, by: int) -> None:
        self.focus.variable = max(0, min(len(entry.mode.variables) - 1, self.focus.variable + by))

    def _switch(self, entry: ModeEntry) -> None:
        mode_id = entry.mode.mode_id
        if not entry.on and entry.errors:
            self.known.dismiss(mode_id)
        elif mode_id in self.known.wanted:
            self._send(self.known.target_without(mode_id))
        elif missing := self._missing(mode_id):
            self.open_form(mode_id, variable=missing)
        else:
            self._send(self.known.target_with(mode_id))

    def _missing(self, mode_id: str) -> str:
        """A required variable without a value: mode-scoped values end with the mode."""
        given = self.known.explicit(mode_id)
        needed = (v.name for v in self.known.variables(mode_id) if v.required and not v.default)
        return next((name for name in needed if not given.get(name)), "")

    def _variable_name(self, entry: ModeEntry) -> str:
        variables = entry.mode.variables
        return variables[min(self.focus.variable, len(variables) - 1)].name if variables else ""

    def _edit(self, entry: ModeEntry) -> None:
        """Edit in the label (`edited_in_place`) or in the form."""
        name = self._variable_name(entry)
        variable = next((v for v in self.known.variables(entry.mode.mode_id) if v.name == name), None)
        if variable is None:
            return
        if edited_in_place(variable):
            from coder.ui.terminal.modes.form import field_of

            self.focus.editing = field_of(variable, self.known.explicit(entry.mode.mode_id).get(name, ""))
        else:
            self.open_form(entry.mode.mode_id, variable=name)

    def _edit_key(self, field: FormField, name: str, data: str) -> None:
        entry = self.known.entries()[self.focus.row]  # entries stay while the bar has the focus
        if name == "escape":
            self.focus.editing = None
        elif name in ("enter", "tab", "s-tab"):
            if field.problem() is not None and field.text:
                return
            self.focus.editing = None
            if field.text != field.initial:
                self._set(entry.mode.mode_id, field)
            if name != "enter":
                self._move(entry, 1 if name == "tab" else -1)
                self._edit(entry)
        elif field.choices and name in ("up", "down"):
            self.focus.editing = field.key("left" if name == "up" else "right", "")
        else:
            self.focus.editing = field.key(name, data) or field

    def _form_key(self, form: ModeForm, name: str, data: str) -> None:
        match form.key(name, data):
            case "cancel":
                self.form = None
                self.focused = bool(self.known.entries())
            case "apply":
                if form.kind == "persistent":
                    inputs = as_inputs(self.known.variables(form.mode_id), form.values)
                    sent = self._send(self.known.target_with(form.mode_id, inputs))
                else:
                    # empty fields are not sent, so that the session's remembered values stay
                    given = {name: SetValue(value) for name, value in form.values.items() if value}
                    sent = self._send(TriggerInstantMode(form.mode_id, dict(given)))
                if not sent:
                    form.refusal = self.texts.say("terminal.mode_wait")
                    return
                self.form = None
                self.focused = not self._from_line and bool(self.known.entries())
            case "stay":
                pass

    def _set(self, mode_id: str, field: FormField) -> None:
        """Set one value; the others stay, including explicit empty ones."""
        inputs: dict[str, ModeVariableInput] = {
            name: SetValue(value) for name, value in self.known.explicit(mode_id).items()
        }
        inputs[field.variable.name] = SetValue(field.text) if field.text else USE_DEFAULT
        self._send(self.known.target_with(mode_id, inputs))

    # drawing

    def rows(self, width: int) -> list[str]:
        lines = [] if self._plain else self._lines(width, self._size()[1])
        return [self.theme.line(line) for line in lines]

    def _lines(self, width: int, rows: int) -> list[Line]:
        entries = self.known.entries()
        if not self.focused:
            line = modes_summary(entries, self.texts) if rows >= 5 else []
            return [clip(self._with_hint(line, entries, width), width)] if line else []
        height = max(1, rows - 4)
        if self.form is not None:
            return self.form.lines(width, height, self.texts)
        if not entries:
            return []
        self.focus.row = min(self.focus.row, len(entries) - 1)
        foot = self._foot(width)[: max(0, height - 2)]
        groups = mode_lines(entries, self.focus, width, self.texts)
        return [*visible_rows(groups, self.focus.row, height - len(foot)), *foot]

    def _with_hint(self, line: Line, entries: Sequence[ModeEntry], width: int) -> Line:
        """Add how to enter the bar and leave a mode, if there is room."""
        names = [entry.mode.mode_id for entry in entries if entry.on]
        hint: Line = (
            [("dim", f"   {self.texts.say('terminal.bar_hint', name=flat(names[-1]))}")] if names else []
        )
        return [*line, *hint] if line_width(line) + line_width(hint) <= width else line

    def _foot(self, width: int) -> list[Line]:
        field = self.focus.editing
        if field is None:
            return [keys_line("terminal.bar_keys", width, self.texts)]
        lines: list[Line] = []
        if field.choices:
            lines += _choice_rows(field)
        elif field.text and (problem := field.problem()) is not None:
            lines.append([("bad", f"  ⚠ {flat(problem.text(self.texts))}")])
        key = "terminal.bar_pick_keys" if field.choices else "terminal.bar_edit_keys"
        return [*(clip(line, width) for line in lines), keys_line(key, width, self.texts)]


def edited_in_place(variable: ModeVariable) -> bool:
    """Whether to edit in the label: `inline_edit`, else free text without choices."""
    if variable.inline_edit is not None:
        return variable.inline_edit
    return variable.type == "text" and not variable.enum


def _choice_rows(field: FormField) -> list[Line]:
    choices = field.choices
    at = choices.index(field.shown) if field.shown in choices else -1
    top = max(0, min(at - _PICKED_ROWS // 2, len(choices) - _PICKED_ROWS))
    return [
        [("", "    "), ("chosen" if n == at else "", ("› " if n == at else "  ") + flat(choice))]
        for n, choice in enumerate(choices)
    ][top : top + _PICKED_ROWS]


VALUE_COLUMNS = 24  # of a value in its label
NAME_COLUMNS = 24


def modes_summary(entries: Sequence[ModeEntry], texts: Catalog) -> Line:
    """`Mode: a · b`, with the problems of requested modes; empty without any."""
    line: Line = []
    for entry in entries:
        if not entry.on and not entry.errors:
            continue
        line.append(("dim", " · " if line else texts.say("terminal.modes_label")))
        line.append(("" if entry.on else "dim", flat(entry.mode.display_name)))
        if problem := problem_text(entry, texts):
            line.append(("bad", f" ⚠ {problem}"))
    return line


class ModeAnnouncer:
    """Without a bar: the summary as a line, whenever it changes."""

    def __init__(self, texts: Catalog) -> None:
        self._texts = texts
        self._last = self._text([])

    def handle(self, event: ModeStateChanged) -> str | None:
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


def problem_text(entry: ModeEntry, texts: Catalog) -> str:
    if entry.missing:
        return texts.say("terminal.mode_missing", names=", ".join(entry.missing))
    return flat(texts.of(entry.errors[0].message)) if entry.errors else ""


class BarFocus:
    """The focused mode and variable; `editing` is the field being edited in its label, if any."""

    def __init__(self) -> None:
        self.row = 0
        self.variable = 0
        self.editing: FormField | None = None


def mode_lines(entries: Sequence[ModeEntry], focus: BarFocus, width: int, texts: Catalog) -> list[list[Line]]:
    names = min(NAME_COLUMNS, max(text_width(flat(entry.mode.display_name)) for entry in entries))
    names = min(names, max(6, width // 2))
    return [
        _mode(entry, focus if at == focus.row else None, names, width, texts)
        for at, entry in enumerate(entries)
    ]


def _mode(entry: ModeEntry, focus: BarFocus | None, names: int, width: int, texts: Catalog) -> list[Line]:
    style = "strong" if focus else "" if entry.on else "dim"
    name = clip([(style, flat(entry.mode.display_name))], names)
    head: Line = [
        ("", "▸ " if focus else "○ " if entry.on else "  "),
        *name,
        ("", " " * (names - line_width(name))),
    ]
    if problem := problem_text(entry, texts):
        head.append(("bad", f" ⚠ {problem}"))
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
    indent = " " * min(names + 3, width // 4)
    rows = wrap(head, width) if line_width(head) > width else [head]
    for label in labels:
        if line_width(rows[-1]) + 1 + line_width(label) > width and len(rows[-1]) > 1:
            rows.append([("", indent)])
            rows[-1] = [*rows[-1], *clip(label, width - len(indent))]
        else:
            rows[-1] = [*rows[-1], ("", " "), *label]
    return [clip(row, width) for row in rows]


def _label(state: ModeVariableState, focus: BarFocus | None, on: bool, width: int) -> Line:
    editing = focus.editing if focus is not None else None
    if editing is not None and editing.choices:
        return [("strong", f"[{state.name}={short_value(editing.shown or '?')}]")]
    if editing is not None:
        from coder.ui.terminal.modes.form import caret_line  # already imported: a field exists

        # the label may wrap below the name, indented by a quarter of the width; the caret must still be
        # visible
        room = max(4, min(VALUE_COLUMNS * 2, width - width // 4 - text_width(state.name) - 4))
        return [("strong", f"[{state.name}="), *caret_line(editing.caret, room), ("strong", "]")]
    lacking = state.required and not state.value
    style = "bad" if lacking or not state.is_valid else "dim" if state.value is None or not on else ""
    value = "!" if lacking else "?" if state.value is None else short_value(state.value)
    text = f"[{state.name}={value}]"
    return [(f"{style} chosen" if focus is not None else style, text)]


def short_value(value: str) -> str:
    shown = clip([("", flat(value))], VALUE_COLUMNS)
    return "".join(text for _, text in shown)


def visible_rows(groups: Sequence[Sequence[Line]], focused: int, room: int) -> list[Line]:
    """At most `room` rows, scrolled to the focused row and as much of its group as fits."""
    rows = [row for group in groups for row in group]
    if len(rows) <= room:
        return rows
    first = sum(len(group) for group in groups[:focused])
    last = first + len(groups[focused])
    top = min(max(0, last - room), first)
    at = first + next(
        (n for n, row in enumerate(groups[focused]) if any("chosen" in style for style, _ in row)), 0
    )
    top = max(top, at - room + 1)
    return rows[top : top + room]


# After a key: the focus stays, returns to the input, or returns and the key is passed on.
KeyAnswer = Literal["stay", "leave", "pass"]

# prompt_toolkit names these keys by their control characters.
_NAMES = {"c-m": "enter", "c-i": "tab", "c-h": "backspace", "c-j": "newline", "<bracketed-paste>": "paste"}


def key_name(key: object) -> str:
    name = str(getattr(key, "value", key))
    return _NAMES.get(name, name)
