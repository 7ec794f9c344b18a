"""What a turn that changed files ends with: what changed, what was checked, what was only claimed."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from coder.protocol.entries import CheckRun
from coder.protocol.events import CommandDone, Evidence, Notice, ToolCallChanged, TurnEnded, VerifyChanged
from coder.protocol.evidence import outcome
from coder.texts import Catalog
from coder.ui.terminal.render.plain import PlainRenderer
from coder.ui.terminal.render.theme import Theme
from kit import ScriptedServer
from kit.calls import bash_step, step
from kit.driving import Driver, Project, drive, of, play

EDIT = step("write", path="app.py", content="x = 1\n")
AGAIN = step("write", path="app.py", content="x = 2\n")


@pytest.fixture
def checks(project: Project) -> Project:
    """A project with checks of its own, which say what `outcome` holds."""
    project.configure(approval={"auto_approve_ask": True})
    for name in ("pytest", "ruff"):
        script = "#!/bin/sh\ncat outcome 2>/dev/null && exit 1\necho '3 passed in 0.1s'\n"
        project.write(f".venv/bin/{name}", script).chmod(0o755)
    return project


def line(driver: Driver) -> str:
    """The evidence, which is one line, the last before the turn's end."""
    (notice,) = [event for event in of(driver.seen, Notice) if event.evidence is not None]
    before = driver.seen[: driver.seen.index(of(driver.seen, TurnEnded)[-1])]
    assert [event for event in before if isinstance(event, Notice)][-1] is notice
    assert notice.evidence == of(driver.seen, TurnEnded)[-1].evidence
    told = str(notice.text)
    assert "\n" not in told
    return told


TESTS = ".venv/bin/pytest -q"
NOT_CHECKED = "Not checked: no test ran after the last edit"
SOME = ".venv/bin/pytest tests/test_a.py"
CASES: list[tuple[list[Any], str]] = [
    ([EDIT], f"{NOT_CHECKED} · app.py"),
    (
        [EDIT, bash_step(TESTS)],
        "Verified: `pytest -q` passed after the last edit, run by the model · app.py",
    ),
    ([bash_step(TESTS), EDIT], f"{NOT_CHECKED} · app.py"),
    (
        [EDIT, bash_step(TESTS), AGAIN],
        "Not verified: changed after `pytest -q` had passed: app.py",
    ),
    (
        [EDIT, bash_step(f"{SOME} 2>&1 | tail -2")],
        f"Partly verified: `{SOME}` passed after the last edit, run by the model · app.py",
    ),
    (
        [EDIT, bash_step(f"{TESTS} 2>&1 | tail -2")],
        "Verified: `pytest -q` passed after the last edit, run by the model · app.py",
    ),
    (
        [EDIT, bash_step(".venv/bin/ruff check .")],
        f"{NOT_CHECKED} · also run: `.venv/bin/ruff check .` (passed) · app.py",
    ),
    ([step("write", path="README.md", content="x\n")], "Only documents were changed · README.md"),
    ([bash_step("touch a.py b.py c.py d.py e.py")], f"{NOT_CHECKED} · a.py, b.py, c.py and 2 more"),
]


@pytest.mark.parametrize(("steps", "expected"), CASES, ids=range(len(CASES)))
def test_one_line_says_what_changed_and_what_was_checked(
    checks: Project, steps: list[Any], expected: str
) -> None:
    assert line(play(checks, [*steps, {"text": "done"}])) == expected


def test_a_part_that_the_model_ran_does_not_make_the_whole_its_own(checks: Project) -> None:
    steps = [EDIT, bash_step(SOME), {"text": "done"}]
    told = line(play(checks, steps, ["do it, then run pytest -q"]))
    assert told == "Verified: `pytest -q` passed after the last edit · app.py"


def test_a_turn_without_changes_has_no_such_line(checks: Project) -> None:
    driver = play(checks, [bash_step("ls"), {"text": "All tests pass."}])
    assert of(driver.seen, TurnEnded)[0].evidence is None
    assert "evidence" not in checks.of_type("turn_end")[0]["meta"]


@pytest.mark.parametrize(
    ("steps", "answer", "claimed"),
    [
        ([EDIT], "Fixed. All tests pass.", True),
        ([EDIT], "已修复，所有测试通过。", True),
        ([EDIT], "Fixed. The tests should pass.", False),
        ([EDIT, bash_step(TESTS)], "All tests pass.", False),
        ([EDIT, bash_step(TESTS), AGAIN], "All tests pass.", True),
        ([bash_step("echo 1 failed > outcome"), EDIT, bash_step(TESTS)], "All tests pass.", True),
        ([EDIT, bash_step(f"{TESTS} | tail -1")], "All tests pass.", False),
    ],
)
def test_a_claim_without_a_run_is_marked(
    checks: Project, steps: list[Any], answer: str, claimed: bool
) -> None:
    driver = play(checks, [*steps, {"text": answer}])
    assert ("is only claimed" in line(driver)) is claimed
    evidence = checks.of_type("turn_end")[0]["meta"]["evidence"]
    assert bool(evidence.get("claim")) is claimed


def test_who_asks_for_a_run_and_gets_a_claim_hears_of_it(checks: Project) -> None:
    driver = play(checks, [{"text": "All tests pass."}], ["please run the tests"])
    assert line(driver).endswith("no test was seen to pass after the last edit")
    driver = play(checks, [bash_step(TESTS), {"text": "All tests pass."}], ["please run the tests"])
    assert not [event for event in of(driver.seen, Notice) if event.evidence]


@pytest.mark.parametrize("mode", ["default", "auto-edit"])
def test_a_whole_run_of_the_model_is_not_repeated(checks: Project, mode: str) -> None:
    """Nor is one refused that the person named and the model has run, whatever it cut off the output."""
    checks.write("pyproject.toml", "")
    for asked, command in (("run the tests", TESTS), (f"verify with `{SOME}`", SOME)):
        driver = play(
            checks, [EDIT, bash_step(f"{command} 2>&1 | tail -2"), {"text": "done"}], [asked], mode=mode
        )
        assert of(driver.seen, VerifyChanged) == []
        assert [e for e in of(driver.seen, Notice) if e.level == "warning"] == []


def test_a_failure_behind_tail_is_looked_at_as_a_whole(checks: Project) -> None:
    checks.write("pyproject.toml", "")
    steps = [
        EDIT,
        bash_step("echo 1 failed > outcome"),
        bash_step(f"{TESTS} | tail -1"),
        {"text": "no"},
        {"text": "no"},
    ]
    driver = play(checks, steps, ["run the tests"])
    assert [event.state for event in of(driver.seen, VerifyChanged)] == ["started", "failed"]


def test_a_part_that_failed_is_outdated_by_the_whole_that_passes(checks: Project) -> None:
    """A mark of failure beside "passed" would say both."""
    checks.write("pyproject.toml", "")
    script = "#!/bin/sh\ncase $* in *test_a*) echo 1 failed; exit 1;; esac\necho '3 passed in 0.1s'\n"
    checks.write(".venv/bin/pytest", script).chmod(0o755)
    driver = play(checks, [EDIT, bash_step(f"{SOME} && git status"), {"text": "done"}], mode="auto-edit")
    assert line(driver).startswith("Verified: `pytest -q` passed after the last edit")
    assert outcome(of(driver.seen, TurnEnded)[-1].evidence or Evidence()) == "passed"


@pytest.mark.parametrize(
    "whole", ["timeout 60 pytest -q tests; echo exit=$?", "CI=1 .venv/bin/python -m pytest", "uv run pytest"]
)
def test_so_it_is_by_the_whole_in_other_words(checks: Project, whole: str) -> None:
    """The line would say that the tests passed, and that no test was seen to pass."""
    checks.write("pyproject.toml", "")
    script = "#!/bin/sh\ncase $* in *test_a*) echo 1 failed; exit 1;; esac\necho '3 passed in 0.1s'\n"
    checks.write(".venv/bin/pytest", script).chmod(0o755)
    checks.write(".venv/bin/python", '#!/bin/sh\nshift; exec .venv/bin/"$@"\n').chmod(0o755)
    checks.write(".venv/bin/uv", '#!/bin/sh\nshift; exec .venv/bin/"$@"\n').chmod(0o755)
    driver = play(checks, [EDIT, bash_step(SOME), bash_step(whole), {"text": "All tests pass."}], mode="yolo")
    assert line(driver) == "Verified: `pytest -q` passed after the last edit, run by the model · app.py"


def test_tests_of_another_program_are_not_outdated(checks: Project) -> None:
    checks.write("pyproject.toml", "")
    checks.write(".venv/bin/tox", "#!/bin/sh\nexit 1\n").chmod(0o755)
    driver = play(checks, [EDIT, bash_step("tox"), {"text": "done"}], mode="auto-edit")
    assert outcome(of(driver.seen, TurnEnded)[-1].evidence or Evidence()) == "failed"


@pytest.mark.parametrize("line", ["pytest -q tests && echo over", "cd . && python -m pytest; pytest"])
def test_a_check_is_the_project_s_own_in_any_line_that_has_it(checks: Project, line: str) -> None:
    """Found alone and not beside another command, its absence would look like a failure of the tests."""
    checks.write(".venv/bin/python", '#!/bin/sh\nshift; exec "$@"\n').chmod(0o755)
    driver = play(checks, [bash_step(line)], mode="yolo")
    assert "3 passed" in of(driver.seen, ToolCallChanged)[-1].detail


def test_a_linter_of_the_project_s_is_not_run_for_the_system_s(checks: Project) -> None:
    """Tests run the project's code, a linter does not: it must not do so by way of its name."""
    checks.write(".venv/bin/ruff", "#!/bin/sh\ntouch ran\n").chmod(0o755)
    play(checks, [bash_step("ruff check . && echo over")], mode="yolo")
    assert not (checks.cwd / "ran").exists()


def test_who_ran_the_whole_is_told_apart_from_who_ran_a_part(checks: Project) -> None:
    checks.write("pyproject.toml", "")
    driver = play(checks, [EDIT, bash_step(SOME), {"text": "done"}], mode="auto-edit")
    assert line(driver) == "Verified: `pytest -q` passed after the last edit · app.py"
    assert [run.by for run in of(driver.seen, TurnEnded)[0].evidence.runs] == ["model", "coder"]


def test_a_claim_about_changes_of_an_earlier_turn_is_marked(checks: Project) -> None:
    claim = {"text": "All tests pass."}
    driver = play(checks, [EDIT, {"text": "edited"}, claim], ["do it", "go on"])
    assert [bool(event.evidence.claim) for event in of(driver.seen, TurnEnded)] == [False, True]
    driver = play(checks, [EDIT, bash_step(TESTS), {"text": "edited"}, claim], ["do it", "go on"])
    assert of(driver.seen, TurnEnded)[1].evidence is None


def test_the_model_hears_with_the_next_message_that_the_check_passed(checks: Project) -> None:
    checks.write("pyproject.toml", "")
    passed = "go on\n\n<note>\nAfter your last answer `pytest -q` ran and passed.\n</note>"
    with ScriptedServer([EDIT, {"text": "done"}, {"text": "ok"}]) as server:
        drive(checks, server.url, ["do it", "go on"], mode="auto-edit")
        assert server.chats[-1]["messages"][-1]["content"] == passed


def test_so_does_that_of_a_resumed_session(checks: Project) -> None:
    checks.write("pyproject.toml", "")
    first = play(checks, [EDIT, {"text": "done"}], ["do it"], mode="auto-edit")
    script = [{"text": "ok"}, {"text": "ok"}]
    driver = play(checks, script, ["go on", "and on"], mode="auto-edit", resume=first.engine.agent.session.id)
    told = [chat["messages"][-1]["content"].count("`pytest -q` ran and passed.") for chat in driver.chats]
    assert told == [1, 0]


def test_a_cancelled_or_failed_turn_has_its_line_too(checks: Project) -> None:
    driver = play(checks, [EDIT, {"status": 400, "body": {"error": {"message": "no"}}}])
    assert of(driver.seen, TurnEnded)[0].status == "error"
    assert line(driver).startswith("Not checked")


def test_status_json_view_and_export_show_it(checks: Project) -> None:
    driver = play(checks, [EDIT, {"text": "Tests pass."}], ["do it", "/status"])
    told = line(driver)
    assert f"last changes: {told}" in of(driver.seen, CommandDone)[-1].text
    with ScriptedServer([]) as server:  # resumed: from the record
        (session,) = checks.logs()
        driver = drive(checks, server.url, ["/status"], resume=session.stem)
    assert f"last changes: {told}" in of(driver.seen, CommandDone)[-1].text
    for option, name in (("--html", "a.html"), ("--md", "a.md")):
        assert checks.coder("export", session.stem, option, name).returncode == 0
        text = (checks.cwd / name).read_text(encoding="utf-8")
        assert "“Tests pass.” is only claimed" in text
    with ScriptedServer([step("write", path="b.py", content="x\n"), {"text": "done"}]) as server:
        done = checks.coder("--once", "do it", "--output", "json", "--mode", "auto-edit", url=server.url)
    assert json.loads(done.stdout)["evidence"] == {"changed": ["b.py"], "unchecked": ["b.py"]}


RUN = CheckRun("pytest", "passed", "coder")


def test_what_was_taken_back_is_no_longer_told_of(checks: Project) -> None:
    driver = play(checks, [EDIT, {"text": "Done."}], ["do it", "/undo", "/status"])
    with ScriptedServer([]) as server:
        (session,) = (checks.cwd / ".coder" / "history").glob("*.jsonl")
        resumed = drive(checks, server.url, ["/status"], resume=session.stem)
    for shown in (driver, resumed):
        assert "Not checked" not in str(of(shown.seen, CommandDone)[-1].text)


@pytest.mark.parametrize(
    ("evidence", "mark"),
    [
        (Evidence(["a.py"], [], ["a.py"]), "–"),
        (Evidence(["a.py"], [RUN]), "✓"),
        (Evidence(["a.py"], [RUN, CheckRun("ruff", "failed", "model", "lint")]), "✗"),
    ],
)
def test_the_terminal_shows_one_row_with_a_mark(evidence: Evidence, mark: str) -> None:
    out = io.StringIO()
    PlainRenderer(out, None, Catalog("en"), Theme("none")).handle(Notice("said", evidence=evidence))
    assert out.getvalue() == f"{mark} said\n"
