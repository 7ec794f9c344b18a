"""A project with mode files, and a keeper over it whose files and commands a test can watch."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine
from pathlib import Path
from typing import Any, TypeVar

from coder.extend.modes.discover import Catalogue, ModeRoots
from coder.extend.modes.mode_state import ModeKeeper
from coder.extend.modes.render import NotThere, Ran, Refused
from coder.protocol.modes import (
    ModeDefinition,
    ModeStateChanged,
    ModeVariableInput,
    PersistentModeTarget,
    SetModeState,
    SetValue,
)

T = TypeVar("T")

SEED_EXAMPLE = """\
---
kind: persistent
description: "代码评审辅助模式"
display_name: "Design Review"
variables:
  - name: role
    required: true            # 必须有值，否则模式无法启用
    enum: [author, reviewer]
  - name: region
    default: "emea"
    mode_scoped: true
  - name: ticket
    shortcuts:
      - "-t"
      - "ticket="            # 作为命令行粘贴时的键值别名
    pattern: "^[A-Z]+-\\d+$"
default_enabled: true
---

- 总是先阅读需求描述
- 按照 {{role}} 视角输出建议
"""


def done(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


class Shop:
    """`root/project` is the working directory, `root/home` holds `.coder` and `.codex`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.cwd = root / "project"
        self.home = root / "home"
        self.cwd.mkdir(parents=True, exist_ok=True)
        self.home.mkdir(exist_ok=True)
        self.files: dict[str, str] = {}
        self.outputs: dict[str, str] = {}
        self.failing: dict[str, str] = {}
        self.ran: list[str] = []

    def mode(self, name: str, text: str, at: str = "project/.coder/modes") -> Path:
        path = self.root / at / f"{name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def persistent(self, name: str, body: str, header: str = "") -> Path:
        return self.mode(name, f"---\nkind: persistent\n{header}---\n{body}\n")

    def instant(self, name: str, body: str, header: str = "") -> Path:
        return self.mode(name, f"---\nkind: instant\n{header}---\n{body}\n")

    def catalogue(self, built_in: Collection[str] = (), cwd: Path | None = None) -> Catalogue:
        where = ModeRoots(cwd=cwd or self.cwd, homes=[self.home / ".coder", self.home / ".codex"])
        return Catalogue(where, built_in)

    def definitions(self, built_in: Collection[str] = (), cwd: Path | None = None) -> list[ModeDefinition]:
        return self.catalogue(built_in, cwd).definitions

    def one(self, name: str = "m") -> ModeDefinition:
        mode = self.catalogue().find(name)
        assert mode is not None
        return mode.definition

    def keeper(self, base: str = "", built_in: Collection[str] = ()) -> ModeKeeper:
        return ModeKeeper(self.catalogue(built_in), self._read, self._run, base)

    def _read(self, path: str, most: int) -> str:
        if path.startswith("/"):
            raise Refused("it is outside the workspace")
        if path not in self.files:
            raise NotThere
        return self.files[path][:most]

    async def _run(self, definition: ModeDefinition, command: str) -> Ran:
        self.ran.append(command)
        if command.startswith("rm"):
            raise Refused("the policy denies it")
        return Ran(self.outputs.get(command, ""), self.failing.get(command, ""))


def target(mode_id: str, **values: str | None) -> PersistentModeTarget:
    """None stands for `use_default`."""
    inputs: dict[str, ModeVariableInput] = {
        name: "use_default" if value is None else SetValue(value) for name, value in values.items()
    }
    return PersistentModeTarget(mode_id, inputs)


def switch(
    keeper: ModeKeeper, *targets: PersistentModeTarget | str, rev: int | None = None
) -> ModeStateChanged:
    modes = [one if isinstance(one, PersistentModeTarget) else target(one) for one in targets]
    return done(keeper.set_state(SetModeState(modes, rev)))
