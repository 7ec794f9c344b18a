"""The model's own checks in auto-edit: in whatever words, without asking, and without downloading."""

from __future__ import annotations

import json

import pytest

from coder.protocol.events import ApprovalRequested
from kit.calls import bash_step
from kit.driving import Driver, Project, of, play

SPELLINGS = [
    "npm test",
    "npm test 2>&1 | tail",
    "npx tsc",
    "cd {root} && pytest -q",
    "pytest -k x",
    "pytest --lf",
    "timeout 60 pytest",
    ".venv/bin/pytest",
    "pytest -q; echo $?",
    "CI=1 python -m pytest -q tests/test_a.py::test_b 2>&1 | tail -5",
    "uv run pytest -q",
]


@pytest.fixture
def checked(project: Project) -> Project:
    """A project whose tools say that they ran, and with what."""
    for name in ("pytest", "npm", "npx", "python", "uv"):
        script = f'#!/bin/sh\necho "ran {name} $* UV_NO_SYNC=$UV_NO_SYNC yes=$npm_config_yes"\n'
        project.write(f".venv/bin/{name}", script).chmod(0o755)
    project.write("package.json", json.dumps({"scripts": {"test": "jest", "evil": "jest; touch made"}}))
    project.write("node_modules/.bin/tsc", "")
    return project


def told(driver: Driver) -> list[str]:
    messages = driver.chats[-1]["messages"]
    return [message["content"] for message in messages if message["role"] == "tool"]


def test_every_spelling_of_a_check_runs_unasked(checked: Project) -> None:
    lines = [line.format(root=checked.cwd) for line in SPELLINGS]
    driver = play(checked, [*map(bash_step, lines), {"text": "ok"}], mode="auto-edit", can_ask=True)
    assert of(driver.seen, ApprovalRequested) == []
    assert [text.split()[0] for text in told(driver)] == ["ran"] * len(lines)


def test_a_check_that_runs_unasked_neither_downloads_nor_syncs(checked: Project) -> None:
    driver = play(checked, [bash_step("npx tsc"), bash_step("uv run mypy"), {"text": "ok"}], mode="auto-edit")
    npx, uv = told(driver)
    assert npx == "ran npx tsc UV_NO_SYNC=1 yes=false"
    assert uv == "ran uv run mypy UV_NO_SYNC=1 yes=false"


def test_a_line_that_a_person_approved_is_run_as_it_is(checked: Project) -> None:
    checked.configure(approval={"auto_approve_ask": True})
    driver = play(checked, [bash_step("uv run mypy"), {"text": "ok"}], mode="default")
    assert told(driver) == ["ran uv run mypy UV_NO_SYNC= yes="] or "not found" in told(driver)[0]


@pytest.mark.parametrize(
    "line",
    ["pytest; touch made", "npm run evil", "npx jest", "cd .. && pytest", "pytest -p evil", "npm test -- -u"],
)
def test_what_is_no_check_is_not_run_unasked(checked: Project, line: str) -> None:
    driver = play(checked, [bash_step(line), {"text": "ok"}], mode="auto-edit")
    assert told(driver)[0].startswith("denied: ")
    assert not (checked.cwd / "made").exists()


def test_a_refusal_of_tests_holds_for_every_spelling(checked: Project) -> None:
    driver = play(
        checked, [bash_step("npx tsc"), {"text": "ok"}], ["fix it, don't run the tests"], mode="auto-edit"
    )
    assert told(driver)[0].startswith("denied: ")
