"""A small project and a scripted small model that is spoken to in the guided dialect."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from coder.engine.sdk import TurnResult, create_agent_session
from coder.models.make import make_model
from coder.protocol.events import AnyEvent
from kit import ScriptedServer

CALC = "def add(a, b):\n    return a - b\n"
TESTS = """\
import unittest

from calc import add


class AddTest(unittest.TestCase):
    def test_add(self):
        self.assertEqual(add(1, 2), 3)
"""
FIXED = CALC.replace("-", "+")


def small_project(root: Path) -> Path:
    """A directory with the faulty program alone."""
    place = root / "work"
    place.mkdir()
    (place / "calc.py").write_text(CALC)
    return place


def said(*actions: dict[str, Any] | str) -> list[dict[str, Any]]:
    return [{"text": one if isinstance(one, str) else json.dumps(one)} for one in actions]


def turn(
    directory: Path,
    server: ScriptedServer,
    ask: str,
    *,
    mode: Any = "yolo",
    config: dict[str, Any] | None = None,
    on_event: Callable[[AnyEvent], None] | None = None,
) -> TurnResult:
    settings = directory.parent / "settings.json"
    settings.write_text(json.dumps(config or {}))
    environ = {**os.environ, "CODER_HOME": str(directory.parent / "home")}

    async def run() -> TurnResult:
        model = make_model(server.url, dialect="guided", max_attempts=1)
        session = create_agent_session(
            cwd=directory, mode=mode, model=model, config_file=settings, environ=environ, on_event=on_event
        )
        async with session:
            return await session.run_turn(ask)

    return asyncio.run(run())


def block(text: str) -> str:
    return f"Here it is:\n```python\n{text}```\nIt is right now."


def shown(chat: dict[str, Any]) -> str:
    return "\n".join(message["content"] for message in chat["messages"])
