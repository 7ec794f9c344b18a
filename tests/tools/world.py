"""A small world for the tools: a workspace over a directory, and a journal that keeps what it was told."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from coder.tools.tool import Limits, OutsideWorkspace, Tool, ToolContext, ToolResult


class Directory:
    """A workspace that contains what lies below `root`, links followed."""

    closed = ()

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()

    def resolve(self, path: str, *, write: bool = False) -> Path:
        target = (self.root / path).resolve()
        if target != self.root and self.root not in target.parents:
            raise OutsideWorkspace(f"{path} is outside the workspace")
        return target

    def show(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix() if self.root in (path, *path.parents) else str(path)


class Recorder:
    """A journal that keeps what it was told, and what each file held at that moment."""

    def __init__(self) -> None:
        self.told: list[tuple[Path, bytes | None, int | None]] = []
        self.held: dict[Path, bytes | None] = {}

    def before_change(self, path: Path, after: bytes | None, mode: int | None = None) -> None:
        self.told.append((path, after, mode))
        self.held.setdefault(path, path.read_bytes() if path.exists() else None)

    def undo(self) -> None:
        for path, content in self.held.items():
            if content is None:
                path.unlink(missing_ok=True)
            else:
                path.write_bytes(content)


class World:
    """A context with a directory of its own, and a way to call a tool."""

    def __init__(self, root: Path, environment: dict[str, str] | None = None) -> None:
        self.root = root.resolve()
        self.journal = Recorder()
        self.context = ToolContext(
            workspace=Directory(root),
            journal=self.journal,
            limits=Limits(),
            outputs=root / ".outputs",
            environment=dict(os.environ) if environment is None else environment,
        )

    def call(self, tool: Tool, **args: Any) -> ToolResult:
        result = asyncio.run(tool.run(args, self.context, lambda text: None))
        checked(result)
        return result

    def put(self, path: str, content: str | bytes) -> Path:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
        return target

    def leftovers(self) -> list[str]:
        return [name for _, _, names in os.walk(self.root) for name in names if name.startswith(".coder-")]


def checked(result: ToolResult) -> None:
    """What holds of every result."""
    for text in (result.for_model, result.summary, result.detail, repr(result.meta)):
        text.encode("utf-8")
    assert result.ok != result.for_model.startswith(("error: ", "denied: "))
    assert result.denied == result.for_model.startswith("denied: ")
    assert result.summary
