"""`skill`: written procedures that the model takes up when a task calls for one.

Reading only, so it never waits on a person; a skill that is missing or broken is a sentence with what is
there instead, and the work goes on without it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from coder.texts import Text
from coder.tools.tool import Arguments, OnOutput, Tool, ToolContext, ToolResult, failed, spec, summed_up

DESCRIPTION = (
    "Skills are written procedures for particular kinds of task. `list` names them; `load` gives one's "
    "instructions and its files. Load a skill before you start whenever its description fits the task; "
    "the person need not ask for it. If one cannot be loaded, go on without it."
)


class LoadedSkill(msgspec.Struct, frozen=True):
    """A skill's instructions and what lies beside them. `more_files`: how many are not listed."""

    name: str
    file: Path
    body: str
    files: Sequence[Path] = ()
    more_files: int = 0
    cut: bool = False


class NoSkill(Exception):
    """There is none of that name, or it cannot be read; the text says what would work instead."""


class SkillSource(Protocol):
    """Where skills come from."""

    def listing(self) -> tuple[str, int]:
        """All of them in lines for the model, and how many."""
        ...

    def load(self, name: str) -> LoadedSkill:
        """Raises `NoSkill`."""
        ...


class Skill(Tool):
    """List the skills there are, or load one."""

    kind = "looks"
    keys = ("action", "name")
    spec = spec(
        "skill",
        DESCRIPTION,
        {
            "action": {"type": "string", "enum": ["list", "load"]},
            "name": {"type": "string", "description": "Which skill to load."},
        },
        ["action"],
    )
    concurrent = True

    def __init__(self, source: SkillSource) -> None:
        self._source = source

    async def run(self, args: Arguments, context: ToolContext, on_output: OnOutput) -> ToolResult:
        if args["action"] == "list":
            text, count = self._source.listing()
            return summed_up(Text("tool.skills", n=count), text, meta={"count": count})
        name = str(args.get("name") or "").strip()
        if not name:
            text, _ = self._source.listing()
            return failed(f"load needs a name. {text}", Text("tool.skill_unnamed"))
        try:
            skill = self._source.load(name)
        except NoSkill as reason:
            return failed(str(reason), Text("tool.no_skill", name=name), name=name)
        lines = skill.body.count("\n") + 1
        return summed_up(
            Text("tool.skill_loaded", name=skill.name, lines=lines),
            _for_model(skill, context),
            meta={"name": skill.name, "path": context.workspace.show(skill.file), "files": len(skill.files)},
        )


def _for_model(skill: LoadedSkill, context: ToolContext) -> str:
    show = context.workspace.show
    lines = [f"Skill {skill.name}, from {show(skill.file)}:", "", skill.body.strip() or "(it has no text)"]
    if skill.cut:
        lines += ["", f"[cut here; the rest is in {show(skill.file)}, to be paged with read]"]
    if skill.files:
        lines += ["", f"Its files (paths in it are relative to {show(skill.file.parent)}; use read on them):"]
        lines += [f"- {show(path)}" for path in skill.files]
    if skill.more_files:
        lines.append(f"- and {skill.more_files} more")
    return "\n".join(lines)
