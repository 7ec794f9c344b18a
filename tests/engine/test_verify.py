"""Automatic verification: the exact list, the three-way choice, repair, and what is said without it."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any, Literal

import pytest

from coder.engine.verify.attempts import WHITELIST, choose
from coder.policy.verification import is_verification
from coder.protocol.events import ApprovalRequested, Notice, TurnEnded, Verification, VerifyChanged
from coder.protocol.ops import ApprovalReply
from kit import ScriptedServer
from kit.driving import Driver, Project, of, play

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


def play_edits(project: Project, answers: list[Any], *texts: str, **options: Any) -> Driver:
    return play(project, answers, texts or ["do it"], **{"mode": "auto-edit", **options})


def states(driver: Driver) -> list[str]:
    return [e.state for e in of(driver.seen, VerifyChanged)]


EDIT_AND_ANSWER: list[dict[str, Any]] = [{"calls": [WRITE]}, {"text": "done"}]


def test_passes(project: Project) -> None:
    gradle(project, 'test "$1" = test && echo fine')
    driver = play_edits(project, EDIT_AND_ANSWER)
    assert states(driver) == ["started", "passed"]
    (verify,) = project.of_type("verify")
    assert verify["meta"] == {"command": "./gradlew test", "exit_code": 0, "attempt": 1, "state": "passed"}
    assert of(driver.seen, TurnEnded)[0].status == "ok"


def test_a_failure_goes_to_the_model_which_repairs_it(project: Project) -> None:
    gradle(project, "grep -q 'x = 2' app.py || { echo 'x must be 2'; exit 1; }")
    repair = {"name": "edit", "arguments": {"path": "app.py", "old_string": "x = 1", "new_string": "x = 2"}}
    driver = play_edits(project, [*EDIT_AND_ANSWER, {"calls": [repair]}, {"text": "repaired"}])
    assert states(driver) == ["started", "failed", "started", "passed"]
    note = driver.chats[2]["messages"][-1]
    assert note["role"] == "user"
    assert "x must be 2" in note["content"]
    assert "fix" in note["content"]
    assert [e["meta"]["attempt"] for e in project.of_type("verify")] == [1, 2]
    assert of(driver.seen, TurnEnded)[0].text == "repaired"


def write(text: str, path: str = "app.py") -> dict[str, Any]:
    return {"calls": [{"name": "write", "arguments": {"path": path, "content": text}}]}


def test_it_runs_and_again_after_each_of_two_repairs_and_the_model_hears_of_the_last(
    project: Project,
) -> None:
    gradle(project, "echo broken; exit 1")
    repairs = [write("x = 2\n"), {"text": "now"}, write("x = 3\n"), {"text": "now?"}]
    driver = play_edits(
        project, [*EDIT_AND_ANSWER, *repairs, {"text": "it still fails"}, {"text": "never asked"}]
    )
    assert states(driver) == ["started", "failed"] * 3
    assert [e["meta"]["attempt"] for e in project.of_type("verify")] == [1, 2, 3]
    last = driver.chats[-1]["messages"][-1]
    assert last["role"] == "user"
    assert "broken" in last["content"]
    assert "last automatic check" in last["content"]
    (ended,) = of(driver.seen, TurnEnded)
    assert ended.status == "ok"
    assert ended.text == "done\n\nnow\n\nnow?\n\nit still fails"
    assert project.of_type("final")[0]["content"] == ended.text
    assert ended.verification == Verification("failed", "./gradlew test", 3, ["app.py"])
    (told,) = [e.text for e in of(driver.seen, Notice) if e.level == "warning"]
    assert told.startswith("Verification failed: `./gradlew test` still fails after 3 runs.")
    assert "is not known: it was not run before that" in told
    assert project.of_type("turn_end")[0]["meta"]["verification"] == {
        "status": "failed",
        "command": "./gradlew test",
        "attempts": 3,
        "changed_since": ["app.py"],
        "reason": "",
    }


def test_attempts_can_be_tightened_and_edits_after_the_last_check_are_told(project: Project) -> None:
    project.configure(workflow={"max_verify_attempts": 0})
    gradle(project, "exit 1")
    driver = play_edits(project, [*EDIT_AND_ANSWER, write("x = 2\n"), {"text": "changed once more"}])
    assert states(driver) == ["started", "failed"]
    (ended,) = of(driver.seen, TurnEnded)
    assert ended.text == "done\n\nchanged once more"
    assert ended.verification.status == "failed"
    assert ended.verification.reason == "changed after the last check"


def test_a_model_that_stops_is_not_checked_again(project: Project) -> None:
    gradle(project, "exit 1")
    driver = play_edits(
        project, [*EDIT_AND_ANSWER, {"text": "not my change's fault"}, {"text": "never asked"}]
    )
    assert states(driver) == ["started", "failed"]
    assert "if your change did not cause this, say so and stop" in driver.chats[2]["messages"][-1]["content"]
    assert of(driver.seen, TurnEnded)[0].text == "done\n\nnot my change's fault"


def test_a_failure_from_before_the_first_edit_is_named_as_such(project: Project) -> None:
    gradle(project, "echo 'FAILED tests/test_old.py::test_it - took '$$; exit 1")
    run = {"calls": [{"name": "bash", "arguments": {"command": "./gradlew test"}}]}
    driver = play_edits(project, [run, *EDIT_AND_ANSWER, {"text": "it failed before"}])
    assert states(driver) == ["started", "failed"]
    assert "did not cause this" in driver.chats[3]["messages"][-1]["content"]
    assert "not known" not in driver.chats[3]["messages"][-1]["content"]
    assert of(driver.seen, TurnEnded)[0].verification.reason == "failed the same way before the first edit"
    assert "this turn did not cause it" in of(driver.seen, Notice)[-1].text


def test_a_failure_that_the_turn_caused_is_named_as_such(project: Project) -> None:
    gradle(project, "test -e app.py && { echo 'FAILED tests/test_new.py::test_it'; exit 1; } || true")
    run = {"calls": [{"name": "bash", "arguments": {"command": "./gradlew test"}}]}
    driver = play_edits(project, [run, *EDIT_AND_ANSWER, {"text": "I give up"}])
    (told,) = [e.text for e in of(driver.seen, Notice) if e.level == "warning"]
    failed = "Verification failed: `./gradlew test` fails. It passed before this turn's first change."
    assert told == f"{failed} · app.py"


@pytest.mark.thorough
def test_the_answer_before_a_failed_check_is_on_stdout_and_in_the_object(project: Project) -> None:
    gradle(project, "exit 1")
    answers = [{"calls": [WRITE]}, {"text": "app.py:1 sets x."}, {"text": "The check fails."}]
    with ScriptedServer([*answers, *answers]) as server:
        shown = project.coder("--once", "do it", "--mode", "auto-edit", url=server.url)
        (project.cwd / "app.py").unlink()
        asked = ("--once", "do it", "--mode", "auto-edit", "--output", "json")
        told = project.coder(*asked, url=server.url)
    assert (shown.returncode, told.returncode) == (5, 5)
    assert shown.stdout == "app.py:1 sets x.\n\nThe check fails.\n"
    assert json.loads(told.stdout)["text"] == "app.py:1 sets x.\n\nThe check fails."


def test_a_check_that_the_model_ran_and_passed_after_its_last_edit_is_not_run_again(project: Project) -> None:
    gradle(project, "echo run >> runs.log")
    run = {"calls": [{"name": "bash", "arguments": {"command": "./gradlew test --quiet 2>&1"}}]}
    project.configure(approval={"auto_approve_ask": True})
    driver = play_edits(project, [write("x = 1\n"), run, {"text": "done"}])
    assert states(driver) == []
    assert (project.cwd / "runs.log").read_text(encoding="utf-8") == "run\n"
    verification = of(driver.seen, TurnEnded)[0].verification
    assert verification == Verification("passed", "./gradlew test", 1)
    driver = play_edits(project, [write("1\n", "b.py"), run, write("2\n", "b.py"), {"text": "done"}])
    assert states(driver) == ["started", "passed"]


def test_what_a_command_changed_after_a_passed_check_is_told(project: Project) -> None:
    gradle(project, "true")
    run = {"calls": [{"name": "bash", "arguments": {"command": "./gradlew test"}}]}
    change = {"calls": [{"name": "bash", "arguments": {"command": "echo 'x = 9' > app.py"}}]}
    driver = play_edits(
        project, [write("x = 1\n"), run, change, {"text": "done"}], mode="default", can_ask=False
    )
    assert of(driver.seen, TurnEnded)[0].verification.status == "not_run"  # nobody to ask: nothing was done
    project.configure(approval={"auto_approve_ask": True})
    driver = play_edits(project, [write("x = 2\n"), run, change, {"text": "done"}], mode="default")
    verification = of(driver.seen, TurnEnded)[0].verification
    assert (verification.status, verification.changed_since) == ("passed", ["app.py"])
    assert any("app.py" in e.text for e in of(driver.seen, Notice) if e.level == "warning")


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("exit 127", "its program was not found (exit 127)"),
        ("exit 126", "its program is not executable (exit 126)"),
        ("echo 'mvn: command not found'; exit 1", "it printed “mvn: command not found”"),
        ("echo \"E   ModuleNotFoundError: No module named 'requests'\"; exit 2", "not installed: requests"),
        ("echo \"Error: Cannot find module 'jest'\"; exit 1", "not installed: jest"),
    ],
)
def test_a_fault_of_the_environment_is_not_retried(project: Project, body: str, why: str) -> None:
    gradle(project, body)
    driver = play_edits(project, [*EDIT_AND_ANSWER, {"text": "ok"}], "do it", "go on")
    assert states(driver) == ["started", "gave_up"]
    told = of(driver.seen, VerifyChanged)[-1].text
    assert "best-effort" in told
    assert why in told
    assert [e.text for e in of(driver.seen, Notice) if e.evidence] == ["Not verified. · app.py"]
    assert of(driver.seen, TurnEnded)[0].verification.status == "not_run"
    assert [len(chat["messages"]) for chat in driver.chats] == [2, 4, 6]
    told = driver.chats[-1]["messages"][-1]["content"]
    assert f"\nAfter your last answer `./gradlew test` ran, but checked nothing: {why}.\n" in told


def test_a_missing_module_that_the_edit_asks_for_is_the_model_s(project: Project) -> None:
    gradle(project, "echo \"E   ModuleNotFoundError: No module named 'requests'\"; exit 2")
    driver = play_edits(project, [write("import requests\n"), {"text": "done"}, {"text": "so be it"}])
    assert states(driver) == ["started", "failed"]


@pytest.mark.parametrize(("edit", "expected"), [("pkg/a.py", "gave_up"), ("conftest.py", "failed")])
def test_a_package_that_nobody_installed_is_no_failure_of_the_edit(
    project: Project, edit: str, expected: str
) -> None:
    """A real pytest: without `python -m` it does not look beside the tests. Settings may have hidden it."""
    project.configure(sandbox={"mode": "off"})  # which may hide the directory that these tests run from
    program = Path(sys.executable).with_name("pytest")
    project.write(".venv/bin/pytest", f'#!/bin/sh\nexec {program} -p no:cacheprovider "$@"\n').chmod(0o755)
    project.write("pyproject.toml", "")
    project.write("pkg/__init__.py", "")
    project.write("tests/test_a.py", "from pkg import a\n\ndef test_a():\n    assert a.x\n")
    call = {"name": "write", "arguments": {"path": edit, "content": "x = 1\n"}}
    driver = play_edits(project, [{"calls": [call]}, {"text": "done"}, {"text": "so be it"}])
    assert states(driver)[:2] == ["started", expected]
    assert ("not installed: pkg" in of(driver.seen, VerifyChanged)[-1].text) is (expected == "gave_up")


def test_without_a_command_that_may_run_it_is_said(project: Project) -> None:
    driver = play_edits(project, EDIT_AND_ANSWER)
    assert states(driver) == ["skipped"]
    assert "Not verified" in of(driver.seen, VerifyChanged)[0].text
    assert project.of_type("verify")[0]["meta"]["state"] == "skipped"


def test_in_chinese_it_is_said_in_the_seed_s_words(project: Project) -> None:
    driver = play_edits(project, EDIT_AND_ANSWER, lang="zh")
    assert "未执行自动验证" in of(driver.seen, VerifyChanged)[0].text


def test_a_configured_command_that_is_not_listed_is_refused_and_said(project: Project) -> None:
    project.configure(workflow={"verify_commands": ["make check", "./gradlew test"]})
    gradle(project, "true")
    driver = play_edits(project, EDIT_AND_ANSWER)
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
    driver = play_edits(project, EDIT_AND_ANSWER, text, mode=mode)
    assert states(driver) == expected


@pytest.mark.parametrize("path", ["README.md", "docs/guide.py", "notes.txt"])
def test_documents_alone_are_not_verified(project: Project, path: str) -> None:
    gradle(project, "true")
    call = {"name": "write", "arguments": {"path": path, "content": "x"}}
    driver = play_edits(project, [{"calls": [call]}, {"text": "done"}])
    assert states(driver) == []


def test_off_by_configuration_and_without_edits(project: Project) -> None:
    gradle(project, "true")
    assert (
        states(play_edits(project, [{"calls": [{"name": "list", "arguments": {}}]}, {"text": "done"}])) == []
    )
    project.configure(workflow={"auto_verify_after_edit": False})
    assert states(play_edits(project, EDIT_AND_ANSWER)) == []


@pytest.mark.parametrize(("answer", "shown"), [("yes", ["started", "passed"]), ("no", [])])
def test_who_wants_to_be_asked_about_bash_is_asked_about_the_check(
    project: Project, answer: Literal["yes", "no"], shown: list[str]
) -> None:
    """In auto-edit too, whether the model runs it or the engine does."""
    gradle(project, "echo ran >> runs")
    project.configure(permission={"tools": {"bash": "ask"}})
    by_model = {"name": "bash", "arguments": {"command": "./gradlew test"}}

    async def scenario(url: str) -> Driver:
        driver = Driver(project, url, mode="auto-edit", can_ask=True)
        driver.start()
        for text in ("run it", "edit it"):
            await driver.send(text, lambda e: ApprovalReply(e.approval_id, answer))
        await driver.close()
        return driver

    with ScriptedServer([{"calls": [by_model]}, {"text": "done"}, *EDIT_AND_ANSWER]) as server:
        driver = asyncio.run(scenario(server.url))
    assert [e.subject for e in of(driver.seen, ApprovalRequested)] == ["./gradlew test"] * 2
    assert states(driver) == shown
    assert (project.cwd / "runs").exists() is (answer == "yes")
    if answer == "no":
        assert any("was not approved" in e.verification.reason for e in of(driver.seen, TurnEnded)[1:])


def test_not_where_bash_is_denied(project: Project) -> None:
    project.configure(permission={"tools": {"bash": "deny"}})
    gradle(project, "true")
    driver = play_edits(project, EDIT_AND_ANSWER)
    assert states(driver) == []
    assert any("Not verified" in e.text for e in of(driver.seen, Notice))


@pytest.mark.parametrize("mode", ["default", "auto-edit", "yolo"])
@pytest.mark.parametrize(
    ("text", "lang"), [("Set x. Don't run the tests.", "en"), ("改一下 x，不要跑测试", "zh")]
)
def test_a_refusal_holds_in_every_mode(project: Project, mode: str, text: str, lang: str) -> None:
    project.configure(approval={"auto_approve_ask": True})
    gradle(project, "touch was-run")
    driver = play_edits(project, EDIT_AND_ANSWER, text, mode=mode, lang=lang)
    assert states(driver) == []
    assert not (project.cwd / "was-run").exists()
    said = [e.text for e in of(driver.seen, Notice)]
    wanted = "you asked for nothing to be run" if lang == "en" else "你要求不要运行"
    assert any(wanted in text for text in said) == (mode != "default")


@pytest.mark.parametrize("mode", ["default", "auto-edit"])
@pytest.mark.parametrize("text", ["set x and verify with `make check`", "改 x，然后用 make check 验证"])
def test_a_named_command_that_is_not_listed_is_refused_and_not_replaced(
    project: Project, mode: str, text: str
) -> None:
    project.configure(approval={"auto_approve_ask": True})
    gradle(project, "touch was-run")
    driver = play_edits(project, [*EDIT_AND_ANSWER, {"text": "ok"}], text, "go on", mode=mode)
    assert states(driver) == ["skipped"]
    assert (
        "nothing was checked: `make check` does not run by itself"
        in driver.chats[-1]["messages"][-1]["content"]
    )
    assert not (project.cwd / "was-run").exists()
    (said,) = [e.text for e in of(driver.seen, Notice) if "make check" in e.text]
    assert "cargo test" in said
    assert project.of_type("verify")[0]["meta"]["refused"] == ["make check"]


def test_the_person_s_configuration_adds_to_the_list(project: Project) -> None:
    project.configure(workflow={"verify_allow": ["make check"]})
    project.write(".venv/bin/make", "#!/bin/sh\necho own make $*\n").chmod(0o755)
    driver = play_edits(project, EDIT_AND_ANSWER, "set x and verify with `make check`")
    assert states(driver) == ["started", "passed"]
    assert "own make check" in project.of_type("verify")[0]["content"]


@pytest.mark.parametrize("directory", [".venv/bin", "venv/bin", "node_modules/.bin"])
def test_the_project_s_own_tools_come_first(project: Project, directory: str) -> None:
    project.write("pyproject.toml", "")
    project.write(f"{directory}/pytest", "#!/bin/sh\necho own pytest $*\n").chmod(0o755)
    play_edits(project, EDIT_AND_ANSWER)
    assert "own pytest -q" in project.of_type("verify")[0]["content"]


def test_they_come_first_in_a_background_job_too(project: Project) -> None:
    project.write(".venv/bin/pytest", "#!/bin/sh\necho own pytest $*\n").chmod(0o755)
    run = {"name": "bash", "arguments": {"command": "pytest -q", "background": True}}
    play(project, [{"calls": [run]}, {"text": "done"}], mode="yolo")
    assert "own pytest -q" in project.of_type("observation")[0]["content"]


def test_a_sub_project_s_check_runs_in_its_directory(project: Project) -> None:
    project.write("pyproject.toml", "")
    project.write("backend/pyproject.toml", "")
    project.write("backend/.venv/bin/pytest", "#!/bin/sh\npwd\n").chmod(0o755)
    edit = {"name": "write", "arguments": {"path": "backend/app/main.py", "content": "x = 1\n"}}
    driver = play_edits(project, [{"calls": [edit]}, {"text": "done"}])
    (verify,) = project.of_type("verify")
    assert verify["meta"]["command"] == "cd backend && pytest -q"
    assert verify["content"].endswith("/backend")
    assert states(driver) == ["started", "passed"]


@pytest.mark.parametrize("refused", [False, True])
def test_in_auto_edit_the_model_runs_listed_commands_unasked(project: Project, refused: bool) -> None:
    gradle(project, "touch was-run")
    run = {"calls": [{"name": "bash", "arguments": {"command": " ./gradlew test "}}]}
    other = {"calls": [{"name": "bash", "arguments": {"command": "./gradlew test; touch other"}}]}
    text = "look, but don't run the tests" if refused else "look"
    play_edits(project, [run, other, {"text": "done"}], text)
    assert (project.cwd / "was-run").exists() is not refused
    assert not (project.cwd / "other").exists()


NPM = '{"scripts": {"test": "x"}}'
NO_TEST = r'{"scripts": {"test": "echo \"Error: no test specified\" && exit 1"}}'


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
        ({"package.json": NO_TEST}, {"a.js"}, ""),
        ({"backend/pyproject.toml": ""}, {"backend/app.py"}, "cd backend && pytest -q"),
        ({"my app/package.json": NPM}, {"my app/src/a.ts"}, "cd 'my app' && npm test -- --watch=false"),
        ({"pyproject.toml": "", "tests/conftest.py": ""}, {"tests/test_a.py"}, "pytest -q"),
        ({"gradlew": "", "app/build.gradle": ""}, {"app/A.java"}, "./gradlew test"),
        (
            {"backend/pyproject.toml": "", "frontend/package.json": NPM},
            {"backend/a.py", "frontend/a.ts", "README.md"},
            "(cd backend && pytest -q) && (cd frontend && npm test -- --watch=false)",
        ),
        ({"package.json": "not json"}, {"a.js"}, ""),
        ({"package.json": "[" * 100_000 + "]" * 100_000}, {"a.js"}, ""),
        # of several kinds, the one that the edited files belong to
        ({"pyproject.toml": "", "go.mod": ""}, {"a.go"}, "go test ./..."),
        ({"pyproject.toml": "", "go.mod": ""}, {"a.css"}, "pytest -q"),
    ],
)
def test_the_project_says_which(
    tmp_path: Path, files: dict[str, str], edited: set[str], command: str
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    chosen = choose("fix it", [], tmp_path, edited).command
    assert chosen == command
    assert not chosen or is_verification(chosen, tmp_path)


def test_what_the_person_names_comes_first(tmp_path: Path) -> None:
    (tmp_path / "go.mod").touch()
    assert choose("fix it and run cargo test", ["pytest -q"], tmp_path, {"a.go"}).command == "cargo test"
    assert choose("fix it", ["pytest -q"], tmp_path, {"a.go"}).command == "pytest -q"
    assert choose("fix it", ["make check"], tmp_path, {"a.go"}).command == ""  # not replaced by another


def test_a_pipe_that_nobody_writes_to_is_no_package(project: Project) -> None:
    os.mkfifo(project.cwd / "package.json")
    assert choose("", [], project.cwd, {"a.js"}).command == ""
