"""The scratch directory: one path for commands and file tools, told once, and named where /tmp is refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from coder.policy.workspace import scratch_of
from coder.protocol.events import TurnEnded, VerifyChanged
from kit.calls import bash_step, step
from kit.driving import Driver, Project, of, play


def play_steps(project: Project, *steps: dict[str, Any], **options: Any) -> tuple[Driver, list[str]]:
    """The session, and the results of its calls."""
    driver = play(project, [*steps, {"text": "done"}], **options)
    return driver, [m["content"] for m in driver.chats[-1]["messages"] if m["role"] == "tool"]


@pytest.mark.parametrize("sandbox", ["auto", "off"])
def test_commands_and_file_tools_share_it(project: Project, sandbox: str) -> None:
    project.configure(sandbox={"mode": sandbox})
    scratch = scratch_of(project.cwd)
    project.write("gradlew", "#!/bin/sh\nexit 1\n").chmod(0o755)
    driver, results = play_steps(
        project,
        bash_step('echo "in $TMPDIR"; echo one > "$TMPDIR/a.txt"'),
        step("read", path=f"{scratch}/a.txt"),
        step("write", path=f"{scratch}/sub/b.txt", content="two\n"),
        bash_step(f"cat {scratch}/sub/b.txt > {scratch}/c.txt && cat {scratch}/c.txt"),
        step("list", path=scratch),
        step("grep", pattern="tw", path=scratch),
        mode="yolo",
    )
    assert f"in {scratch}" in results[0]
    assert results[1] == "1\tone"
    assert "created" in results[2]
    assert results[3].strip() == "two"
    assert "a.txt" in results[4]
    assert "sub/b.txt" in results[5]
    system = driver.chats[0]["messages"][0]["content"]
    assert system.count(scratch) == 1
    # `go build -o /tmp/tool` works there, and the person would look for it in vain
    assert ("/tmp is private" in system) is (sandbox == "auto")
    assert of(driver.seen, VerifyChanged) == []  # nothing of the project was changed
    assert of(driver.seen, TurnEnded)[0].verification.status == "not_run"


def test_a_line_that_only_reads_sees_it_and_cannot_write_it(project: Project) -> None:
    scratch = scratch_of(project.cwd)
    Path(scratch, "a.txt").write_text("one\n", encoding="utf-8")
    _, results = play_steps(project, bash_step(f"cat {scratch}/a.txt"))
    assert results[0].strip() == "one"


@pytest.mark.parametrize("path", ["/tmp/x.txt", "/var/tmp/x.txt"])
def test_a_refusal_that_names_tmp_says_where_it_is(project: Project, path: str) -> None:
    scratch = scratch_of(project.cwd)
    Path(scratch, "x.txt").write_text("one\n", encoding="utf-8")
    _, results = play_steps(
        project,
        step("read", path=path),
        step("read", path="/etc/hostname"),
        bash_step(f"echo x > {path}"),
    )
    assert results[0].startswith("denied:")
    assert f"did you mean {scratch}/x.txt?" in results[0]
    assert scratch not in results[1]
    assert results[2].startswith("denied:")
    assert scratch in results[2]


def test_what_is_written_there_by_its_variable_is_in_plain_sight(project: Project) -> None:
    _, results = play_steps(
        project,
        bash_step('echo x > "$TMPDIR/out.log"'),
        bash_step('echo x > "$TMPDIR/../out.log"'),
    )
    assert "name is not known" not in results[0]
    assert "name is not known" in results[1]


def test_a_link_there_leads_nowhere_else(project: Project, tmp_path: Path) -> None:
    scratch = scratch_of(project.cwd)
    (tmp_path / "secret.txt").write_text("hush\n", encoding="utf-8")
    Path(scratch, "link").symlink_to(tmp_path)
    _, results = play_steps(
        project,
        step("read", path=f"{scratch}/link/secret.txt"),
        step("write", path=f"{scratch}/link/new.txt", content="x"),
        mode="yolo",
    )
    assert all(re.match("denied: .*outside the workspace", result) for result in results)
    assert not (tmp_path / "new.txt").exists()
