"""Parse a mode's body into text, `{{variable}}`, `@path` and `!command`. Pure.

Parsing precedes substitution, so that a value, file or command output is never interpreted as a path, command
or variable. Fenced code is text, except for its variables. `\\{{` is a literal `{{`.
"""

from __future__ import annotations

import re
from collections.abc import Collection

import msgspec

from coder.modes.faults import ModeFault

_VARIABLE = re.compile(r"\\\{\{|\{\{([^{}\n]*)\}\}|\{\{")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
# A full line `!command`, but not `![image](…)` nor `!= …`; and the inline form !`command`
_COMMAND_LINE = re.compile(r"[ \t]*!(?![\[=!`\s])(.*\S)[ \t]*")
_INLINE = re.compile(
    r"(?P<code>(?<![!`])(?P<ticks>`+)(?!`).*?(?<!`)(?P=ticks)(?!`))"
    r"|!`(?P<command>[^`\n]+)`"
    r"|(?<![\w@/.`])@(?P<path>(?:\{\{[^{}\n]*\}\}|[^\s@`'\"<>()\[\]{},;:!?*|\\])+)"
)
_TRAILING = ".…。，、；：！？"
# `$1` … `$9` and `$ARGUMENTS` of saved prompts; `$$` is a dollar
PROMPT_PLACE = re.compile(r"\$(?:\$|([1-9]|ARGUMENTS)(?![A-Za-z0-9_]))")


class Text(msgspec.Struct, frozen=True):
    """Literal text."""

    text: str


class Variable(msgspec.Struct, frozen=True):
    """Replaced by its value."""

    name: str
    line: int


class FileReference(msgspec.Struct, frozen=True):
    """`@path`: stays in the text; the file's content is appended."""

    path: list[Text | Variable]
    line: int


class CommandReference(msgspec.Struct, frozen=True):
    """`!command`: replaced by its output."""

    command: list[Text | Variable]
    line: int


Part = Text | Variable | FileReference | CommandReference


def undeclared(body: str, declared: Collection[str]) -> tuple[str, int] | None:
    """The first undeclared `{{name}}`, with its line from 0."""
    if "{{" not in body:
        return None
    for match in _VARIABLE.finditer(body):
        name = (match[1] or "").strip()
        if match[1] is not None and name not in declared and _NAME.fullmatch(name):
            return name, body.count("\n", 0, match.start())
    return None


def parse_template(body: str, first_line: int = 1) -> list[Part]:
    """Raises `ModeFault` for braces without a name."""
    parts: list[Part] = []
    fence = ""
    for number, line in enumerate(body.split("\n"), first_line):
        if number > first_line:
            parts.append(Text("\n"))
        mark = _FENCE.match(line)
        if fence:
            parts += filled(line, number)
            if mark and mark[1].startswith(fence) and not line.strip(" `~"):
                fence = ""
        elif mark:
            fence = mark[1]
            parts += filled(line, number)
        elif command := _COMMAND_LINE.fullmatch(line):
            parts.append(CommandReference(filled(command[1], number), number))
        else:
            parts += _inline(line, number)
    return _joined(parts)


def commands_in(body: str) -> list[str]:
    """The commands as written, with their variables; none on a syntax error."""
    if "!" not in body:
        return []
    try:
        parts = parse_template(body)
    except ModeFault:
        return []
    return [
        "".join(piece.text if isinstance(piece, Text) else f"{{{{{piece.name}}}}}" for piece in part.command)
        for part in parts
        if isinstance(part, CommandReference)
    ]


def _inline(line: str, number: int) -> list[Part]:
    parts: list[Part] = []
    done = 0
    for match in _INLINE.finditer(line):
        if match["code"]:
            continue
        parts += filled(line[done : match.start()], number)
        done = match.end()
        if match["command"]:
            parts.append(CommandReference(filled(match["command"].strip(), number), number))
            continue
        path = match["path"].rstrip(_TRAILING)
        done -= len(match["path"]) - len(path)
        if path:
            parts.append(FileReference(filled(path, number), number))
        else:
            parts.append(Text("@"))
    return [*parts, *filled(line[done:], number)]


def filled(text: str, line: int) -> list[Text | Variable]:
    """Parse text and variables only."""
    if "{{" not in text:
        return [Text(text)] if text else []
    parts: list[Text | Variable] = []
    done = 0
    for match in _VARIABLE.finditer(text):
        if match.start() > done:
            parts.append(Text(text[done : match.start()]))
        done = match.end()
        if match[0] == "\\{{":
            parts.append(Text("{{"))
            continue
        name = (match[1] or "").strip()
        if not _NAME.fullmatch(name):
            raise ModeFault("modes.braces", code="template", line=line, found=match[0])
        parts.append(Variable(name, line))
    if done < len(text):
        parts.append(Text(text[done:]))
    return parts


def _joined(parts: list[Part]) -> list[Part]:
    """Merge adjacent texts."""
    out: list[Part] = []
    texts: list[str] = []
    for part in [*parts, None]:
        if isinstance(part, Text):
            texts.append(part.text)
            continue
        if texts:
            out.append(Text("".join(texts)))
            texts = []
        if part is not None:
            out.append(part)
    return out
