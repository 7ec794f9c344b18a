"""`save_memory`: one fact, kept for this and all later sessions.

The result itself tells the model that the fact holds from now on: what was sent before stays as it was, so
that the provider's cache holds, and the next session has the fact in its first message."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

import msgspec

from coder.texts import CoderError, Text
from coder.tools import tool as base
from coder.tools.tool import Arguments, OnOutput, Preview, Tool, ToolContext, ToolResult

if TYPE_CHECKING:
    from coder.tools.changes import Change

Scope = Literal["project", "home"]

DESCRIPTION = (
    "Keep one lasting fact for later sessions: a convention, a decision, a preference, something the person "
    "asked to remember. One plain sentence. Not for the progress of this task, nor for secrets."
)


class Saved(msgspec.Struct, frozen=True):
    """The fact as in the file, and the change that adds it; None if it is there already."""

    path: Path
    fact: str
    change: Change | None

    @property
    def added(self) -> bool:
        return self.change is not None


class NotSaved(CoderError):
    """Why the fact was not kept, and what would work. `refused`: it could be, but may not."""

    def __init__(self, phrase: Text, *, refused: bool = False) -> None:
        super().__init__(phrase)
        self.refused = refused


class MemoryFile(Protocol):
    """Where facts are kept."""

    def planned(self, fact: str, scope: Scope) -> Saved:
        """What `save` would do. Raises `NotSaved`."""
        ...

    def save(self, fact: str, scope: Scope, before: Callable[[Change], None] | None = None) -> Saved:
        """`before` is called with the change; what it raises keeps the file as it is. Raises `NotSaved`."""
        ...


class SaveMemory(Tool):
    """Append a fact to the memory file."""

    kind = "edits"
    keys = ("fact",)
    for_subagents = False
    spec = base.spec(
        "save_memory",
        DESCRIPTION,
        {
            "fact": {"type": "string", "description": "One self-contained sentence."},
            "scope": {
                "type": "string",
                "enum": ["project", "home"],
                "description": "project (default): about this project. home: about the person, everywhere.",
            },
        },
        ["fact"],
    )

    def __init__(self, memory: MemoryFile) -> None:
        self._memory = memory

    def preview(self, args: Arguments, context: ToolContext) -> Preview:
        scope = _scope(args)
        try:
            planned = self._memory.planned(str(args["fact"]), scope)
        except NotSaved as reason:
            return Preview(str(reason), fault=_not_saved(reason, scope))
        changes = () if planned.change is None else (planned.change,)
        path = context.workspace.show(planned.path)
        return Preview(f"{scope}: {planned.fact}\n({path})", changes=changes)

    async def run(self, args: Arguments, context: ToolContext, on_output: OnOutput) -> ToolResult:
        from coder.tools.changes import require_approved

        def before(change: Change) -> None:
            require_approved([change], context)
            context.journal.before_change(change.path, change.after)

        scope = _scope(args)
        try:
            saved = self._memory.save(str(args["fact"]), scope, before)
        except NotSaved as reason:
            return _not_saved(reason, scope)
        path = context.workspace.show(saved.path)
        meta = {"path": path, "scope": scope, "fact": saved.fact, "added": saved.added}
        if not saved.added:
            return base.summed_up(Text("tool.known"), f"Already in {path}: {saved.fact}", meta=meta)
        return base.summed_up(
            Text("tool.remembered", path=path),
            f"Saved to {path}. It holds from now on, here and in later sessions: {saved.fact}",
            meta=meta,
        )


def _not_saved(reason: NotSaved, scope: Scope) -> ToolResult:
    answer = base.denied if reason.refused else base.failed
    return answer(str(reason), reason.phrase, scope=scope)


def _scope(args: Arguments) -> Scope:
    return "home" if args.get("scope") == "home" else "project"
