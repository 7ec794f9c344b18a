"""Prompt and denials say the same: what a denial names works, and what the prompt calls denied is denied."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from coder.config.schema import OPERATING_MODES, PRESETS
from kit.calls import bash, call
from kit.driving import Project, play

LOOKING = {"commands that only look": bash("ls src")}
TRIED = {
    "commands that do more than look": bash("touch made"),
    "write": call("write", path="src/new.py", content="x = 1\n"),
    "edit": call("edit", path="src/a.py", old_string="old", new_string="new", replace_all=True),
    "patch": call("patch", patch="*** Begin Patch\n*** Delete File: src/gone.py\n*** End Patch"),
    "save_memory": call("save_memory", fact="a fact"),
}
# Commands that change files, with the tool that makes the same change.
CHANGING = {
    "sed -i s/old/new/g src/a.py": "edit",
    "perl -pi -e s/old/new/ src/a.py": "edit",
    "mv src/a.py src/b.py": "patch",
    "rm src/a.py": "patch",
    "echo x > src/c.py": "write",
    "mkdir -p src/d": "write",
}
CHECKS = {
    "pytest -q -p evil": "pytest -q",
    "pytest --basetemp=x tests": "pytest tests",
    "ruff check --fix": "ruff check",
}
COMBINATIONS = [(mode, preset) for mode in OPERATING_MODES for preset in PRESETS]


@pytest.fixture
def place(project: Project) -> Project:
    """Without a sandbox, so that what plan mode runs is the same on every machine."""
    project.configure(sandbox={"mode": "off"}, workflow={"auto_verify_after_edit": False})
    for name in ("a", "gone"):
        project.write(f"src/{name}.py", "old = 1\n")
    project.write("pyproject.toml", "")
    for name in ("pytest", "ruff"):
        project.write(f".venv/bin/{name}", "#!/bin/sh\necho ran\n").chmod(0o755)
    return project


def played(place: Project, calls: list[Any], mode: str, preset: str) -> tuple[str, str, list[str]]:
    """The system message, the note on the rules, and the results."""
    script = [*({"calls": [one]} for one in calls), {"text": "ok"}]
    chats = play(place, script, mode=mode, preset=preset).chats
    messages = chats[-1]["messages"]
    results = [message["content"] for message in messages if message["role"] == "tool"]
    system, *_ = [message["content"] for message in messages if message["role"] == "system"]
    note = next(
        m["content"] for m in messages if m["role"] == "user" and "Operating mode" in str(m["content"])
    )
    return system, note, results


def is_denied(result: str) -> bool:
    return result.startswith("denied: ")


@pytest.mark.parametrize(("mode", "preset"), COMBINATIONS)
def test_what_the_prompt_calls_denied_is_denied_and_nothing_else(
    place: Project, mode: str, preset: str
) -> None:
    tried = {**LOOKING, **TRIED}
    _, note, results = played(place, list(tried.values()), mode, preset)
    found = re.search(r"[Dd]enied: (.*?)\. Do not try", note)
    listed = found[1].split(", ") if found else []
    assert {name: is_denied(result) for name, result in zip(tried, results, strict=True)} == {
        name: name in listed for name in tried
    }


@pytest.mark.parametrize(("mode", "preset"), COMBINATIONS)
def test_a_denial_names_the_mode_that_the_model_was_told(place: Project, mode: str, preset: str) -> None:
    _, note, results = played(place, list(TRIED.values()), mode, preset)
    assert f"Operating mode {mode}:" in note
    for result in filter(is_denied, results):
        assert set(
            re.findall(
                r"\b(plan|default|auto-edit|yolo)\b mode|\b[Mm]ode (plan|default|auto-edit|yolo)\b",
                result.lower(),
            )
        ) <= {
            (mode, ""),
            ("", mode),
        }
        assert "mode" in result.lower()


@pytest.mark.parametrize(("mode", "preset"), COMBINATIONS)
def test_a_tool_is_named_for_a_denied_change_exactly_where_it_is_allowed(
    place: Project, mode: str, preset: str
) -> None:
    own = {name: TRIED[name] for name in ("edit", "patch", "write")}
    _, _, results = played(place, [*map(bash, CHANGING), *own.values()], mode, preset)
    allowed = {
        name: not is_denied(result) for name, result in zip(own, results[len(CHANGING) :], strict=True)
    }
    for (line, tool), result in zip(CHANGING.items(), results, strict=False):
        named = f"Here {tool} " in result
        assert named is (is_denied(result) and allowed[tool]), line


@pytest.mark.parametrize(("mode", "preset"), COMBINATIONS)
def test_a_spelling_that_a_denial_names_runs(place: Project, mode: str, preset: str) -> None:
    _, note, results = played(place, [*map(bash, CHECKS), *map(bash, CHECKS.values())], mode, preset)
    tried, spelled = results[: len(CHECKS)], results[len(CHECKS) :]
    for works, result, again in zip(CHECKS.values(), tried, spelled, strict=True):
        named = f"`{works}` runs unasked." in result
        assert named is (is_denied(result) and not is_denied(again)), result
    assert ("run unasked" in note) is (mode == "auto-edit" and preset in ("balanced", "auto-edit"))


@pytest.mark.parametrize(("mode", "preset"), COMBINATIONS)
def test_the_prompt_recommends_nothing_that_is_denied(place: Project, mode: str, preset: str) -> None:
    """The system message holds for every mode, so it recommends no command for a change."""
    system, _, results = played(place, [bash("touch made")], mode, preset)
    if is_denied(results[0]):
        assert "shell is right" not in system
    assert "take the way it names" in system
    assert "if commands may run" in system


def test_a_denied_write_to_tmp_names_the_scratch_folder(place: Project) -> None:
    _, _, results = played(place, [bash("echo x > /tmp/x.txt")], "default", "balanced")
    assert "The scratch folder for temporary files is " in results[0]


def test_a_line_with_a_secret_in_it_is_suggested_without_it(place: Project) -> None:
    secret = "ghp_" + "a1B2" * 9
    _, _, results = played(place, [bash(f"pytest -k {secret} -p evil")], "auto-edit", "balanced")
    assert "runs unasked" in results[0]
    assert secret not in json.dumps(results)
