"""Validate values of variables, and resolve a mode's values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from coder.extend.modes.template import ModeFault
from coder.extend.patterns import matches
from coder.protocol.modes import ModeDefinition, ModeVariable, ModeVariableState
from coder.texts import Text

if TYPE_CHECKING:
    from coder.protocol.modes import ModeVariableInput, ModeVariableState, ValueSource


MAX_VALUE = 8_192  # longer text belongs in a file
TRUE = ("true", "yes", "on", "1")
FALSE = ("false", "no", "off", "0")


def is_boolean(text: str) -> bool:
    return text.lower() in (*TRUE, *FALSE)


def problem_with(variable: ModeVariable, value: str) -> Text | None:
    """Why the value is invalid, or None."""
    said = value or '""'
    if len(value) > MAX_VALUE:
        return Text("modes.value_long", limit=MAX_VALUE)
    if "\0" in value:
        return Text("modes.value_nul")
    if variable.enum:
        if value in variable.enum:
            return None
        return Text("modes.value_enum", value=said, allowed=", ".join(variable.enum))
    if variable.type == "boolean" and not is_boolean(value):
        return Text("modes.value_boolean", value=said)
    if variable.type == "number" and not _is_number(value):
        return Text("modes.value_number", value=said)
    if variable.type == "path" and (not value or "\n" in value):
        return Text("modes.value_path", value=said)
    if variable.pattern is not None and variable.type != "enum":
        found = matches(variable.pattern, value)
        if not found:
            key = "modes.value_slow" if found is None else "modes.value_pattern"
            return Text(key, value=said, pattern=variable.pattern)
    return None


def _is_number(value: str) -> bool:
    """Integer or decimal, with exponent; no `nan`, `inf` or non-ASCII digits."""
    return re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", value, re.ASCII) is not None


def settled(
    variable: ModeVariable, asked: ModeVariableInput | None, kept: str | None, cached: str | None
) -> tuple[str | None, ValueSource]:
    """The value after a request: the requested one, else the previous one, else the default.

    `kept`: the active mode's value; `cached`: the session's.
    """
    if asked is not None and not isinstance(asked, str):
        return asked.value, "explicit"
    if asked is None and kept is not None:
        return kept, "explicit"
    if asked is None and cached is not None:
        return cached, "session"
    return (variable.default, "default") if variable.default is not None else (None, "unset")


def state_of(variable: ModeVariable, value: str | None, source: ValueSource) -> ModeVariableState:
    """Validates; a required variable needs a non-empty value."""
    problem: Text | None = None
    if not value and variable.required:
        problem = _allowed(variable)
    elif value is not None:
        problem = problem_with(variable, value)
    return ModeVariableState(
        name=variable.name,
        type=variable.type,
        value=value,
        is_valid=problem is None,
        source=source,
        required=variable.required,
        default=variable.default,
        enum=variable.enum,
        problem=problem or "",
    )


def _allowed(variable: ModeVariable) -> Text:
    if variable.enum:
        return Text("modes.allowed_list", allowed=", ".join(variable.enum))
    return Text("modes.allowed_type", type=variable.type)


def values_of(states: list[ModeVariableState]) -> Mapping[str, str]:
    """Values for a template, without unset optional variables."""
    return {state.name: state.value for state in states if state.value is not None}


class Word(msgspec.Struct, frozen=True):
    """One argument: its text, the length of its unquoted prefix, and its position."""

    text: str
    bare: int
    start: int
    end: int


class Bound(msgspec.Struct, frozen=True):
    """Values by variable, in order of declaration, and the rest of the text."""

    values: dict[str, str]
    leftover: str = ""


def split_line(line: str) -> tuple[str, str]:
    """`/name` and the rest of a slash line."""
    line = line.strip()
    for at, char in enumerate(line):
        if char.isspace():
            return line[:at], line[at:].lstrip(" \t")
    return line, ""


def bind(definition: ModeDefinition, text: str) -> Bound:
    """Raises `ModeFault` for a syntax error. Values are not validated here."""
    prose = any(variable.rest or variable.name == "ARGUMENTS" for variable in definition.variables)
    words, more = words_of(text, open_quotes=prose)
    if definition.category == "prompt":
        return _bind_prompt(definition, text, words, more)
    values: dict[str, str] = {}
    remaining = _take_shortcuts(definition.variables, words, values)
    leftover = _take_positions(definition.variables, text, remaining, more, values)
    ordered = {v.name: values[v.name] for v in definition.variables if v.name in values}
    return Bound(ordered, leftover)


def _take_positions(
    variables: Sequence[ModeVariable], text: str, words: Sequence[Word], more: str, values: dict[str, str]
) -> str:
    """Bind words to the unbound variables in order; returns what is left. `more`: the lines after the first.

    A `rest` variable has all that those before it left, as typed. Variables after it share its words, since
    `$ARGUMENTS` and `$1` of an imported command overlap; those with shortcuts are bound by them alone.
    """
    at, shared = 0, False
    for variable in variables:
        if variable.name in values or (shared and variable.shortcuts):
            continue
        if variable.rest:
            shared = True
            if rest := _left(text, words[at:], more):
                values[variable.name] = rest
        elif at < len(words):
            values[variable.name] = words[at].text
            at += 1
    return "" if shared else _left(text, words[at:], more)


def _left(text: str, words: Sequence[Word], more: str) -> str:
    return "\n".join(filter(None, (_raw(text, words), more)))


def _take_shortcuts(
    variables: Sequence[ModeVariable], words: list[Word], values: dict[str, str]
) -> list[Word]:
    """Bind shortcuts; returns the other words."""
    left: list[Word] = []
    known = _Shortcuts(variables)
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        found = known.of(word)
        if found is None:
            left.append(word)
            continue
        variable, shortcut = found
        if shortcut.endswith("="):
            values[variable.name] = word.text[len(shortcut) :]
        elif variable.type == "boolean" and not (at < len(words) and is_boolean(words[at].text)):
            values[variable.name] = "true"
        elif at < len(words):
            values[variable.name] = words[at].text
            at += 1
        else:
            raise ModeFault(
                "modes.shortcut_bare",
                code="argument",
                variable=variable.name,
                shortcut=shortcut,
                name=variable.name,
            )
    return left


class _Shortcuts:
    """Shortcuts indexed by their text: a pasted line may have a hundred thousand words."""

    def __init__(self, variables: Sequence[ModeVariable]) -> None:
        self._known: dict[str, tuple[int, ModeVariable]] = {}
        for variable in variables:
            for shortcut in variable.shortcuts:
                self._known.setdefault(shortcut, (len(self._known), variable))
        self._longest = max(map(len, self._known), default=0)

    def of(self, word: Word) -> tuple[ModeVariable, str] | None:
        """The first declared shortcut that the word equals, or starts with where it ends in `=`.

        Quoted words are values: `"-t"` is not a shortcut.
        """
        if not self._known:
            return None
        head = word.text[: min(self._longest, word.bare)]
        typed = [head[: at + 1] for at, char in enumerate(head) if char == "="]
        if len(head) == len(word.text) and not head.endswith("="):
            typed.append(head)
        found = [shortcut for shortcut in typed if shortcut in self._known]
        if not found:
            return None
        first = min(found, key=lambda shortcut: self._known[shortcut][0])
        return self._known[first][1], first


def _bind_prompt(definition: ModeDefinition, text: str, words: list[Word], more: str) -> Bound:
    """A saved prompt takes its words by position; `$ARGUMENTS` is all of them as typed."""
    wanted = [variable.name for variable in definition.variables]
    values = {
        name: words[int(name) - 1].text for name in wanted if name.isdigit() and int(name) <= len(words)
    }
    if "ARGUMENTS" in wanted:
        values["ARGUMENTS"] = text.strip()
        return Bound(values)
    taken = max((int(name) for name in wanted), default=0)
    return Bound(values, _left(text, words[taken:], more))


def _raw(text: str, words: Sequence[Word]) -> str:
    """The source text of adjacent words."""
    pieces: list[str] = []
    end = -1
    for word in words:
        between = text[end : word.start] if end >= 0 else ""
        pieces.append((between if not between.strip() else " ") + text[word.start : word.end])
        end = word.end
    return "".join(pieces)


def words_of(text: str, *, open_quotes: bool = False) -> tuple[list[Word], str]:
    """The words of the first line, and the lines after it. Raises `ModeFault` for an open quote, unless those
    are characters like others."""
    words: list[Word] = []
    at = 0
    while at < len(text):
        if text[at] == "\n":
            return words, text[at + 1 :].strip("\n")
        if text[at].isspace():
            at += 1
            continue
        word = _word(text, at, open_quotes=open_quotes)
        words.append(word)
        at = word.end
    return words, ""


def _word(text: str, start: int, *, open_quotes: bool) -> Word:
    out: list[str] = []
    bare: int | None = None  # characters before the first quote
    at = start
    while at < len(text) and not text[at].isspace():
        char = text[at]
        opens = char == '"' or (char == "'" and (at == start or text[at - 1] == "="))
        closed = _quoted(text, at, within_line=open_quotes) if opens else None
        if opens and closed is None and not open_quotes:
            raise ModeFault("modes.quote_open", code="argument", quote=char, rest=text[at : at + 40])
        if closed is not None:
            bare = len(out) if bare is None else bare
            inner, at = closed
            out += inner
        elif char == "\\" and at + 1 < len(text):
            bare = len(out) if bare is None else bare
            out.append(text[at + 1])
            at += 2
        else:
            out.append(char)
            at += 1
    return Word("".join(out), len(out) if bare is None else bare, start, at)


def _quoted(text: str, start: int, *, within_line: bool) -> tuple[list[str], int] | None:
    """The characters inside the quotes that open at `start`, and the end offset; None if they stay open."""
    mark = text[start]
    out: list[str] = []
    at = start + 1
    while at < len(text):
        char = text[at]
        if char == mark:
            return out, at + 1
        if char == "\n" and within_line:
            return None
        if char == "\\" and mark == '"' and at + 1 < len(text) and text[at + 1] in '"\\':
            at += 1
            char = text[at]
        out.append(char)
        at += 1
    return None
