"""Automatic verification: the exact list, the three-way choice, repair, and what is said without it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from coder.engine.verify import WHITELIST, asked_for, choose
from coder.protocol.events import Notice, TurnEnded, VerifyChanged
from kit import ScriptedServer
from kit.driving import Driver, Project, drive, of

WRITE = {"name": "write", "arguments": {"path": "app.py", "content": "x = 1\n"}}


def test_the_list_is_the_seed_s() -> None:
    assert WHITELIST == (
        "go test ./...",
        "pytest -q",
        "npm test -- --watch=false",
        "pnpm test -- --watch=false",
        "yarn test --watch=false",
        "cargo test",
        "mvn -q test",
        "gradle test",
        "./gradlew test",
    )


def gradle(project: Project, body: str) -> None:
    """A project whose check is a script of ours: `./gradlew test` needs nothing installed."""
    path = project.write("gradlew", f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def play(project: Project, answers: list[Any], text: str = "do it", **options: Any) -> Driver:
    with ScriptedServer(answers) as server:
        driver = drive(project, server.url, [text], **{"mode": "auto-edit", **options})
        driver.chats = server.chats
    return driver


def states(driver: Driver) -> list[str]:
    return [e.state for e in of(driver.seen, VerifyChanged)]


EDIT_AND_ANSWER: list[dict[str, Any]] = [{"calls": [WRITE]}, {"text": "done"}]


def test_passes(project: Project) -> None:
    gradle(project, 'test "$1" = test && echo fine')
    driver = play(project, EDIT_AND_ANSWER)
    assert states(driver) == ["started", "passed"]
    (verify,) = project.of_type("verify")
    assert verify["meta"] == {"command": "./gradlew test", "exit_code": 0, "attempt": 1, "state": "passed"}
    assert of(driver.seen, TurnEnded)[0].status == "ok"


def test_a_failure_goes_to_the_model_which_repairs_it(project: Project) -> None:
    gradle(project, "grep -q 'x = 2' app.py || { echo 'x must be 2'; exit 1; }")
    repair = {"name": "edit", "arguments": {"path": "app.py", "old_string": "x = 1", "new_string": "x = 2"}}
    driver = play(project, [*EDIT_AND_ANSWER, {"calls": [repair]}, {"text": "repaired"}])
    assert states(driver) == ["started", "failed", "started", "passed"]
    note = driver.chats[2]["messages"][-1]
    assert note["role"] == "user"
    assert "x must be 2" in note["content"]
    assert "fix" in note["content"]
    assert [e["meta"]["attempt"] for e in project.of_type("verify")] == [1, 2]
    assert of(driver.seen, TurnEnded)[0].text == "repaired"


def test_it_is_tried_as_often_as_allowed_and_no_more(project: Project) -> None:
    gradle(project, "exit 1")
    driver = play(project, [*EDIT_AND_ANSWER, {"text": "I can't"}, {"text": "really"}])
    assert states(driver) == ["started", "failed", "started", "failed"]
    assert any("still fails" in e.text for e in of(driver.seen, Notice))
    assert len(driver.chats) == 3


def test_attempts_can_be_tightened(project: Project) -> None:
    project.configure(workflow={"max_verify_attempts": 1})
    gradle(project, "exit 1")
    driver = play(project, EDIT_AND_ANSWER)
    assert states(driver) == ["started", "failed"]


@pytest.mark.parametrize("body", ["exit 127", "exit 126", "echo 'mvn: command not found'; exit 1"])
def test_a_fault_of_the_environment_is_not_retried(project: Project, body: str) -> None:
    gradle(project, body)
    driver = play(project, EDIT_AND_ANSWER)
    assert states(driver) == ["started", "gave_up"]
    assert "est effort" in of(driver.seen, VerifyChanged)[-1].text


def test_without_a_command_that_may_run_it_is_said(project: Project) -> None:
    driver = play(project, EDIT_AND_ANSWER)
    assert states(driver) == ["skipped"]
    assert "Not verified" in of(driver.seen, VerifyChanged)[0].text
    assert project.of_type("verify")[0]["meta"]["state"] == "skipped"


def test_in_chinese_it_is_said_in_the_seed_s_words(project: Project) -> None:
    driver = play(project, EDIT_AND_ANSWER, lang="zh")
    assert "未执行自动验证" in of(driver.seen, VerifyChanged)[0].text


def test_a_configured_command_that_is_not_listed_is_refused_and_said(project: Project) -> None:
    project.configure(workflow={"verify_commands": ["make check", "./gradlew test"]})
    gradle(project, "true")
    driver = play(project, EDIT_AND_ANSWER)
    assert any("make check" in e.text for e in of(driver.seen, Notice))
    assert states(driver) == ["started", "passed"]
    project.configure(workflow={"verify_commands": ["rm -rf /tmp/nothing"]})
    (project.cwd / "gradlew").unlink()


@pytest.mark.parametrize(
    ("mode", "text", "expected"),
    [
        ("plan", "verify it", []),
        ("default", "do it", []),
        ("default", "do it and verify", ["started", "passed"]),
        ("default", "改一下并执行验证", ["started", "passed"]),
        ("auto-edit", "do it", ["started", "passed"]),
        ("yolo", "do it", ["started", "passed"]),
    ],
)
def test_modes(project: Project, mode: Any, text: str, expected: list[str]) -> None:
    project.configure(approval={"auto_approve_ask": True}, workflow={"require_todo_for_complex": False})
    gradle(project, "true")
    driver = play(project, EDIT_AND_ANSWER, text, mode=mode)
    assert states(driver) == expected


@pytest.mark.parametrize("path", ["README.md", "docs/guide.py", "notes.txt"])
def test_documents_alone_are_not_verified(project: Project, path: str) -> None:
    gradle(project, "true")
    call = {"name": "write", "arguments": {"path": path, "content": "x"}}
    driver = play(project, [{"calls": [call]}, {"text": "done"}])
    assert states(driver) == []


def test_off_by_configuration_and_without_edits(project: Project) -> None:
    gradle(project, "true")
    assert states(play(project, [{"calls": [{"name": "list", "arguments": {}}]}, {"text": "done"}])) == []
    project.configure(workflow={"auto_verify_after_edit": False})
    assert states(play(project, EDIT_AND_ANSWER)) == []


def test_not_where_bash_is_denied(project: Project) -> None:
    project.configure(permission={"tools": {"bash": "deny"}})
    gradle(project, "true")
    assert states(play(project, EDIT_AND_ANSWER)) == []


NPM = '{"scripts": {"test": "x"}}'


@pytest.mark.parametrize(
    ("files", "edited", "command"),
    [
        ({"go.mod": ""}, {"a.go"}, "go test ./..."),
        ({"pyproject.toml": ""}, {"a.py"}, "pytest -q"),
        ({"tests/test_a.py": ""}, {"a.py"}, "pytest -q"),
        ({"Cargo.toml": ""}, {"a.rs"}, "cargo test"),
        ({"pom.xml": ""}, {"A.java"}, "mvn -q test"),
        ({"build.gradle": ""}, {"A.java"}, "gradle test"),
        ({"build.gradle": "", "gradlew": ""}, {"A.java"}, "./gradlew test"),
        ({"package.json": NPM}, {"a.js"}, "npm test -- --watch=false"),
        ({"package.json": NPM, "pnpm-lock.yaml": ""}, {"a.ts"}, "pnpm test -- --watch=false"),
        (
            {"package.json": '{"scripts": {"test": "x"}}', "yarn.lock": ""},
            {"a.ts"},
            "yarn test --watch=false",
        ),
        ({"package.json": "{}"}, {"a.js"}, ""),
        ({"package.json": "not json"}, {"a.js"}, ""),
        # of several kinds, the one that the edited files belong to
        ({"pyproject.toml": "", "go.mod": ""}, {"a.go"}, "go test ./..."),
        ({"pyproject.toml": "", "go.mod": ""}, {"a.css"}, "pytest -q"),
    ],
)
def test_the_project_says_which(
    tmp_path: Path, files: dict[str, str], edited: set[str], command: str
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert choose("fix it", [], tmp_path, edited).command == command


def test_what_the_person_names_comes_first(tmp_path: Path) -> None:
    (tmp_path / "go.mod").touch()
    assert choose("fix it and run cargo test", ["pytest -q"], tmp_path, {"a.go"}).command == "cargo test"
    assert choose("fix it", ["pytest -q"], tmp_path, {"a.go"}).command == "pytest -q"


@pytest.mark.parametrize(
    "text", ["please verify", "执行验证", "跑一下测试", "run the tests", "用 cargo test"]
)
def test_asking_for_it(text: str) -> None:
    assert asked_for(text)


@pytest.mark.parametrize("text", ["add a test", "the verification code is wrong", "hi"])
def test_not_asking_for_it(text: str) -> None:
    assert not asked_for(text)


def test_a_pipe_that_nobody_writes_to_is_no_package(project: Project) -> None:
    os.mkfifo(project.cwd / "package.json")
    assert choose("", [], project.cwd, {"a.js"}).command == ""
