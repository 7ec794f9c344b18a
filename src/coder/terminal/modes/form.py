"""The form below the input for all variables of a mode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from coder.protocol.modes import ModeKind, ModeVariable
from coder.terminal.modes.field import Field, about, caret_line, field_of
from coder.terminal.modes.rows import keys_line
from coder.terminal.render.sanitize import flat
from coder.terminal.render.width import Line, clip, line_width, text_width
from coder.texts import Texts

FormAnswer = Literal["stay", "apply", "cancel"]

_FORWARD, _BACK = ("tab", "down", "c-n"), ("s-tab", "up", "c-p")


class Form:
    """The fields, and which one has the focus."""

    def __init__(
        self,
        mode_id: str,
        title: str,
        kind: ModeKind,
        variables: Sequence[ModeVariable],
        values: Mapping[str, str],
        focus: str = "",
    ) -> None:
        """`values` are the explicit ones; focuses `focus`, else the first field with a problem."""
        self.mode_id, self.title, self.kind = mode_id, title, kind
        self.fields = [field_of(variable, values.get(variable.name, "")) for variable in variables]
        self.refusal = ""  # why the values could not be sent
        names = [variable.name for variable in variables]
        wrong = [at for at, field in enumerate(self.fields) if field.problem() is not None]
        self.at = names.index(focus) if focus in names else next(iter(wrong), 0)

    @property
    def values(self) -> dict[str, str]:
        return {field.variable.name: field.text for field in self.fields}

    def key(self, name: str, data: str) -> FormAnswer:
        if name == "escape":
            return "cancel"
        if name == "enter":
            return self._enter()
        if name in _FORWARD or name in _BACK:
            self.at = (self.at + (1 if name in _FORWARD else -1)) % len(self.fields)
        elif (field := self.fields[self.at].key(name, data)) is not None:
            self.fields[self.at] = field
            self.refusal = ""
        return "stay"

    def _enter(self) -> FormAnswer:
        """Apply, or focus the first invalid field."""
        wrong = [at for at, field in enumerate(self.fields) if field.problem() is not None]
        if not wrong:
            return "apply"
        self.at = wrong[0]
        return "stay"

    # drawing

    def lines(self, width: int, height: int, texts: Texts) -> list[Line]:
        """At most `height` rows: the fields around the focus, its remark, the keys."""
        names = max(text_width(field.variable.name) for field in self.fields)
        names = min(names, max(6, width // 3))
        head: list[Line] = [[("strong", flat(self.title))]] if height > 4 else []
        foot: list[Line] = [self._remark(texts)] if height > 1 else []
        if height > 5:
            foot.append(keys_line("terminal.form_keys", width, texts))
        room = max(1, height - len(head) - len(foot))
        top = max(0, min(self.at - room // 2, len(self.fields) - room))
        rows = [self._row(field, at == self.at, names, width, texts) for at, field in enumerate(self.fields)][
            top : top + room
        ]
        return [clip(line, width) for line in (*head, *rows, *foot)]

    def _row(self, field: Field, focused: bool, names: int, width: int, texts: Texts) -> Line:
        variable = field.variable
        name = clip([("bad" if field.problem() else "strong" if focused else "", variable.name)], names)
        mark = ("bad", "*") if variable.required else ("", " ")
        gap = " " * (names - line_width(name) + 1)
        line: Line = [("", "▸ " if focused else "  "), *name, mark, ("", gap)]
        return line + value_line(field, focused, width - line_width(line), texts)

    def _remark(self, texts: Texts) -> Line:
        field = self.fields[self.at]
        problem = field.problem()
        if problem is not None:
            return [("bad", "  ⚠ " + flat(problem.text(texts)))]
        if self.refusal:
            return [("bad", "  ⚠ " + flat(self.refusal))]
        return [("dim", "  " + flat(about(field, texts)))]


def value_line(field: Field, focused: bool, room: int, texts: Texts) -> Line:
    """The value with a caret, or the choices with the effective one marked."""
    if field.choices:
        return choice_line(field, focused, room, texts)
    if focused and field.text:
        return caret_line(field.caret, room)
    if field.text:
        return clip([("", flat(field.text))], room)
    default = field.variable.default
    caret: Line = [("chosen", " ")] if focused else []
    if default is None:
        return [*caret, ("dim", "" if focused else "?")]
    return [*caret, ("dim", flat(texts.say("terminal.mode_default", value=default)))]


def choice_line(field: Field, focused: bool, room: int, texts: Texts) -> Line:
    """As many choices as fit, scrolled to the effective one."""
    choices = field.choices
    at = choices.index(field.shown) if field.shown in choices else -1
    first = max(0, at - 1)
    while first and sum(text_width(flat(c)) + 2 for c in choices[first:]) < room:
        first -= 1
    line: Line = [("dim", "… ")] if first else []
    for number, choice in enumerate(choices[first:], first):
        style = ("chosen" if focused else "strong") if number == at else "dim"
        line += [("", "" if number == first else "  "), (style, flat(choice))]
    if field.value_state != "explicit" and at >= 0:
        line.append(("dim", f"  {texts.say('terminal.mode_is_default')}"))
    return clip(line, room)
