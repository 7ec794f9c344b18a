"""A question about files shows every operation of the planned change, in every front end."""

from __future__ import annotations

import asyncio
import io
import json
import tempfile
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from world import World

from coder.base.text import quoted_name
from coder.protocol.events import ApprovalRequested
from coder.texts import Catalog
from coder.tools.function import tool
from coder.tools.patch import Patch
from coder.tools.tool import Preview
from coder.ui.acp.updates import Updates
from coder.ui.terminal.ask.question_rows import approval_lines
from coder.ui.terminal.render.plain import PlainRenderer
from coder.ui.terminal.render.theme import Theme
from coder.ui.terminal.render.width import plain

TEXTS = Catalog("en")
THERE = {
    "text.py": b"one\ntwo\nthree\n",
    "empty.txt": b"",
    "binary.bin": b"\0\1\2",
    'dir/quo"te\n.py': b"one\n",
    "other.py": b"one\n",
}
NAMES = [*THERE, "new.py", "dir/tab\there"]
Tree = dict[str, tuple[bytes, int]]

HUNK = "@@ -1 +1,2 @@\n-one\n+1\n+1.5\n"
SECTIONS = {
    "add": "--- /dev/null\n+++ {b}\n@@ -0,0 +1 @@\n+line\n",
    "add_empty": "diff --git {a} {b}\nnew file mode 100{mode}\n",
    "delete": "diff --git {a} {b}\ndeleted file mode 100644\n",
    "update": "diff --git {a} {b}\n--- {a}\n+++ {b}\n" + HUNK,
    "mode": "diff --git {a} {b}\nold mode 100644\nnew mode 100{mode}\n",
    "move": "diff --git {a} {to}\nrename from {from}\nrename to {bare}\n",
    "move_update": "diff --git {a} {to}\nrename from {from}\nrename to {bare}\n--- {a}\n+++ {to}\n" + HUNK,
}


@st.composite
def patches(draw: st.DrawFn) -> str:
    there, sections = set(THERE), []
    for _ in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(list(SECTIONS)))
        missing = sorted(set(NAMES) - there)
        if not missing and kind.startswith(("add", "move")):
            continue
        fitting = sorted(
            name for name in there if kind[-6:] != "update" or THERE.get(name, b"")[:3] == b"one"
        )
        if not (missing if kind.startswith("add") else fitting):
            continue
        one = draw(st.sampled_from(missing if kind.startswith("add") else fitting))
        other = draw(st.sampled_from(missing)) if kind.startswith("move") else one
        there = (there - {one}) | ({other} if kind != "delete" else set())
        values = {"a": f"a/{one}", "b": f"b/{one}", "to": f"b/{other}", "from": one, "bare": other}
        shown = {key: quoted_name(value) for key, value in values.items()}
        sections.append(SECTIONS[kind].format(mode=draw(st.sampled_from(["755", "644"])), **shown))
    return "".join(sections)


def tree(root: Path) -> Tree:
    found = (path for path in root.rglob("*") if path.is_file())
    return {str(path.relative_to(root)): (path.read_bytes(), path.stat().st_mode & 0o777) for path in found}


def question(preview: Preview) -> ApprovalRequested:
    changes = list(preview.operations)
    return ApprovalRequested("1", "c", "patch", preview.subject, preview.kind, [], False, [], changes)


def in_terminal(event: ApprovalRequested) -> str:
    return "\n".join(plain(row) for row in approval_lines(event, TEXTS, keys=True, heads=True))


def in_plain_lines(event: ApprovalRequested) -> str:
    out = io.StringIO()
    PlainRenderer(out, None, TEXTS, Theme("none")).handle(event)
    return out.getvalue()


def in_json(event: ApprovalRequested) -> str:
    """What `--input stream-json` and the SDK hand on."""
    changes = json.loads(msgspec.json.encode(event))["changes"]
    said = {"created": "create", "updated": "update", "deleted": "delete", "moved": "move"}
    lines = []
    for one in changes:
        source = f"{quoted_name(one['moved_from'])} to " if "moved_from" in one else ""
        mode = f", mode {one['mode']}" if "mode" in one else ""
        lines.append(f"{said[one['operation']]} {source}{quoted_name(one['path'])} {mode}")
    return "\n".join([*lines, event.subject if isinstance(event.subject, str) else ""])


class _Outbox:
    def tell(self, *_told: Any) -> None:
        pass


def in_acp(event: ApprovalRequested) -> str:
    updates = Updates(_Outbox(), "s", Path("/w"), TEXTS)  # type: ignore[arg-type]  # nothing else is used
    content = updates.permission(event)["content"]
    diffs = [f"{block['path']} {block['newText']}" for block in content if block["type"] == "diff"]
    return "\n".join([*(b["content"]["text"] for b in content if b["type"] == "content"), *diffs])


def check_shown(text: str, before: Tree, after: Tree) -> None:
    """Every file that the change really touched is named, with what becomes of it."""
    lines = text.split("\n")
    for path in before.keys() | after.keys():
        if before.get(path) == after.get(path):
            continue
        name = quoted_name(path)
        assert name.strip('"') in text or path in text, (path, text)
        told = [line for line in lines if name in line]
        if path not in after:
            assert any("delete " in line or f"move {name} to" in line for line in told), (path, lines)
        elif path in before and before[path][1] != after[path][1]:
            assert any(f", mode {after[path][1]:03o}" in line or "move " in line for line in told), lines


@settings(deadline=None)
@given(patches())
def test_no_operation_of_a_patch_is_missing_from_the_question(patch: str) -> None:
    with tempfile.TemporaryDirectory() as directory:
        world = World(Path(directory))
        for name, content in THERE.items():
            world.put(name, content).chmod(0o644)
        preview = Patch().preview({"patch": patch}, world.context)
        assume(preview.fault is None)
        before = tree(world.root)
        assert world.call(Patch(), patch=patch).ok
        after = tree(world.root)
        assert bool(preview.operations) == (before != after)
        for shown in (in_terminal, in_plain_lines, in_json, in_acp):
            check_shown(shown(question(preview)), before, after)


def test_all_arguments_of_a_tool_without_keys_are_shown(tmp_path: Path) -> None:
    @tool
    def send(to: str, text: str) -> str:
        """Send a message."""
        return ""

    args = {"to": "me", "text": "x" * 300 + "the end"}
    assert "the end" in send.preview(args, World(tmp_path).context).subject
    assert asyncio.iscoroutinefunction(send.run)
