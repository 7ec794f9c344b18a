"""A new tool is one file, its texts and one line.

In a copy of the source two are added that way, one that looks and one that edits; then the real process shows
that policy, trust, record, action log, undo, subagents and ACP know what they are.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from acp_kit import Editor, converse

import coder
from kit import ScriptedServer
from kit.calls import call
from kit.driving import Project

COUNT_LINES = '''"""`count_lines`: how many lines a file has."""

from __future__ import annotations

from coder.texts import Text
from coder.tools.tool import Arguments, OnOutput, Tool, ToolContext, ToolResult, spec, summed_up
from coder.tools.paths import locate


class CountLines(Tool):
    """Counts."""

    kind = "looks"
    touches = "files"
    keys = ("path",)
    concurrent = True
    spec = spec("count_lines", "Count the lines of a file.", {"path": {"type": "string"}}, ["path"])

    async def run(self, args: Arguments, context: ToolContext, on_output: OnOutput) -> ToolResult:
        count = locate(context, args["path"]).read_bytes().count(b"\\n")
        return summed_up(Text("tool.counted", count=count), f"{count} lines")
'''
ADD_LINE = '''"""`add_line`: one line more at the end of a file."""

from __future__ import annotations

from coder.tools.tool import Arguments, OnOutput, Tool, ToolContext, ToolResult, spec
from coder.tools.changes import Change, apply, current, single_result
from coder.tools.paths import locate


class AddLine(Tool):
    """Appends."""

    kind = "edits"
    touches = "files"
    keys = ("path",)
    spec = spec(
        "add_line",
        "Add a line to a file.",
        {"path": {"type": "string"}, "line": {"type": "string"}},
        ["path", "line"],
    )

    async def run(self, args: Arguments, context: ToolContext, on_output: OnOutput) -> ToolResult:
        path = locate(context, args["path"], write=True)
        before = current(context, path)
        change = Change(path, before, (before or b"") + args["line"].encode() + b"\\n")
        apply([change], context, all_known=True)
        return single_result(change, context)
'''
TEXTS = {
    "en": {"about.count_lines": "count", "about.add_line": "add a line", "counted": "{count} lines"},
    "zh": {"about.count_lines": "计数", "about.add_line": "添加一行", "counted": "{count} 行"},
}
GRANTS = json.dumps({"permission": {"tools": {"count_lines": "allow", "add_line": "allow"}}})
LEDGER = """
import sys
from pathlib import Path
from coder.context.action_log import Action log
from coder.history.log import read_log

action log = Ledger()
for event in read_log(Path(sys.argv[1])):
    ledger.take(event)
print([sorted(ledger.read), sorted(ledger.changed)])
"""


def after(path: Path, mark: str, line: str) -> None:
    """Put one line behind the one that holds `mark`."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    (at,) = (n for n, text in enumerate(lines) if mark in text)
    path.write_text("".join([*lines[: at + 1], line + "\n", *lines[at + 1 :]]), encoding="utf-8")


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """The directory to import `coder` from: its source with the two tools, and nothing else changed."""
    source = tmp_path / "copied" / "coder"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(str(coder.__file__)).parent, source, ignore=ignored)
    for module, name, text in (("count_lines", "CountLines", COUNT_LINES), ("add_line", "AddLine", ADD_LINE)):
        (source / "tools" / f"{module}.py").write_text(text, encoding="utf-8")
        after(source / "tools" / "registry.py", "tools.write:Write", f'    "coder.tools.{module}:{name}",')
    for lang, texts in TEXTS.items():
        for key, text in texts.items():
            after(source / "texts" / lang / "tool.py", '"tool.about.bash"', f'    "tool.{key}": {text!r},')
    return source.parent


@pytest.mark.thorough
def test_a_new_tool_is_one_file_its_texts_and_one_line(project: Project, copied: Path) -> None:
    project.write("a.txt", "one\ntwo\n")
    project.write(".coder/config.json", GRANTS)
    here = {"PYTHONPATH": str(copied)}
    place = str(project.cwd / "a.txt")

    async def scenario(ed: Editor) -> None:
        await ed.prompt(await ed.new(), "count, and add a line")
        # The project's own `allow` waits for trust where the preset asks: of what edits, not of what looks.
        (asked,) = ed.client.asked
        assert "asks before add_line" in str(asked["call"])
        counted, added, _ = ed.client.calls().values()
        assert (counted["kind"], counted["title"]) == ("read", "count_lines a.txt")
        assert counted["locations"] == [{"path": place}]
        assert counted["rawOutput"]["ok"]
        assert (added["kind"], added["title"]) == ("edit", "add_line a.txt")
        assert added["content"][0]["newText"] == "one\ntwo\nthree\n"

    calls = [call("count_lines", path="a.txt"), call("add_line", path="a.txt", line="three")]
    explore = call("task", agent="explore", objective="look")
    answers = [{"text": "seen"}, {"text": "done"}]
    server = converse(project, [{"calls": [*calls, explore]}, *answers], scenario, PYTHONPATH=str(copied))
    told = [m["content"] for m in server.chats[2]["messages"] if m["role"] == "tool"]
    assert told[0] == "2 lines"
    assert (project.cwd / "a.txt").read_text(encoding="utf-8") == "one\ntwo\nthree\n"
    offered = [tool["function"]["name"] for tool in server.chats[1]["tools"]]
    assert "count_lines" in offered
    assert "add_line" not in offered

    (end,) = project.of_type("turn_end")
    assert end["meta"]["verification"]["changed_since"] == ["a.txt"]
    (log,) = project.logs()
    action_log = subprocess.run(
        [sys.executable, "-c", LEDGER, str(log)],
        env=project.environ(**here),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert action_log.stdout.strip() == "[['a.txt'], ['a.txt']]"
    undone = project.coder("--continue", "--once", "/undo", url=server.url, env=here)
    assert undone.returncode == 0, undone.stderr
    assert (project.cwd / "a.txt").read_text(encoding="utf-8") == "one\ntwo\n"


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("flags", "allowed"),
    [(("--mode", "plan"), False), (("--permissions", "strict"), False), (("--mode", "auto-edit"), True)],
)
def test_presets_and_modes_know_the_new_tools(
    project: Project, copied: Path, flags: tuple[str, str], allowed: bool
) -> None:
    project.write("a.txt", "one\ntwo\n")
    project.write(".coder/config.json", GRANTS)
    calls = [call("count_lines", path="a.txt"), call("add_line", path="a.txt", line="three")]
    with ScriptedServer([{"calls": calls}, {"text": "done"}]) as server:
        done = project.coder(*flags, "--once", "go", url=server.url, env={"PYTHONPATH": str(copied)})
    assert done.returncode == 0, done.stderr
    assert "permission.tools.add_line" in done.stderr  # waits for trust
    assert "permission.tools.count_lines" not in done.stderr  # nothing that every preset would not give
    counted, added = (event["meta"] for event in project.of_type("observation"))
    assert (counted["ok"], counted["denied"]) == (True, False)
    assert (added["ok"], added["denied"]) == (allowed, not allowed)
