"""Render a mode's body with values, files and command outputs, and the block of all active modes.

Deterministic: the same mode, values and callback results give the same bytes, so that the provider's prompt
cache holds.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

import msgspec

from coder.modes.commands import command_line
from coder.modes.faults import ModeFault
from coder.modes.parse import Mode
from coder.modes.template import (
    CommandReference,
    FileReference,
    Part,
    Text,
    Variable,
    parse_prompt,
    parse_template,
)
from coder.protocol.modes import ModeDefinition, ModeErrorCode, RenderedMode
from coder.texts import Phrase, Said

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

    def __init__(self, why: Said) -> None:
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
    warnings: list[Said] = []


async def render(mode: Mode, values: Values, read_file: ReadFile, run_command: RunCommand) -> Rendered:
    """Raises `ModeFault` naming the variable, path or command at fault."""
    job = _Rendering(mode.definition, values, read_file, run_command)
    is_prompt = mode.definition.category == "prompt"
    parts = parse_prompt(mode.body) if is_prompt else parse_template(mode.body, mode.body_line)
    pieces = [await job.piece(part) for part in parts]
    text = "".join([*pieces, *job.files.values()])
    text, cut = _limited(text.strip(), MAX_RENDERED)
    if cut:
        job.warnings.append(Phrase("modes.warn_cut", mode=mode.definition.mode_id, limit=MAX_RENDERED))
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
        self.warnings: list[Phrase] = []

    async def piece(self, part: Part) -> str:
        match part:
            case FileReference():
                return self.reference(part)
            case CommandReference():
                return await self.output(part)
            case Text() | Variable():
                return self.plain(part)

    def plain(self, part: Text | Variable) -> str:
        if isinstance(part, Text):
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
                declared=", ".join(v.name for v in self.definition.variables) or Phrase("modes.none"),
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
            self.warnings.append(Phrase("modes.warn_no_file", mode=self.definition.mode_id, path=path))
        except Refused as refusal:
            raise self._fault(
                "modes.path_refused", "path", part.line, variable, path=path, why=refusal.why
            ) from None
        else:
            text, cut = _limited(text, MAX_INSERTED)
            if cut:
                self.warnings.append(
                    Phrase("modes.warn_file_cut", mode=self.definition.mode_id, path=path, limit=MAX_INSERTED)
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
                Phrase(
                    "modes.warn_output_cut", mode=self.definition.mode_id, command=line, limit=MAX_INSERTED
                )
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
