"""Files that commands changed are in the turn's end, the action log and a file's history."""

from __future__ import annotations

from typing import Any

from coder.context.action_log import ActionLog
from coder.history.log import read_log
from coder.protocol.events import ToolCallChanged
from coder.ui.browser.records import Outline
from kit.calls import bash, call, write
from kit.driving import Driver, Project, of, play


def played(project: Project, *calls: dict[str, Any]) -> Driver:
    script: list[Any] = [*({"calls": [one]} for one in calls), {"text": "done"}]
    return play(project, script, ["go"], mode="yolo")


def verification(project: Project) -> dict[str, Any]:
    found: dict[str, Any] = project.of_type("turn_end")[-1]["meta"]["verification"]
    return found


def action_log(project: Project) -> ActionLog:
    found = ActionLog()
    for event in read_log(project.logs()[0]):
        found.take(event)
    return found


def test_a_file_changed_by_a_command_alone_is_named(project: Project) -> None:
    project.write("kept.txt", "a\n")
    played(project, bash("echo b > kept.txt; mkdir sub; echo c > sub/new.txt"))
    (seen,) = project.of_type("observation")
    assert seen["meta"]["changed"] == ["kept.txt", "sub", "sub/new.txt"]
    assert verification(project)["changed_since"] == ["kept.txt", "sub", "sub/new.txt"]
    assert verification(project)["status"] == "not_run"
    assert list(action_log(project).changed) == ["kept.txt", "sub", "sub/new.txt"]
    outline = Outline(project.logs()[0])
    outline.read_on()
    assert outline.files["sub/new.txt"] == [1]


def test_a_command_that_changed_nothing_names_nothing(project: Project) -> None:
    played(project, bash("echo hello > /dev/null"))
    (seen,) = project.of_type("observation")
    assert "changed" not in seen["meta"]
    assert verification(project)["changed_since"] == []


def test_a_check_of_the_models_own_counts_after_a_command_changed_files(project: Project) -> None:
    project.write(".venv/bin/pytest", "#!/bin/sh\necho 1 passed\n").chmod(0o755)
    played(project, bash("echo 'X = 1' > one.py"), bash("pytest -q"), bash("echo 'X = 2' > two.py"))
    found = verification(project)
    assert (found["status"], found["command"]) == ("passed", "pytest -q")
    assert found["changed_since"] == ["two.py"]


def test_a_subagents_commands_count_for_the_parents_turn(project: Project) -> None:
    script: list[Any] = [
        {"calls": [call("task", agent="general", objective="make it")]},
        {"calls": [bash("echo x > by_child.txt")]},
        {"text": "made"},
        {"text": "done"},
    ]
    play(project, script, ["go"], mode="yolo")
    assert verification(project)["changed_since"] == ["by_child.txt"]
    assert list(action_log(project).changed) == ["by_child.txt"]


def test_the_action_log_knows_that_a_job_has_ended(project: Project) -> None:
    played(project, bash("sleep 60", background=True))
    found = action_log(project)
    assert found.commands == {"sleep 60": "background job, stopped by the session"}
    running = ActionLog()
    for event in read_log(project.logs()[0]):
        if event.type != "job":
            running.take(event)
    assert running.commands == {"sleep 60": "runs as background job 1"}


def test_one_match_in_one_file(project: Project) -> None:
    project.write("a.txt", "needle\n")
    project.write("b.txt", "hay\nhay\n")
    driver = played(project, call("grep", pattern="needle"), call("grep", pattern="hay"))
    told = [str(one.summary) for one in of(driver.seen, ToolCallChanged) if one.state == "success"]
    assert told == ["1 match in 1 file", "2 matches in 1 file"]


def test_the_places_that_commands_may_write_are_listed_with_and(project: Project) -> None:
    project.configure(sandbox={"writable": ["/var/cache/x"]})
    driver = played(project, write("a", "x\n"))
    told = str(driver.chats[0]["messages"])
    assert "file tools too) and /var/cache/x; the rest" in told


def test_the_action_log_has_the_end_of_what_a_failing_command_printed(project: Project) -> None:
    line = "seq 200; echo ======== ERRORS ========; echo 1 error in 0.3s; exit 2"
    played(project, bash(line))
    (outcome,) = action_log(project).commands.values()
    assert outcome.startswith("exit 2: …")
    assert outcome.endswith("200 ERRORS 1 error in 0.3s")


def test_the_action_log_leaves_out_what_a_subagent_could_not_do(project: Project) -> None:
    script: list[Any] = [
        {"calls": [call("task", agent="explore", objective="look")]},
        {"calls": [call("edit", path="a", old_string="1", new_string="2"), bash("touch x")]},
        {"text": "seen"},
        {"text": "done"},
    ]
    play(project, script, ["go"], mode="yolo", preset="yolo")
    found = action_log(project)
    assert (found.failures, found.commands) == ({}, {})


def test_the_action_log_has_no_list_that_another_has_replaced(project: Project) -> None:
    inputs = ["1. read it 2. mend it", "Now say in a few words how long that took."]
    play(project, [{"text": "a"}, {"text": "b"}], inputs)
    assert action_log(project).todos == []
