"""A form field: key handling and validation of one value. Pure."""

from __future__ import annotations

from typing import Literal

import msgspec

from coder.modes.values import problem_with
from coder.protocol.modes import ModeVariable
from coder.terminal.input.editing import Caret, cluster_end, cluster_start
from coder.terminal.render.sanitize import flat
from coder.terminal.render.width import Line, char_width, text_width
from coder.texts import Phrase, Texts

ValueState = Literal["default", "explicit", "pending_unset"]

BOOLEANS = ["true", "false"]
_WORDS = {"y": "true", "t": "true", "1": "true", "n": "false", "f": "false", "0": "false"}


class Field(msgspec.Struct, frozen=True):
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

    def problem(self) -> Phrase | None:
        if self.text:
            return problem_with(self.variable, self.text)
        if self.variable.required and not self.variable.default:
            return Phrase("terminal.mode_needed")
        return None

    def key(self, name: str, data: str) -> Field | None:
        """None if the field does not handle the key."""
        if self.choices:
            return self._chosen(name, data)
        caret = typed(self.caret, name, data)
        return None if caret is None else msgspec.structs.replace(self, caret=caret)

    def _chosen(self, name: str, data: str) -> Field | None:
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
        return self.with_text(_beginning(choices, at, name) or self.text)

    def with_text(self, text: str) -> Field:
        return msgspec.structs.replace(self, caret=Caret(text, len(text)))


def field_of(variable: ModeVariable, value: str) -> Field:
    return Field(variable, Caret(value, len(value)), initial=value)


def _beginning(choices: list[str], at: int, letter: str) -> str:
    """The next choice that starts with the letter, or the one with that number."""
    if letter.isdigit() and 0 < int(letter) <= len(choices):
        return choices[int(letter) - 1]
    later = [*choices[at + 1 :], *choices[: at + 1]]
    return next((choice for choice in later if choice.lower().startswith(letter.lower())), "")


def typed(caret: Caret, name: str, data: str) -> Caret | None:
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


def about(field: Field, texts: Texts) -> str:
    """One-line help for the variable."""
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
