"""`/undo` and its like as typed, after turns of a scripted model."""

from __future__ import annotations

from typing import Any

from coder.protocol.events import CommandDone
from kit.driving import Driver, Project, of, play


def played(project: Project, turns: list[list[dict[str, Any]]], *inputs: str, **options: Any) -> Driver:
    """One turn for each list of calls, then the further inputs."""
    script: list[Any] = []
    for each in turns:
        script += [{"calls": [one]} for one in each] + [{"text": "done"}]
    script.append({"text": "told"})
    return play(project, script, [*["go"] * len(turns), *inputs], mode="yolo", **options)


def said(driver: Driver) -> list[str]:
    return [done.text for done in of(driver.seen, CommandDone)]
