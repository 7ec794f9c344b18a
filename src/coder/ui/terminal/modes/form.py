"""The form below the input for all variables of a mode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from coder.extend.modes.values import problem_with
from coder.protocol.modes import ModeKind, ModeVariable
from coder.texts import Catalog, Text
from coder.ui.terminal.input.editing import Caret, cluster_end, cluster_start
from coder.ui.terminal.modes.mode_bar import keys_line
from coder.ui.terminal.render.escapes import flat
from coder.ui.terminal.render.width import Line, char_width, clip, line_width, text_width

ValueState = Literal["default", "explicit", "pending_unset"]

BOOLEANS = ["true", "false"]
_WORDS = {"y": "true", "t": "true", "1": "true", "n": "false", "f": "false", "0": "false"}


class FormField(msgspec.Struct, frozen=True):
    """A variable and its text; no text means the default. `initial` is the explicit value before editing."""

    variable: ModeVariable
    caret: Caret
    initial: str = ""

    @property
    def text(self) -> str:
        return self.caret.text

    @property
    def value_state(self) -> ValueState:
        """`pending_unset`: clearing an explicit value resets it to the default."""
        if self.text:
            return "explicit"
        return "pending_unset" if self.initial else "default"

    @property
    def choices(self) -> list[str]:
        """Empty for free text."""
        if self.variable.enum:
            return self.variable.enum
        return BOOLEANS if self.variable.type == "boolean" else []

    @property
    def shown(self) -> str:
        """The effective value."""
        return self.text or self.variable.default or ""

    def problem(self) -> Text | None:
        if self.text:
            return problem_with(self.variable, self.text)
        if self.variable.required and not self.variable.default:
            return Text("terminal.mode_needed")
        return None

    def key(self, name: str, data: str) -> FormField | None:
        """None if the field does not handle the key."""
        if self.choices:
            return self._chosen(name, data)
        caret = edited_text_line(self.caret, name, data)
        return None if caret is None else msgspec.structs.replace(self, caret=caret)

    def _chosen(self, name: str, data: str) -> FormField | None:
        choices = self.choices
        at = choices.index(self.shown) if self.shown in choices else -1
        if name in ("right", " "):
            return self.with_text(choices[(at + 1) % len(choices)])
        if name == "left":
            return self.with_text(choices[(at if at >= 0 else 0) - 1])
        if name in ("backspace", "delete", "c-u"):
            return self.with_text("")
        if len(name) != 1:
            return None
        if choices is BOOLEANS:
            return self.with_text(_WORDS.get(name.lower(), self.text))
        return self.with_text(_choice_for(choices, at, name) or self.text)

    def with_text(self, text: str) -> FormField:
        return msgspec.structs.replace(self, caret=Caret(text, len(text)))


def field_of(variable: ModeVariable, value: str) -> FormField:
    return FormField(variable, Caret(value, len(value)), initial=value)


def _choice_for(choices: list[str], at: int, letter: str) -> str:
    """The next choice that starts with the letter, or the one with that number."""
    if letter.isdigit() and 0 < int(letter) <= len(choices):
        return choices[int(letter) - 1]
    later = [*choices[at + 1 :], *choices[: at + 1]]
    return next((choice for choice in later if choice.lower().startswith(letter.lower())), "")


def edited_text_line(caret: Caret, name: str, data: str) -> Caret | None:
    """Apply a key to a single-line text; None if it has no meaning there."""
    text, at = caret.text, caret.at
    if len(name) == 1 or name == "paste":
        new = "".join(char if char.isprintable() else " " for char in data)
        return Caret(text[:at] + new + text[at:], at + len(new))
    before, behind = cluster_start(text, at), cluster_end(text, at)
    moves = {"left": before, "right": behind, "home": 0, "end": len(text)}
    moves |= {"c-b": moves["left"], "c-f": moves["right"], "c-a": 0, "c-e": len(text)}
    if name in moves:
        return Caret(text, moves[name])
    word = len(text[:at].rstrip().rpartition(" ")[0])
    cuts = {
        "backspace": (before, at),
        "delete": (at, behind),
        "c-d": (at, behind),
        "c-u": (0, at),
        "c-k": (at, len(text)),
        "c-w": (word + (word > 0), at),
    }
    if name not in cuts:
        return None
    start, end = cuts[name]
    return Caret(text[:start] + text[end:], start)


def caret_line(caret: Caret, room: int) -> Line:
    """The text with its caret, scrolled so that the caret is visible."""
    text = flat(caret.text)
    before, under = flat(caret.text[: caret.at]), flat(caret.text[caret.at : caret.at + 1]) or " "
    after = text[len(before) + len(under) :] if caret.at < len(caret.text) else ""
    kept = ""
    for char in reversed(before):
        if text_width(kept) + char_width(char) > max(0, room - text_width(under) - 1):
            kept = "…" + kept
            break
        kept = char + kept
    line: Line = [("", kept), ("chosen", under)]
    left = room - text_width(kept) - text_width(under)
    tail = ""
    for char in after:
        if text_width(tail) + char_width(char) > left:
            break
        tail += char
    return [*line, ("", tail)]


def field_help(field: FormField, texts: Catalog) -> str:
    variable = field.variable
    parts = [variable.description] if variable.description else []
    parts.append(texts.say(f"terminal.type_{variable.type}"))
    if variable.default is not None:
        parts.append(texts.say("terminal.mode_default", value=variable.default))
    if variable.shortcuts:
        parts.append(texts.say("terminal.mode_shortcuts", names=" ".join(variable.shortcuts)))
    if variable.pattern and not variable.enum:
        parts.append(texts.say("terminal.mode_pattern", pattern=variable.pattern))
    return " · ".join(parts)


FormResult = Literal["stay", "apply", "cancel"]

_FORWARD, _BACK = ("tab", "down", "c-n"), ("s-tab", "up", "c-p")


class ModeForm:
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
        invalid = [at for at, field in enumerate(self.fields) if field.problem() is not None]
        self.at = names.index(focus) if focus in names else next(iter(invalid), 0)

    @property
    def values(self) -> dict[str, str]:
        return {field.variable.name: field.text for field in self.fields}

    def key(self, name: str, data: str) -> FormResult:
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

    def _enter(self) -> FormResult:
        """Apply, or focus the first invalid field."""
        invalid = [at for at, field in enumerate(self.fields) if field.problem() is not None]
        if not invalid:
            return "apply"
        self.at = invalid[0]
        return "stay"

    # drawing

    def lines(self, width: int, height: int, texts: Catalog) -> list[Line]:
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

    def _row(self, field: FormField, focused: bool, names: int, width: int, texts: Catalog) -> Line:
        variable = field.variable
        name = clip([("bad" if field.problem() else "strong" if focused else "", variable.name)], names)
        mark = ("bad", "*") if variable.required else ("", " ")
        gap = " " * (names - line_width(name) + 1)
        line: Line = [("", "▸ " if focused else "  "), *name, mark, ("", gap)]
        return line + value_line(field, focused, width - line_width(line), texts)

    def _remark(self, texts: Catalog) -> Line:
        field = self.fields[self.at]
        problem = field.problem()
        if problem is not None:
            return [("bad", "  ⚠ " + flat(problem.text(texts)))]
        if self.refusal:
            return [("bad", "  ⚠ " + flat(self.refusal))]
        return [("dim", "  " + flat(field_help(field, texts)))]


def value_line(field: FormField, focused: bool, room: int, texts: Catalog) -> Line:
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


def choice_line(field: FormField, focused: bool, room: int, texts: Catalog) -> Line:
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
