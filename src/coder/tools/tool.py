"""The tool interface: a tool, its result, and the context that it is passed."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

import msgspec

from coder.base.text import shortened, utf8_safe
from coder.protocol.events import FileChange
from coder.protocol.messages import FunctionSpec, Image, ToolSpec
from coder.texts import AnyText, Text
from coder.tools.seen import FileStamps

if TYPE_CHECKING:
    from coder.tools.changes import Change
    from coder.tools.job import Jobs


DetailKind = Literal["", "diff", "output", "text"]
Arguments = Mapping[str, Any]
OnOutput = Callable[[str], None]  # takes what a running command prints, as it prints it
# What a tool does at most: look, edit files, run a command line, reach out of the workspace. `unknown`: a
# server's tool, of which nothing is believed.
Kind = Literal["looks", "edits", "runs", "reaches", "unknown"]


class ToolResult(msgspec.Struct, frozen=True):
    """The outcome of a call: text for the model, a summary and detail for the person, fields for the record.
    `for_model` begins with `error: ` where `ok` is false and with `denied: ` where `denied` is true."""

    for_model: str
    summary: str
    ok: bool = True
    denied: bool = False
    detail: str = ""
    detail_kind: DetailKind = ""
    meta: dict[str, Any] = {}
    phrase: Text | None = None  # the translatable summary
    # The whole text of a truncated result, to find secrets that a part of them does not reveal. Never shown.
    around: str = ""
    # Files whose content the model knows after this result, which shows all that is new.
    learned: tuple[tuple[Path, bytes], ...] = ()
    images: tuple[Image, ...] = ()  # for the model, beside the text

    @property
    def said(self) -> AnyText:
        """The summary for a person; `summary` itself is English."""
        return self.summary if self.phrase is None else self.phrase


MCP_PREFIX = "mcp__"  # what the names of MCP servers' tools begin with, and no others
MCP_CALL = "mcp_call"  # calls a tool of theirs that is not declared


def is_mcp(name: str) -> bool:
    """Whether this is the name of an MCP server's tool."""
    return name.startswith(MCP_PREFIX)


_LONGEST_VALUE = 80  # characters of an argument in the one-line summary


def summed_up(phrase: Text, for_model: str, **more: Any) -> ToolResult:
    """A success with a localized summary."""
    return ToolResult(for_model=for_model, summary=str(phrase), phrase=phrase, **more)


def failed(reason: str, summary: AnyText = "", **meta: Any) -> ToolResult:
    """A failure. `reason`, for the model: what is wrong and what would work instead."""
    said = summary or Text("tool.failed", why=reason)
    phrase = said if isinstance(said, Text) else None
    return ToolResult(for_model=f"error: {reason}", summary=str(said), ok=False, meta=meta, phrase=phrase)


def denied(reason: str, summary: AnyText = "", **meta: Any) -> ToolResult:
    """A refusal: the call was understood and may not be done."""
    result = failed(reason, summary, **meta)
    return msgspec.structs.replace(result, for_model=f"denied: {reason}", denied=True)


class ToolCancelled(asyncio.CancelledError):
    """A cancel, with the result so far."""

    def __init__(self, result: ToolResult) -> None:
        super().__init__()
        self.result = result


class Preview(msgspec.Struct, frozen=True):
    """What a person sees before deciding. Making one changes nothing on disk."""

    subject: str
    kind: Literal["command", "diff", "text"] = "text"
    fault: ToolResult | None = None  # the result, if the call cannot succeed
    operations: tuple[FileChange, ...] = ()  # every one, also those of which `subject` has no line
    changes: tuple[Change, ...] = ()  # what they would be made by


class Approved(msgspec.Struct, frozen=True):
    """What a call that was asked about may change. `changes`: as previewed; None if nobody looked at them.
    `amended`: these files as they were, but to a content that the person chose. `person`: a person answered.
    `verdict`: on a command, as it was when they were asked. `seen`: the places outside the workspace that it
    writes, held since then."""

    changes: tuple[Change, ...] | None = None
    amended: bool = False
    person: bool = False
    verdict: Any = None
    seen: Any = None

    def covers(self, changes: Sequence[Change]) -> bool:
        if self.changes is None or self.amended:
            known = {(change.path, change.before) for change in self.changes or ()}
            return self.changes is None or all((one.path, one.before) in known for one in changes)
        return tuple(changes) == self.changes


class Unapproved(Exception):
    """What is about to be changed is not what the person agreed to; nothing was done. `reason` is for the
    question that follows."""

    def __init__(self, reason: Text) -> None:
        super().__init__(str(reason))
        self.reason = reason


class OutsideWorkspace(Exception):
    """A path outside the workspace; the message is for the model."""


class ClosedPlace(OutsideWorkspace):
    """A path inside the workspace that is denied because it holds secrets."""


class Workspace(Protocol):
    """The directory that all tools are confined to."""

    @property
    def root(self) -> Path: ...

    @property
    def closed(self) -> Collection[str]:
        """Absolute paths inside it that are neither opened nor walked into."""
        ...

    def resolve(self, path: str, *, write: bool = False) -> Path:
        """The absolute path, links followed; raises `OutsideWorkspace`. Reading also reaches the directory of
        the session's long outputs."""
        ...

    def show(self, path: Path) -> str:
        """The path for display: relative to the workspace, `/` separators."""
        ...


class Journal(Protocol):
    """Undo's write-ahead log: called before every change."""

    def before_change(self, path: Path, after: bytes | None, mode: int | None = None) -> None:
        """`path` is about to hold `after` (None: to be deleted) with permission bits `mode` (None: kept)."""
        ...


class Limits(msgspec.Struct, frozen=True):
    """Bounds that configuration sets."""

    command_timeout_ms: int = 120_000
    output_limit_bytes: int = 1_048_576


class Todo(msgspec.Struct, frozen=True, omit_defaults=True):
    """One item of the plan that the model keeps."""

    id: str
    content: str
    status: Literal["pending", "in_progress", "completed", "cancelled"] = "pending"
    priority: str = "medium"


TaskStarter = Callable[[str, str, Callable[[str], None]], Awaitable[ToolResult]]


class ToolContext:
    """What a call is passed: the workspace, file stamps, undo journal, limits."""

    def __init__(
        self,
        workspace: Workspace,
        journal: Journal,
        limits: Limits,
        outputs: Path,
        environment: Mapping[str, str],
    ) -> None:
        self.workspace = workspace
        self.journal = journal
        self.limits = limits
        self.outputs = outputs  # directory for the full text of outputs that were cut; made when first needed
        self.environment = environment  # of child processes; holds no key of ours
        self.files = FileStamps()
        self.approved: Approved | None = None  # for the call that runs; None: nobody was asked about it
        self.todos: list[Todo] = []
        # How a command line becomes an argument vector; a sandbox puts itself in front here.
        self.wrap_command: Callable[[list[str]], list[str]] = list
        self.wants_statuses = False  # of every command in the line's last pipeline
        self.start_task: TaskStarter | None = None  # None: subagents cannot be started
        self.jobs: Jobs | None = None  # background jobs; None: not allowed
        self.sees_images = False  # whether the model that answers does


class Tool(ABC):
    """One tool. Policy, trust, action log, undo, subagents and front ends rely on what it declares here. The
    defaults describe a tool of which nothing is known."""

    spec: ToolSpec
    kind: ClassVar[Kind] = "unknown"
    touches: ClassVar[Literal["", "files", "folders"]] = ""  # of the workspace, and named by its arguments
    keys: ClassVar[tuple[str, ...]] = ()  # the arguments that stand for the call in one line; else all do
    concurrent: ClassVar[bool] = False  # may run beside others that are; any other runs alone, in order
    for_subagents: ClassVar[bool] = True
    declared: bool = True  # in requests; else it is found on demand
    shown_as: ClassVar[str] = ""  # the ACP tool kind, if `kind` and `touches` do not determine it

    @classmethod
    def edits_files(cls) -> bool:
        return cls.kind == "edits" and cls.touches == "files"

    @classmethod
    def looks_up(cls) -> bool:
        """Whether it finds or reads something in the workspace."""
        return cls.kind == "looks" and bool(cls.touches)

    @classmethod
    def argument_is_path(cls) -> bool:
        return bool(cls.touches) and all(key == "path" for key in cls.keys)

    @classmethod
    def argument(cls, args: Arguments) -> str:
        """The key argument, for the one-line summary."""
        if cls.keys:
            return utf8_safe(" ".join(str(args.get(key, "")) for key in cls.keys).strip())
        return ", ".join(f"{key}: {_short(value)}" for key, value in args.items())

    @classmethod
    def paths(cls, args: Arguments) -> list[str]:
        """The files and directories that a call names."""
        path = args.get("path")
        return [path] if isinstance(path, str) and path else []

    @classmethod
    def command(cls, args: Arguments) -> str:
        """The shell line that a call of a tool that `runs` hands to the shell."""
        return str(args.get("command", ""))

    def preview(self, args: Arguments, context: ToolContext) -> Preview:
        """What the call would do, for the approval. Without keys: the name, then all arguments."""
        name = self.spec.function.name
        if self.keys:
            return Preview(f"{name} {self.argument(args)}".rstrip())
        return Preview(f"{name}\n{pretty(args)}" if args else name)

    @abstractmethod
    async def run(self, args: Arguments, context: ToolContext, on_output: OnOutput) -> ToolResult:
        """What goes wrong is a result as well; raises only `Unapproved`."""


def pretty(args: Arguments) -> str:
    """All arguments, indented."""
    return msgspec.json.format(msgspec.json.encode(dict(args)), indent=2).decode("utf-8")


def _short(value: object) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode("utf-8")
    return shortened(text, _LONGEST_VALUE)


def spec(name: str, description: str, properties: dict[str, Any], required: list[str]) -> ToolSpec:
    """A tool's definition for requests."""
    parameters = {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }
    return ToolSpec(function=FunctionSpec(name=name, description=description, parameters=parameters))


Fields = Mapping[str, Any]  # the `meta` of a tool's result


def read_summary(fields: Fields) -> Text:
    first, total = fields["offset"], fields["total_lines"]
    last = first + fields["lines"] - 1
    if total == 0:
        return Text("tool.empty_file")
    if first == 1 and last == total:
        return Text("tool.all_lines", n=last)
    return Text("tool.lines" if total is None else "tool.lines_of", first=first, last=last, total=total)


def list_summary(fields: Fields) -> Text:
    return Text("tool.entries", n=fields["entries"])


def glob_summary(fields: Fields) -> Text:
    return Text("tool.files", n=fields["matches"])


def grep_summary(fields: Fields) -> Text:
    matches = fields["matches"]
    count = Text("tool.match_count", n=f"{matches}+" if fields["truncated"] else matches)
    return Text("tool.matches", count=count, files=Text("tool.files", n=fields["files"]))


_SUMMARIES: dict[str, tuple[Callable[[Fields], Text], tuple[str, ...]]] = {
    "read": (read_summary, ("offset", "lines")),
    "list": (list_summary, ("entries",)),
    "glob": (glob_summary, ("matches",)),
    "grep": (grep_summary, ("matches", "files")),
}


def recorded_summary(tool: str, fields: Fields) -> Text | None:
    """None: unknown, or the record has other fields, as of an image."""
    tool = "list" if tool == "read" and "entries" in fields else tool  # of a folder
    summary, needed = _SUMMARIES.get(tool, (None, ()))
    if summary is None or not all(type(fields.get(name)) is int for name in needed):
        return None
    total = fields.get("total_lines")
    return summary({"truncated": False, **fields, "total_lines": total if type(total) is int else None})
