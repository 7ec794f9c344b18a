"""`coder modes`, `coder modes import` and `coder schema` as a person runs them."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec
import pytest
from modeshop import SEED_EXAMPLE

from coder.extend.modes.importing import as_mode
from coder.protocol.events import AnyEvent
from coder.protocol.ops import AnyOp
from kit.driving import Project


def test_modes_are_listed_with_scope_kind_state_and_errors(project: Project) -> None:
    project.write(".coder/modes/a/review.md", SEED_EXAMPLE)
    project.write(".codex/modes/a/review.md", "shadowed")
    project.write(".coder/modes/status.md", "Mine.")
    project.write(".coder/modes/bad.md", "---\nkind: nope\n---\n")
    project.write(".codex/prompts/hi.md", "Say hi.")
    done = project.coder("modes")
    assert done.returncode == 0
    lines = [re.split(r" {2,}", line) for line in done.stdout.splitlines()]
    assert lines == [
        ["/a:review", "(project:project)", "persistent", "on by default", "代码评审辅助模式"],
        ["/bad", "(project:project)", "instant", "broken"],
        [
            "",
            f"✗ {project.cwd}/.coder/modes/bad.md:2: `kind` is nope; allowed is one of persistent, instant.",
        ],
        ["/status", "(project:project)", "instant", "typed as /modes:status"],
        ["/a:review", "(project:project)", "instant", "shadowed by (project:project)"],
        ["/prompts:hi", "(project:project)", "saved prompt"],
    ]


def test_modes_as_json(project: Project) -> None:
    project.write(".coder/modes/a/review.md", SEED_EXAMPLE)
    (line,) = project.coder("modes", "--json").stdout.splitlines()
    found = json.loads(line)
    assert (found["mode_id"], found["scope"]["label"], found["error"]) == (
        "/a:review",
        "(project:project)",
        None,
    )
    assert [variable["name"] for variable in found["variables"]] == ["role", "region", "ticket"]


def test_no_modes_says_where_they_would_be(project: Project) -> None:
    done = project.coder("modes", "--lang", "zh")
    assert done.returncode == 0
    assert "没有自定义模式" in done.stdout


def test_a_description_cannot_control_the_terminal(project: Project) -> None:
    project.write(".coder/modes/m.md", '---\ndescription: "\\e[31mred"\n---\nx\n')
    assert "\x1b" not in project.coder("modes").stdout


COMMAND = """\
---
description: Fix an issue
argument-hint: "[number] [priority]"
allowed-tools: Bash(git:*), Read
---
Fix issue #$1 with priority $2. All: $ARGUMENTS. Costs $$5. Template: {{ kept }}.
"""


def test_commands_of_another_tool_become_modes(project: Project) -> None:
    project.write(".codex/commands/team/fix issue.md", COMMAND)
    project.write(".codex/commands/plain.md", "Just do it.\n")
    project.write(".codex/commands/there.md", "new")
    project.write(".coder/modes/there.md", "old")
    done = project.coder("modes", "import")
    assert done.returncode == 0, done.stderr
    assert "2 imported, 1 kept, 0 failed." in done.stdout
    assert (project.cwd / ".coder/modes/there.md").read_text(encoding="utf-8") == "old"
    listed = [json.loads(line) for line in project.coder("modes", "--json").stdout.splitlines()]
    fix = next(mode for mode in listed if mode["mode_id"] == "/team:fix-issue")
    assert (fix["kind"], fix["error"], fix["description"]) == ("instant", None, "Fix an issue")
    assert fix["argument_hint"] == "[number] [priority]"
    assert [variable["name"] for variable in fix["variables"]] == ["arguments", "arg1", "arg2"]
    assert [variable["rest"] for variable in fix["variables"]] == [True, False, False]
    assert "2 imported" not in project.coder("modes", "import").stdout


def test_a_hint_in_brackets_is_a_text(project: Project) -> None:
    for name, hint in (("one", "[issue]"), ("two", "[pr] [reviewer]")):
        project.write(f".codex/commands/{name}.md", f"---\nargument-hint: {hint}\n---\nx\n")
    assert project.coder("modes", "import").returncode == 0
    listed = [json.loads(line) for line in project.coder("modes", "--json").stdout.splitlines()]
    assert [(mode["argument_hint"], mode["error"]) for mode in listed] == [
        ("[issue]", None),
        ("[pr] [reviewer]", None),
    ]


def test_an_import_follows_no_link_out_of_the_project(project: Project) -> None:
    """Else the commands of a project could become the person's own modes, which need no trust."""
    own = project.home / ".coder" / "modes"
    own.mkdir(parents=True)
    project.write(".codex/commands/x.md", "x")
    (project.cwd / ".coder").mkdir()
    (project.cwd / ".coder" / "modes").symlink_to(own)
    done = project.coder("modes", "import")
    assert done.returncode == 1
    assert "leads out of" in done.stdout
    assert list(own.iterdir()) == []


def test_import_from_a_named_directory_as_json(project: Project) -> None:
    project.write("elsewhere/a.md", "A $1")
    project.write("elsewhere/bad.md", "---\nx: [\n---\n")
    done = project.coder("modes", "import", "--from", "elsewhere", "--json")
    outcomes = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(one["state"], one["source"].rpartition("/")[2]) for one in outcomes] == [
        ("done", "a.md"),
        ("failed", "bad.md"),
    ]
    assert done.returncode == 1


def test_import_without_a_source_is_wrong_usage(project: Project) -> None:
    done = project.coder("modes", "import")
    assert done.returncode == 2
    assert "--from" in done.stderr


def test_an_import_keeps_dollars_and_braces() -> None:
    text = as_mode(COMMAND)
    assert "#{{arg1}} with priority {{arg2}}. All: {{arguments}}. Costs $5. Template: \\{{ kept }}." in text


# -- the schema -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    done = Project(tmp_path_factory.mktemp("schema")).coder("schema")
    assert done.returncode == 0
    loaded: dict[str, Any] = json.loads(done.stdout)
    return loaded


def tags(schema: dict[str, Any], union: str, field: str) -> set[str]:
    names = [ref["$ref"].removeprefix("#/$defs/") for ref in schema["$defs"][union]["anyOf"]]
    return {schema["$defs"][name]["properties"][field]["enum"][0] for name in names}


def test_the_schema_covers_every_op_and_event(schema: dict[str, Any]) -> None:
    ops, events = tags(schema, "Op", "op"), tags(schema, "Event", "event")
    assert {"user_input", "cancel", "list_custom_modes", "set_mode_state", "trigger_instant_mode"} <= ops
    assert {
        "content",
        "turn_ended",
        "mode_state_changed",
        "instant_mode_executed",
        "custom_modes_listed",
    } <= events
    assert len(ops) == len(AnyOp.__args__)
    assert len(events) == len(AnyEvent.__args__)


def test_every_reference_of_the_schema_leads_somewhere(schema: dict[str, Any]) -> None:
    wanted = set(re.findall(r'"#/\$defs/([^"]+)"', json.dumps(schema)))
    assert wanted <= set(schema["$defs"])


def test_types_for_typescript_name_everything_they_use(project: Project, schema: dict[str, Any]) -> None:
    done = project.coder("schema", "--ts")
    declared = re.findall(r"^export (?:interface|type) (\w+)", done.stdout, re.MULTILINE)
    assert sorted(declared) == sorted(schema["$defs"])
    assert done.stdout.count("{") == done.stdout.count("}")
    code = re.sub(r'/\*\*.*?\*/|//[^\n]*|"[^"]*"', "", done.stdout, flags=re.DOTALL)
    used = set(re.findall(r"\b[A-Z]\w+", code))
    assert used - set(declared) == {"Record"}
    assert (
        'export interface SetModeState {\n  op: "set_mode_state";\n  modes: PersistentModeTarget[];'
        in done.stdout
    )
    assert 'variables?: Record<string, "use_default" | SetValue>;' in done.stdout
    assert "value: string | null;" in done.stdout


def test_what_the_types_say_is_what_is_read() -> None:
    op = msgspec.json.decode(b'{"op":"list_custom_modes"}', type=AnyOp)
    assert type(op).__name__ == "ListCustomModes"
