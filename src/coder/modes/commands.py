"""Insert values into a mode's `!command` without shell injection: each value stays one argument.

A value is quoted for its context: bare, inside single or double quotes. It is rejected where the shell would
evaluate it again (substitutions, here-documents, arithmetic, comments, `eval`), where it would be an option,
or where it has line breaks. The policy judges the finished line in any case.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

from coder.modes.faults import ModeFault
from coder.modes.template import Text, Variable

# Constructs that evaluate quoted text again, or do not quote at all
_REEVALUATES = re.compile(
    r"`|\$\(|\$\{|\$\[|\$'|\$\"|[<>]\(|<<|\(\(|\[\[|\w\[[^\]]*\s[^\]]*\]\+?="
    r"|(?:^|[\s;&|(])(?:[^\s;&|(]*/)?(?:eval|let|declare|typeset|local|export|readonly|unset|trap|source"
    r"|read|mapfile|readarray|getopts|wait|exec|command|watch|ssh|su"
    r"|(?:ba|z|da|k|c|tc|fi)?sh)(?=[\s;&|]|$)"
    r"|(?:^|[;&|({!]|\b(?:then|else|do|time|builtin)\s)\s*\.(?=\s)"  # elsewhere it is a directory
    r"|(?:^|[\s;&|(])(?:test|\[|printf)\s(?:.*\s)?-v(?=\s|$)"
)
_BARE_WORD_ENDS = frozenset(" \t;&|(<>")


def command_line(parts: Sequence[Text | Variable], values: Mapping[str, str], mode_id: str) -> str:
    """The line to run. Raises `ModeFault` where a value cannot be inserted safely."""
    fixed = "".join(part.text for part in parts if isinstance(part, Text))
    if not any(isinstance(part, Variable) for part in parts):
        return fixed
    again = _REEVALUATES.search(" ".join(part.text for part in parts if isinstance(part, Text)))
    out: list[str] = []
    state = _Quotes()
    for part in parts:
        if isinstance(part, Text):
            state.read(part.text)
            out.append(part.text)
            continue
        if again:
            raise _refused("modes.command_again", part, mode_id, construct=again[0].strip())
        value = values.get(part.name, "")
        out.append(_placed(part, value, state, mode_id))
        state.word_started = state.word_started or bool(value)
    return "".join(out)


def _placed(part: Variable, value: str, state: _Quotes, mode_id: str) -> str:
    if state.comment or state.escaped:
        raise _refused("modes.command_again", part, mode_id, construct="#" if state.comment else "\\")
    if any(char in value for char in "\n\r\0"):
        raise _refused("modes.command_lines", part, mode_id)
    if value.startswith("-") and not state.word_started and not _NUMBER.fullmatch(value):
        raise _refused("modes.command_option", part, mode_id, value=value)
    if state.quote == "'":
        return value.replace("'", "'\\''")
    if state.quote == '"':
        return f'"{shlex.quote(value)}"'
    return shlex.quote(value)


_NUMBER = re.compile(r"-\d+(?:\.\d+)?", re.ASCII)


def _refused(key: str, part: Variable, mode_id: str, **values: object) -> ModeFault:
    return ModeFault(
        key, code="command", variable=part.name, line=part.line, mode=mode_id, name=part.name, **values
    )


class _Quotes:
    """Tracks the shell's quoting state."""

    def __init__(self) -> None:
        self.quote = ""
        self.escaped = False
        self.comment = False
        self.word_started = False

    def read(self, text: str) -> None:
        for char in text:
            if self.escaped:
                self.escaped, self.word_started = False, True
            elif self.quote == "'":
                self.quote = "" if char == "'" else "'"
                self.word_started = self.word_started or char != "'"
            elif char == "\\":
                self.escaped = True
            elif self.quote == '"':
                self.quote = "" if char == '"' else '"'
                self.word_started = self.word_started or char != '"'
            elif char in "'\"":
                self.quote = char
            elif char == "#" and not self.word_started:
                self.comment = True
            else:
                self.word_started = char not in _BARE_WORD_ENDS
