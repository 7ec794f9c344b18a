"""An approval holds for the files and contents that were shown; if they are exchanged it is asked again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from coder.protocol.events import ApprovalRequested
from coder.protocol.ops import ApprovalReply
from coder.tools.text.hunks import Review
from kit.calls import bash, call, edit, step, write
from kit.driving import Driver, Project, of, play

PATCH = call("patch", patch="--- a/link.txt\n+++ b/link.txt\n@@ -1 +1 @@\n-one\n+changed\n")
AGAIN = "It changed after you were asked"
Swap = Callable[[Project], None]


def play_swapping(project: Project, calls: list[dict[str, Any]], swap: Swap, **options: Any) -> Driver:
    """A person who says yes to everything, and somebody who exchanges files before the first answer."""
    asked: list[ApprovalRequested] = []

    def answer(event: ApprovalRequested) -> ApprovalReply:
        asked.append(event)
        if len(asked) == 1:
            swap(project)
        return ApprovalReply(event.approval_id, "yes")

    script = [{"calls": [one]} for one in calls]
    return play(project, [*script, {"text": "done"}], answer=answer, can_ask=True, **options)


def relink(project: Project) -> None:
    """Another file, with the same content."""
    (project.cwd / "link.txt").unlink()
    (project.cwd / "link.txt").symlink_to("precious.txt")


@pytest.fixture
def linked(project: Project) -> Project:
    project.configure(workflow={"auto_verify_after_edit": False})
    for name in ("draft.txt", "precious.txt"):
        project.write(name, "one\n")
    (project.cwd / "link.txt").symlink_to("draft.txt")
    return project


CALLS = {
    "edit": [edit("link.txt", "one", "changed")],
    "patch": [PATCH],
    "write": [
        call("read", path="precious.txt"),
        call("read", path="link.txt"),
        write("link.txt", "changed\n"),
    ],
}


@pytest.mark.parametrize("tool", list(CALLS))
def test_a_link_that_leads_elsewhere_is_asked_about_again(linked: Project, tool: str) -> None:
    driver = play_swapping(linked, CALLS[tool], relink)
    first, second = of(driver.seen, ApprovalRequested)
    assert "draft.txt" in first.subject
    assert "precious.txt" in second.subject
    assert AGAIN in second.reasons[0]
    assert "precious.txt" in second.reasons[0]
    assert (linked.cwd / "draft.txt").read_text() == "one\n"
    assert (linked.cwd / "precious.txt").read_text() == "changed\n"  # the second yes was for this


def test_what_is_refused_the_second_time_is_not_written(linked: Project) -> None:
    answers = iter(["yes", "no"])

    def answer(event: ApprovalRequested) -> ApprovalReply:
        if (said := next(answers)) == "yes":
            relink(linked)
        return ApprovalReply(event.approval_id, said)  # type: ignore[arg-type]

    play(linked, [step("edit", **CALLS["edit"][0]["arguments"]), {"text": "ok"}], answer=answer, can_ask=True)
    assert (linked.cwd / "precious.txt").read_text() == "one\n"


def test_another_content_is_asked_about_again(linked: Project) -> None:
    def change(project: Project) -> None:
        project.write("draft.txt", "zero\none\n")

    driver = play_swapping(linked, CALLS["edit"], change)
    first, second = of(driver.seen, ApprovalRequested)
    assert "zero" not in first.subject
    assert "zero" in second.subject
    assert (linked.cwd / "draft.txt").read_text() == "zero\nchanged\n"


def test_a_file_that_never_stays_is_given_up(linked: Project) -> None:
    asked: list[ApprovalRequested] = []

    def answer(event: ApprovalRequested) -> ApprovalReply:
        asked.append(event)
        linked.write("draft.txt", f"{len(asked)}\none\n")
        return ApprovalReply(event.approval_id, "yes")

    play(linked, [{"calls": CALLS["edit"]}, {"text": "ok"}], answer=answer, can_ask=True)
    assert len(asked) == 3
    (told,) = linked.of_type("observation")
    assert told["content"].startswith("error: nothing was written: It changed after you were asked")
    assert (linked.cwd / "draft.txt").read_text() == "3\none\n"


def test_what_was_taken_of_a_change_goes_to_the_file_that_was_shown(linked: Project) -> None:
    between = "".join(f"{n}\n" for n in range(10))
    for name in ("draft.txt", "precious.txt"):
        linked.write(name, f"one\n{between}one\n")
    asked: list[ApprovalRequested] = []

    def answer(event: ApprovalRequested) -> ApprovalReply:
        asked.append(event)
        if len(asked) == 1:
            relink(linked)  # the diff names draft.txt, which is exchanged as well
            (linked.cwd / "draft.txt").unlink()
            (linked.cwd / "draft.txt").symlink_to("precious.txt")
        review = Review(str(event.subject))
        review.take()
        review.leave("no")
        return review.reply(event)

    change = call("edit", path="link.txt", old_string="one", new_string="changed", replace_all=True)
    play(linked, [{"calls": [change]}, {"text": "ok"}], answer=answer, can_ask=True)
    assert len(asked) == 2
    assert AGAIN in str(asked[1].reasons[0])
    assert (linked.cwd / "precious.txt").read_text() == f"changed\n{between}one\n"  # by the second answer


def test_an_amended_diff_cannot_move_another_file_here(linked: Project) -> None:
    moved = "*** Begin Patch\n*** Update File: precious.txt\n*** Move to: draft.txt\n*** End Patch\n"

    def answer(event: ApprovalRequested) -> ApprovalReply:
        return ApprovalReply(event.approval_id, "yes", amended=moved)

    play(linked, [{"calls": CALLS["edit"]}, {"text": "ok"}], answer=answer, can_ask=True)
    (told,) = linked.of_type("observation")
    assert "the amended diff names other files: precious.txt" in told["content"]
    assert (linked.cwd / "precious.txt").exists()


@pytest.mark.parametrize("scope", ["project", "home"])
def test_memory_is_saved_to_the_file_that_was_shown(project: Project, scope: str) -> None:
    def directory(project: Project) -> Path:
        return (project.cwd if scope == "project" else project.home) / ".coder"

    def swap(project: Project) -> None:
        (directory(project) / "memory.md").unlink(missing_ok=True)
        (directory(project) / "memory.md").write_text("# Memory\n\n- planted\n")

    driver = play_swapping(project, [call("save_memory", fact="Tea at four.", scope=scope)], swap)
    _, second = of(driver.seen, ApprovalRequested)
    assert AGAIN in second.reasons[0]
    assert "Tea at four." in (directory(project) / "memory.md").read_text()


LINES = ["echo changed > link.txt", "true && printf changed | tee link.txt", "cd . && cp new.txt link.txt"]


@pytest.mark.parametrize("line", LINES)
def test_a_line_whose_link_leads_elsewhere_is_asked_about_again(linked: Project, line: str) -> None:
    linked.write("new.txt", "changed\n")
    driver = play_swapping(linked, [bash(line)], relink)
    first, second = of(driver.seen, ApprovalRequested)
    assert first.subject == second.subject == line
    assert AGAIN in str(second.reasons[0])
    assert str(linked.cwd / "precious.txt") in str(second.reasons[0])
    assert (linked.cwd / "draft.txt").read_text() == "one\n"


def test_a_line_that_a_link_leads_out_of_the_workspace_is_not_run_unasked(linked: Project) -> None:
    beside = linked.cwd.parent / "beside.txt"

    def lead_out(project: Project) -> None:
        (project.cwd / "link.txt").unlink()
        (project.cwd / "link.txt").symlink_to(beside)

    outside = {"name": "bash", "arguments": {"command": "echo x > link.txt", "sandbox": "off", "reason": "r"}}
    driver = play_swapping(linked, [outside], lead_out, mode="yolo")
    _, second = of(driver.seen, ApprovalRequested)
    assert str(beside) in str(second.reasons[0])


def test_a_line_that_stays_the_same_is_asked_about_once(linked: Project) -> None:
    driver = play_swapping(linked, [bash("echo changed > link.txt")], lambda _project: None)
    assert len(of(driver.seen, ApprovalRequested)) == 1
    assert (linked.cwd / "draft.txt").read_text() == "changed\n"


@pytest.mark.parametrize(("line", "runs"), [("echo x > made.txt", False), ("echo x > ~/made.txt", True)])
def test_no_line_leaves_the_sandbox_through_files_that_a_job_can_exchange(
    project: Project, line: str, runs: bool
) -> None:
    job = call("bash", command="sleep 61.125", background=True)
    outside = call("bash", command=line, sandbox="off", reason="r")
    play_swapping(project, [job, outside], lambda _project: None, mode="yolo")
    _, told = project.of_type("observation")
    assert told["meta"]["ok"] == runs
    assert ("Background jobs are running" in told["content"]) != runs
