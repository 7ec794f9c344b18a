"""A file that changed under the model's hands: it is told what changed, once, and can go on from there."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit import ScriptedServer
from kit.driving import Project, drive

READ = {"name": "read", "arguments": {"path": "a.py"}}
CHANGE = {"name": "bash", "arguments": {"command": "printf 'x\\nTWO\\nx\\nx\\n' > a.py"}}
CALLS = [
    {
        "name": "edit",
        "arguments": {"path": "a.py", "old_string": "x", "new_string": "y", "replace_all": True},
    },
    {"name": "write", "arguments": {"path": "a.py", "content": "y\nTWO\ny\ny\n"}},
]


@pytest.mark.parametrize("call", CALLS, ids=["edit", "write"])
def test_what_changed_is_told_once(tmp_path: Path, call: dict[str, object]) -> None:
    project = Project(tmp_path)
    project.write("a.py", "x\ntwo\nx\n")
    script = [{"calls": [one]} for one in (READ, CHANGE, call, call)]
    with ScriptedServer([*script, {"text": "done"}]) as server:
        drive(project, server.url, ["go"], mode="yolo", preset="yolo")
        *_, first, second = (m["content"] for m in server.chats[-1]["messages"] if m["role"] == "tool")
    assert "a.py changed on disk since you last read it; nothing was written." in first
    assert "\n+TWO\n" in first
    assert second.startswith("updated a.py")
    assert (project.cwd / "a.py").read_text(encoding="utf-8") == "y\nTWO\ny\ny\n"
