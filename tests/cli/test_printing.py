"""What commands print of files, models and other people's records controls no terminal."""

from __future__ import annotations

import ast
import fcntl
import json
from pathlib import Path
from typing import Any

import pytest

from kit.driving import Project

SOURCE = Path(__file__).parents[2] / "src" / "coder"
COMMANDS = [*SOURCE.glob("cli/*.py"), *SOURCE.glob("ui/*.py"), *SOURCE.glob("addons/**/*.py")]
HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202eevil\u2066\x85\u2028\r"
RAW = set(HOSTILE) - set("[]0;owned2J31mevil")
# Who prints without it, and why. The list may get shorter, not longer.
ALLOWED = {
    ("streams", "print"): "the function itself",
    ("__init__", "print"): "the version, before anything is loaded",
    ("local_command", "print"): "the bar of a download, whose rows are escaped before",
    ("table", "sys.stdout.write"): "draws its table over; its rows are escaped before",
    ("search", "sys.stderr.write"): "a row of our own that replaces itself",
}


def test_commands_print_by_one_function() -> None:
    found = set()
    for file in COMMANDS:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            name = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            if name == "print" or (name.startswith(("sys.stdout.", "sys.stderr.")) and "write" in name):
                found.add((file.stem, name))
    assert found == set(ALLOWED)


def foreign_batch(directory: Path, *, succeeded: bool) -> Path:
    """As somebody else could have made it."""
    directory.mkdir()
    status = "ok" if succeeded else HOSTILE
    rows: list[dict[str, Any]] = [
        {"id": f"{HOSTILE}\n{number}", "attempt": 1, "status": status, "error": HOSTILE, "model": HOSTILE}
        for number in range(2)
    ]
    rows.append({**rows[0], "id": f"{HOSTILE}only in {directory.name}"})
    text = "".join(json.dumps(row) + "\n" for row in rows)
    deep = "[" * 100_000 + "]" * 100_000
    text += f'{{"id": "deep", "attempt": 1, "status": "ok", "verification": {{"a": {deep}}}}}\n'
    (directory / "results.jsonl").write_text(text, encoding="utf-8")
    running = [{"id": HOSTILE, "attempt": 1, "seconds": 1.0}]
    progress = {"total": 3, "done": 2, "running": running, "pid": 1}
    (directory / "status.json").write_text(json.dumps(progress), encoding="utf-8")
    return directory


@pytest.mark.parametrize("words", [["compare"], ["compare", "--json"], ["batch", "status"]])
def test_a_foreign_batch_directory(project: Project, words: list[str]) -> None:
    one = foreign_batch(project.cwd / "one", succeeded=False)
    two = foreign_batch(project.cwd / "two", succeeded=True)
    with (one / "batch.lock").open("w") as lock:  # as if it ran
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = project.coder(*words, *map(str, [one] if words[0] == "batch" else [one, two]))
    printed = done.stdout + done.stderr
    assert done.returncode == 0, printed
    assert not RAW & set(printed), printed
    if words == ["compare"]:
        assert "␛]0;owned" in printed
        assert not [line for line in printed.splitlines() if line.strip() in ("0", "1")], (
            "an id made two rows"
        )
    if "--json" in words:
        assert json.loads(done.stdout)["only_first"] == [f"{HOSTILE}only in one"], "it is the same text"


def test_a_foreign_status_that_no_batch_has(project: Project) -> None:
    directory = foreign_batch(project.cwd / "one", succeeded=False)
    progress = {"total": 1, "stopped": HOSTILE, "ended": True}
    (directory / "status.json").write_text(json.dumps(progress), encoding="utf-8")
    done = project.coder("batch", "status", str(directory))
    assert done.returncode == 2
    assert not RAW & set(done.stdout + done.stderr)
