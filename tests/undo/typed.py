"""`/undo` and its like as typed, after turns of a scripted model."""

from __future__ import annotations

from typing import Any

from coder.protocol.events import CommandDone
from kit import ScriptedServer
from kit.driving import Driver, Project, drive, of


def played(project: Project, turns: list[list[dict[str, Any]]], *inputs: str, **options: Any) -> Driver:
    """One turn for each list of calls, then the further inputs."""
    script: list[Any] = []
    for each in turns:
        script += [{"calls": [one]} for one in each] + [{"text": "done"}]
    with ScriptedServer([*script, {"text": "told"}]) as server:
        driver = drive(project, server.url, [*["go"] * len(turns), *inputs], mode="yolo", **options)
        driver.chats = server.chats
    return driver


def said(driver: Driver) -> list[str]:
    return [done.text for done in of(driver.seen, CommandDone)]
