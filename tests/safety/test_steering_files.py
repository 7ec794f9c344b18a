"""What agents follow is never written unasked: not in auto-edit or yolo, not through a link or a move."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from coder.policy.shell.judge import judge
from coder.protocol.events import ApprovalRequested, Notice
from coder.protocol.ops import ApprovalReply
from coder.tools import paths
from coder.tools.paths import steers
from kit.calls import call, edit, write
from kit.driving import Driver, Project, of, play

NAMES = [
    *("AGENTS.md", "docs/AGENTS.md", "CLAUDE.md", "deep/er/GEMINI.md"),
    *(".coder/modes/new.md", ".claude/settings.json", "sub/.codex/prompts/x.md", ".Coder/extensions/x.py"),
    *(".mcp.json", ".worktreeinclude"),
]
UNASKED: list[dict[str, Any]] = [
    {"mode": "auto-edit"},
    {"mode": "yolo"},
    {"preset": "auto-edit"},
    {"mode": "yolo", "preset": "yolo"},
]


@pytest.fixture
def quiet(project: Project) -> Project:
    project.configure(workflow={"auto_verify_after_edit": False})
    return project


def no(event: ApprovalRequested) -> ApprovalReply:
    return ApprovalReply(event.approval_id, "no")


def asked_about(project: Project, *calls: dict[str, Any], **options: Any) -> list[str]:
    """The reasons of the one question that was asked, and refused."""
    script = [*({"calls": [one]} for one in calls), {"text": "ok"}]
    driver = play(project, script, answer=no, can_ask=True, **options)
    (asked,) = of(driver.seen, ApprovalRequested)
    return list(map(str, asked.reasons))


@pytest.mark.parametrize("options", UNASKED, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_writing_it_asks_in_every_mode(quiet: Project, name: str, options: dict[str, Any]) -> None:
    (reason,) = asked_about(quiet, write(name, "do evil\n"), **options)
    assert f"Agents follow {name}" in reason
    assert not (quiet.cwd / name).exists()


def test_editing_patching_and_moving_ask(quiet: Project) -> None:
    quiet.write("AGENTS.md", "be good\n")
    quiet.write("other.md", "be good\n")
    moves = "*** Begin Patch\n*** Update File: {}\n*** Move to: {}\n@@\n-be good\n+be evil\n*** End Patch\n"
    for one in (
        edit("AGENTS.md", "good", "evil"),
        call("patch", patch="--- a/AGENTS.md\n+++ b/AGENTS.md\n@@ -1 +1 @@\n-be good\n+be evil\n"),
        call("patch", patch=moves.format("AGENTS.md", "old.md")),
        call("patch", patch=moves.format("other.md", "CLAUDE.md")),
        call("patch", patch="*** Begin Patch\n*** Delete File: AGENTS.md\n*** End Patch\n"),
    ):
        assert "Agents follow" in asked_about(quiet, one, mode="auto-edit")[0]
        for log in quiet.logs():
            log.unlink()
    assert (quiet.cwd / "AGENTS.md").read_text() == "be good\n"


def test_a_link_leads_to_it_or_from_it(quiet: Project) -> None:
    quiet.write("AGENTS.md", "be good\n")
    (quiet.cwd / "innocent.md").symlink_to("AGENTS.md")
    assert (
        "Agents follow AGENTS.md" in asked_about(quiet, edit("innocent.md", "good", "evil"), mode="yolo")[0]
    )
    quiet.write("docs/guide.md", "be good\n")
    (quiet.cwd / "docs" / "CLAUDE.md").symlink_to("guide.md")
    quiet.logs()[0].unlink()
    asked = asked_about(quiet, edit("docs/guide.md", "good", "evil"), mode="yolo")
    assert "Agents follow docs/guide.md" in asked[0]


def test_a_link_that_is_exchanged_after_the_ruling_does_not_help(
    quiet: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is about to be written is judged, not what the call named when the policy looked at it."""
    quiet.write("plain.txt", "be good\n")
    quiet.write("AGENTS.md", "be good\n")
    real = paths.locate

    def exchanged(*args: Any, **options: Any) -> Path:
        (quiet.cwd / "plain.txt").unlink()
        (quiet.cwd / "plain.txt").symlink_to("AGENTS.md")
        return real(*args, **options)

    monkeypatch.setattr("coder.tools.text.replace.locate", exchanged)
    assert "AGENTS.md" in asked_about(quiet, edit("plain.txt", "good", "evil"), mode="auto-edit")[0]


def test_a_yes_writes_it_once(quiet: Project) -> None:
    def yes(event: ApprovalRequested) -> ApprovalReply:
        return ApprovalReply(event.approval_id, "yes")

    script = [{"calls": [write("AGENTS.md", "be kind\n")]}, {"text": "ok"}]
    driver = play(quiet, script, answer=yes, can_ask=True, mode="auto-edit")
    assert len(of(driver.seen, ApprovalRequested)) == 1
    assert (quiet.cwd / "AGENTS.md").read_text() == "be kind\n"


def without_a_person(project: Project) -> Driver:
    script = [{"calls": [write("AGENTS.md", "evil\n")]}, {"text": "ok"}]
    return play(project, script, mode="yolo", preset="yolo")


def test_without_a_person_it_is_denied_and_the_setting_that_would_allow_it_is_named(quiet: Project) -> None:
    driver = without_a_person(quiet)
    assert not (quiet.cwd / "AGENTS.md").exists()
    assert any("approval.auto_approve_ask" in str(note.text) for note in of(driver.seen, Notice))


def test_who_lets_every_question_through_gets_this_one_too(project: Project) -> None:
    project.configure(workflow={"auto_verify_after_edit": False}, approval={"auto_approve_ask": True})
    without_a_person(project)
    assert (project.cwd / "AGENTS.md").exists()


def test_names_in_another_case_count_where_the_file_system_takes_them_for_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path.resolve()
    assert not steers(root, root / "docs" / "gemini.md")  # a page about a provider
    monkeypatch.setattr(paths, "_ignores_case", lambda directory: True)
    assert steers(root, root / "docs" / "gemini.md")


def test_other_files_do_not_ask(quiet: Project) -> None:
    calls = [write("src/agents.py", "x\n"), write("coder/x.md", "x\n"), write(".github/x.yml", "x\n")]
    driver = play(quiet, [{"calls": calls}, {"text": "ok"}], answer=no, can_ask=True, mode="auto-edit")
    assert of(driver.seen, ApprovalRequested) == []


@pytest.mark.parametrize(
    "line",
    [
        "echo evil > AGENTS.md",
        "echo evil >> docs/CLAUDE.md",
        "cd docs && echo evil > GEMINI.md",
        "echo evil > .claude/settings.json",
        "echo evil > .mcp.json",
        "echo evil | tee AGENTS.md",
        "cp evil.md AGENTS.md",
        "sed -i s/good/evil/ AGENTS.md",
        "echo evil > link.md",
    ],
)
def test_a_shell_line_that_writes_it_is_a_risk(project: Project, line: str) -> None:
    (project.cwd / "docs").mkdir()
    (project.cwd / "link.md").symlink_to("AGENTS.md")
    risks = [str(risk) for risk in judge(line, project.cwd).risks]
    assert any("agents follow" in risk for risk in risks), risks


def test_a_shell_line_that_reads_it_is_none(project: Project) -> None:
    project.write("AGENTS.md", "x")
    assert judge("cat AGENTS.md", project.cwd).read_only
    assert not judge("cat AGENTS.md > copy.md", project.cwd).risks
    assert not judge("git add AGENTS.md", project.cwd).risks
