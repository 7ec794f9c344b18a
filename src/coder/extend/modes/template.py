"""Parse a mode's body into text, `{{variable}}`, `@path` and `!command`. Pure.

Parsing precedes substitution, so that a value, file or command output is never interpreted as a path, command
or variable. Fenced code is text, except for its variables. `\\{{` is a literal `{{`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

import msgspec

from coder.base.frontmatter import FrontmatterError
from coder.protocol.modes import ModeError, ModeErrorCode
from coder.texts import CoderError, Text


class ModeFault(CoderError):
    """An untranslated error; becomes a `ModeError` in the person's language."""

    def __init__(
        self,
        what: str | Text,
        /,
        *,
        code: ModeErrorCode,
        variable: str | None = None,
        line: int = 0,
        **values: object,
    ) -> None:
        super().__init__(what, **values)
        self.code: ModeErrorCode = code
        self.variable = variable
        self.line = line

    def error(self, mode_id: str, file: str = "") -> ModeError:
        """With `file`, the message starts with file and line."""
        message = self.phrase
        if file:
            message = (f"{file}:{self.line}: " if self.line else f"{file}: ") + message
        return ModeError(
            mode_id=mode_id, message=message, variable=self.variable, code=self.code, line=self.line
        )


def fault_of_head(fault: FrontmatterError) -> ModeFault:
    """A frontmatter error as an error of the mode."""
    return ModeFault(fault.phrase, code="file", line=fault.line)


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


class LiteralText(msgspec.Struct, frozen=True):
    """Literal text."""

    text: str


class Variable(msgspec.Struct, frozen=True):
    """Replaced by its value."""

    name: str
    line: int


class FileReference(msgspec.Struct, frozen=True):
    """`@path`: stays in the text; the file's content is appended."""

    path: list[LiteralText | Variable]
    line: int


class CommandReference(msgspec.Struct, frozen=True):
    """`!command`: replaced by its output."""

    command: list[LiteralText | Variable]
    line: int


Part = LiteralText | Variable | FileReference | CommandReference


def first_wrong_place(body: str, declared: Collection[str]) -> tuple[str, str, int] | None:
    """The first undeclared `{{name}}`, or braces without a name (then it is empty); the text as written; its
    line from 0."""
    if "{{" not in body:
        return None
    for match in _VARIABLE.finditer(body):
        if match[0] == "\\{{":
            continue
        name = (match[1] or "").strip()
        if name not in declared:
            named = name if _NAME.fullmatch(name) else ""
            return named, match[0], body.count("\n", 0, match.start())
    return None


_Plain = Callable[[str, int], "list[LiteralText | Variable]"]


def parse_template(body: str, first_line: int = 1) -> list[Part]:
    """Raises `ModeFault` for braces without a name."""
    return _parsed(body, first_line, filled, commands=True)


def parse_prompt(body: str) -> list[Part]:
    """A saved prompt: `$1`, `$ARGUMENTS` and `@path`; commands and braces are text."""
    return _parsed(body, 1, _prompt_places, commands=False)


def _parsed(body: str, first_line: int, plain: _Plain, *, commands: bool) -> list[Part]:
    """`plain` parses text and variables."""
    parts: list[Part] = []
    fence = ""
    for number, line in enumerate(body.split("\n"), first_line):
        if number > first_line:
            parts.append(LiteralText("\n"))
        mark = _FENCE.match(line)
        if fence:
            parts += plain(line, number)
            if mark and mark[1].startswith(fence) and not line.strip(" `~"):
                fence = ""
        elif mark:
            fence = mark[1]
            parts += plain(line, number)
        elif commands and (command := _COMMAND_LINE.fullmatch(line)):
            parts.append(CommandReference(plain(command[1], number), number))
        else:
            parts += _inline(line, number, plain, commands=commands)
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
        "".join(
            piece.text if isinstance(piece, LiteralText) else f"{{{{{piece.name}}}}}"
            for piece in part.command
        )
        for part in parts
        if isinstance(part, CommandReference)
    ]


def _inline(line: str, number: int, plain: _Plain, *, commands: bool) -> list[Part]:
    parts: list[Part] = []
    done = 0
    for match in _INLINE.finditer(line):
        if match["code"] or (match["command"] and not commands):
            continue
        parts += plain(line[done : match.start()], number)
        done = match.end()
        if match["command"]:
            parts.append(CommandReference(plain(match["command"].strip(), number), number))
            continue
        path = match["path"].rstrip(_TRAILING)
        done -= len(match["path"]) - len(path)
        if path:
            parts.append(FileReference(plain(path, number), number))
        else:
            parts.append(LiteralText("@"))
    return [*parts, *plain(line[done:], number)]


def _prompt_places(text: str, line: int) -> list[LiteralText | Variable]:
    """Parse text and the places of a saved prompt only."""
    parts: list[LiteralText | Variable] = []
    done = 0
    for match in PROMPT_PLACE.finditer(text):
        parts.append(LiteralText(text[done : match.start()]))
        parts.append(Variable(match[1], line) if match[1] else LiteralText("$"))
        done = match.end()
    return [*parts, LiteralText(text[done:])]


def filled(text: str, line: int) -> list[LiteralText | Variable]:
    """Parse text and variables only."""
    if "{{" not in text:
        return [LiteralText(text)] if text else []
    parts: list[LiteralText | Variable] = []
    done = 0
    for match in _VARIABLE.finditer(text):
        if match.start() > done:
            parts.append(LiteralText(text[done : match.start()]))
        done = match.end()
        if match[0] == "\\{{":
            parts.append(LiteralText("{{"))
            continue
        name = (match[1] or "").strip()
        if not _NAME.fullmatch(name):
            raise ModeFault("modes.braces", code="template", line=line, found=match[0])
        parts.append(Variable(name, line))
    if done < len(text):
        parts.append(LiteralText(text[done:]))
    return parts


def _joined(parts: list[Part]) -> list[Part]:
    """Merge adjacent texts."""
    out: list[Part] = []
    texts: list[str] = []
    for part in [*parts, None]:
        if isinstance(part, LiteralText):
            texts.append(part.text)
            continue
        if texts:
            out.append(LiteralText("".join(texts)))
            texts = []
        if part is not None:
            out.append(part)
    return out
