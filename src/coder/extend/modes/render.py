"""Render a mode's body with values, files and command outputs, and the block of all active modes.

Deterministic: the same mode, values and callback results give the same bytes, so that the provider's prompt
cache holds.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from coder.base.safe_open import open_file
from coder.extend.modes.parse import Mode
from coder.extend.modes.template import (
    CommandReference,
    FileReference,
    LiteralText,
    ModeFault,
    Part,
    Variable,
    parse_prompt,
    parse_template,
)
from coder.protocol.modes import ModeDefinition, ModeErrorCode, RenderedMode
from coder.texts import AnyText, Text
from coder.tools.tool import OutsideWorkspace, Workspace

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


def command_line(parts: Sequence[LiteralText | Variable], values: Mapping[str, str], mode_id: str) -> str:
    """The line to run. Raises `ModeFault` where a value cannot be inserted safely."""
    fixed = "".join(part.text for part in parts if isinstance(part, LiteralText))
    if not any(isinstance(part, Variable) for part in parts):
        return fixed
    again = _REEVALUATES.search(" ".join(part.text for part in parts if isinstance(part, LiteralText)))
    out: list[str] = []
    state = _Quotes()
    for part in parts:
        if isinstance(part, LiteralText):
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


# A mode is part of every request: 32 KB are about 8,000 tokens.
MAX_RENDERED = 32_768
MAX_BLOCK = 65_536
MAX_INSERTED = 16_384  # of one file, or of one command's output
MAX_SAID = 500  # characters of a failed command's output in an error message
MAX_COMMANDS = 16
MAX_FILES = 32

Values = Mapping[str, str]


class Refused(Exception):
    """A callback refused or failed; the text says why, for the person."""

    def __init__(self, why: AnyText) -> None:
        super().__init__(why)
        self.why = why


class NotThere(Exception):
    """No such file: an `@word` in prose is not an error."""


ReadFile = Callable[[str, int], str]
"""(path, most characters) → its text. Raises `Refused` or `NotThere`."""


class Ran(msgspec.Struct, frozen=True):
    """What a command printed. `failed`: its exit status or time-out, in English, for the model."""

    output: str
    failed: str = ""


RunCommand = Callable[[ModeDefinition, str], Awaitable[Ran]]
"""(mode, command) → what it came to. Applies policy and trust; raises `Refused` where it was not run."""


class Rendered(msgspec.Struct, frozen=True):
    """The text, and notes for the person."""

    text: str
    warnings: list[AnyText] = []


async def render(mode: Mode, values: Values, read_file: ReadFile, run_command: RunCommand) -> Rendered:
    """Raises `ModeFault` naming the variable, path or command at fault."""
    job = _Rendering(mode.definition, values, read_file, run_command)
    is_prompt = mode.definition.category == "prompt"
    parts = parse_prompt(mode.body) if is_prompt else parse_template(mode.body, mode.body_line)
    pieces = [await job.piece(part) for part in parts]
    text = "".join([*pieces, *job.files.values()])
    text, cut = _limited(text.strip(), MAX_RENDERED)
    if cut:
        job.warnings.append(Text("modes.warn_cut", mode=mode.definition.mode_id, limit=MAX_RENDERED))
    return Rendered(text, [*job.warnings])


class _Rendering:
    """Renders one body; each file is appended once, after the text."""

    def __init__(
        self, definition: ModeDefinition, values: Values, read_file: ReadFile, run_command: RunCommand
    ) -> None:
        self.definition = definition
        self.values = values
        self.declared = {variable.name for variable in definition.variables}
        self.read_file = read_file
        self.run_command = run_command
        self.files: dict[str, str] = {}
        self.commands = 0
        self.warnings: list[Text] = []

    async def piece(self, part: Part) -> str:
        match part:
            case FileReference():
                return self.reference(part)
            case CommandReference():
                return await self.output(part)
            case LiteralText() | Variable():
                return self.plain(part)

    def plain(self, part: LiteralText | Variable) -> str:
        if isinstance(part, LiteralText):
            return part.text
        self.check(part)
        return self.values.get(part.name, "")

    def check(self, part: Variable) -> None:
        if part.name not in self.declared:
            raise ModeFault(
                "modes.undeclared",
                code="template",
                variable=part.name,
                line=part.line,
                mode=self.definition.mode_id,
                name=part.name,
                declared=", ".join(v.name for v in self.definition.variables) or Text("modes.none"),
            )

    def reference(self, part: FileReference) -> str:
        path = "".join(self.plain(piece) for piece in part.path)
        if path in self.files or not path:
            return f"@{path}"
        variable = next((piece.name for piece in part.path if isinstance(piece, Variable)), None)
        if len(self.files) >= MAX_FILES:
            raise self._fault("modes.files_many", "path", part.line, variable, limit=MAX_FILES)
        try:
            text = self.read_file(path, MAX_INSERTED + 1)
        except NotThere:
            self.warnings.append(Text("modes.warn_no_file", mode=self.definition.mode_id, path=path))
        except Refused as refusal:
            raise self._fault(
                "modes.path_refused", "path", part.line, variable, path=path, why=refusal.why
            ) from None
        else:
            text, cut = _limited(text, MAX_INSERTED)
            if cut:
                self.warnings.append(
                    Text("modes.warn_file_cut", mode=self.definition.mode_id, path=path, limit=MAX_INSERTED)
                )
            shown = path.replace("&", "&amp;").replace('"', "&quot;")
            self.files[path] = f'\n\n<file path="{shown}">\n{text.strip(chr(10))}\n</file>'
        return f"@{path}"

    async def output(self, part: CommandReference) -> str:
        for piece in part.command:
            if isinstance(piece, Variable):
                self.check(piece)
        self.commands += 1
        if self.commands > MAX_COMMANDS:
            raise self._fault("modes.commands_many", "command", part.line, limit=MAX_COMMANDS)
        line = command_line(part.command, self.values, self.definition.mode_id)
        try:
            ran = await self.run_command(self.definition, line)
        except Refused as refusal:
            raise self._fault(
                "modes.command_refused", "command", part.line, command=line, why=refusal.why
            ) from None
        if ran.failed and self.definition.on_error == "stop":
            why = "\n".join(filter(None, (ran.failed, ran.output[-MAX_SAID:].strip())))
            raise self._fault("modes.command_failed", "command", part.line, command=line, why=why)
        printed, cut = _limited(ran.output.rstrip("\n"), MAX_INSERTED)
        if cut:
            self.warnings.append(
                Text("modes.warn_output_cut", mode=self.definition.mode_id, command=line, limit=MAX_INSERTED)
            )
        return "\n".join(filter(None, (printed, f"[{ran.failed}]"))) if ran.failed else printed

    def _fault(
        self, key: str, code: ModeErrorCode, line: int, variable: str | None = None, **values: object
    ) -> ModeFault:
        return ModeFault(key, code=code, variable=variable, line=line, mode=self.definition.mode_id, **values)


def _limited(text: str, limit: int) -> tuple[str, bool]:
    if len(text) <= limit:
        return text, False
    return text[:limit] + f"\n[cut at {limit} characters]", True


# -- the block ---------------------------------------------------------------------------

_TAGS = ("<user_instructions>", "</user_instructions>", "<mode_instructions>", "</mode_instructions>")


def mode_block(modes: Sequence[RenderedMode]) -> str:
    """`<mode_instructions>` of the active modes, in order; empty without any."""
    if not modes:
        return ""
    sections = "\n\n".join(_section(mode) for mode in modes)
    return f"<mode_instructions>\n{sections}\n</mode_instructions>"


def _section(mode: RenderedMode) -> str:
    lines = [f"### Mode: {_tagless(mode.display_name)}", f"- scope: {_tagless(mode.scope.label)}"]
    values = ", ".join(f"{v.name}={_one_line(v.value)}" for v in mode.variables if v.value is not None)
    if values:
        lines.append(f"- variables: {_tagless(values)}")
    body = _tagless(mode.rendered_instructions or "")
    return "\n".join(lines) + (f"\n\n{body}" if body else "")


def user_instructions(base: str, block: str) -> str:
    """The base text and the block of modes as one message."""
    inner = "\n\n".join(part for part in (_tagless(base.strip()), block) if part)
    return f"<user_instructions>\n\n{inner}\n\n</user_instructions>" if inner else ""


def _one_line(value: str) -> str:
    return " ".join(value.splitlines()) if not value.isprintable() else value


def _tagless(text: str) -> str:
    """Escape tags, so that no file, output or value can close its block."""
    for tag in _TAGS:
        if tag in text:
            text = text.replace(tag, "&lt;" + tag[1:])
    return text


def reader(workspace: Workspace) -> ReadFile:
    """For `ModeKeeper`: bounded reads of text files inside the workspace."""

    def read_file(path: str, most: int) -> str:
        try:
            real = workspace.resolve(path)
        except OutsideWorkspace as outside:
            raise Refused(str(outside)) from None
        except (OSError, ValueError, RuntimeError):
            raise NotThere from None
        return _text(real, most)

    return read_file


def _text(path: Path, most: int) -> str:
    try:
        descriptor = open_file(path)
    except (FileNotFoundError, NotADirectoryError):
        raise NotThere from None
    except OSError as error:
        raise Refused(error.strerror or str(error)) from None
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise NotThere  # a directory: the model can list it
        if not stat.S_ISREG(mode):
            raise Refused("it is not a regular file")
        data = os.read(descriptor, most * 4)  # UTF-8 takes at most four bytes per character
    except OSError as error:
        raise Refused(error.strerror or str(error)) from None
    finally:
        os.close(descriptor)
    if b"\0" in data:
        raise Refused("it is a binary file")
    return data.decode("utf-8", errors="replace")[:most]
