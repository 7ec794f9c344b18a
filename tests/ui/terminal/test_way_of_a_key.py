"""The keystroke of docs/code.md is traced (the other runs: tests/docs/test_ways.py)."""

from __future__ import annotations

from typing import Any

import pytest
from pty_kit import Terminal

from kit import ScriptedServer
from kit.driving import Project
from kit.ways import follow, traced


@pytest.mark.thorough
def test_a_keystroke(project: Project) -> None:
    environment: dict[str, Any] = {**traced(project)}
    with ScriptedServer([]) as server, Terminal(project, server.url, **environment) as terminal:
        terminal.until_idle()
        terminal.type("h")
        terminal.until("> h")
    follow(project, "A keystroke: from the terminal's bytes to a row")
