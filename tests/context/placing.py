"""A repository with a workspace in it, and homes, for the tests of skills and memory."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from coder.extend.skills import Skills
from coder.policy.workspace import DirectoryWorkspace
from coder.tools.tool import Limits, OutsideWorkspace, Tool, ToolContext, ToolResult


class Untold:
    """A journal that only remembers which paths it was told of."""

    def __init__(self) -> None:
        self.told: list[tuple[Path, bytes | None, bool]] = []

    def before_change(self, path: Path, after: bytes | None, mode: int | None = None) -> None:
        self.told.append((path, after, path.exists()))


class Place:
    """`root/repo` is a repository, `root/repo/app` the workspace, `root/home` the person's home."""

    def __init__(self, root: Path) -> None:
        self.root = Path(root).resolve()
        self.repo = self.root / "repo"
        self.work = self.repo / "app"
        self.home = self.root / "home"
        self.coder_home = self.home / ".coder"
        self.work.mkdir(parents=True)
        self.home.mkdir()
        (self.repo / ".git").mkdir()
        self.journal = Untold()

    def write(self, path: Path, text: str) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def skill(
        self, directory: Path, name: str, description: str = "does things", body: str = "Do it."
    ) -> Path:
        head = f"---\nname: {name}\ndescription: {description}\n---\n"
        return self.write(directory / name / "SKILL.md", head + body)

    def skills(self, *paths: str) -> Skills:
        return Skills(self.work, self.coder_home, self.home, paths)

    def described(self, name: str) -> str:
        return next(skill.description for skill in self.skills().all() if skill.name == name)

    def workspace(self, skills: Skills) -> DirectoryWorkspace:
        return DirectoryWorkspace(self.work, skills.readable_directories())

    def readable(self, skills: Skills, path: Path) -> bool:
        try:
            self.workspace(skills).resolve(str(path))
        except OutsideWorkspace:
            return False
        return True

    def call(self, tool: Tool, workspace: DirectoryWorkspace | None = None, **args: Any) -> ToolResult:
        context = ToolContext(
            workspace=workspace or DirectoryWorkspace(self.work),
            journal=self.journal,
            limits=Limits(),
            outputs=self.root / "outputs",
            environment={},
        )
        result = asyncio.run(tool.run(args, context, lambda text: None))
        result.for_model.encode("utf-8")
        assert result.ok != result.for_model.startswith(("error: ", "denied: "))
        return result
