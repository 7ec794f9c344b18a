"""A mode's body as parts: text, `{{variable}}`, `@path`, `!command`. Pure.

The body is taken apart before any value is put in, so that nothing in a value, a file or a command's
output is ever read as a path, a command or a variable. Fenced code is text, but for its variables.
A `\\{{` stands for `{{` itself.
"""

from __future__ import annotations

import re
from collections.abc import Collection

import msgspec

from coder.modes.faults import ModeFault

_VARIABLE = re.compile(r"\\\{\{|\{\{([^{}\n]*)\}\}|\{\{")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
# A whole line `!command`, but not `![image](…)` nor `!= …`; and the inline form !`command`
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
    """Goes in as it is."""

    text: str


class Variable(msgspec.Struct, frozen=True):
    """Goes in as its value."""

    name: str
    line: int


class FileReference(msgspec.Struct, frozen=True):
    """`@path`: stays in the text, and what the file holds is added after it."""

    path: list[Text | Variable]
    line: int


class CommandReference(msgspec.Struct, frozen=True):
    """`!command`: what it prints goes in."""

    command: list[Text | Variable]
    line: int


Part = Text | Variable | FileReference | CommandReference


def undeclared(body: str, declared: Collection[str]) -> tuple[str, int] | None:
    """The first `{{name}}` that no variable of the mode has, with its line from 0."""
    if "{{" not in body:
        return None
    for match in _VARIABLE.finditer(body):
        name = (match[1] or "").strip()
        if match[1] is not None and name not in declared and _NAME.fullmatch(name):
            return name, body.count("\n", 0, match.start())
    return None


def parse_template(body: str, first_line: int = 1) -> list[Part]:
    """Raises `ModeFault` for braces that hold no name."""
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
    """The commands as they are written, with their variables; none where the braces are broken."""
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
    """Text and variables alone."""
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
    """Neighbouring texts as one."""
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
