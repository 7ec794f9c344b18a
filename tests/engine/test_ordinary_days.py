"""What a person does on the first day: nothing is lost to the environment, and no false fact is told."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from coder.protocol.events import ApprovalRequested
from coder.protocol.ops import ApprovalReply
from kit.calls import bash
from kit.driving import Project, of, play
from kit.places import outside_temp


def results(project: Project, *lines: str, **options: Any) -> tuple[list[str], int]:
    """What the model is told of these lines, and how many questions were asked."""
    script = [*({"calls": [bash(line)]} for line in lines), {"text": "done"}]

    def answer(asked: ApprovalRequested) -> ApprovalReply:
        return ApprovalReply(asked.approval_id, "yes")

    driver = play(project, script, answer=answer, **{"can_ask": True, **options})
    told = [event["content"] for event in project.of_type("observation")]
    return told, len(of(driver.seen, ApprovalRequested))


def with_environment(project: Project, **more: str) -> None:
    environ = project.environ
    project.environ = lambda url="", **given: environ(url, **{**more, **given})  # type: ignore[method-assign]


@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")
@pytest.mark.parametrize("mode", ["default", "yolo"])
def test_npm_installs(project: Project, mode: str) -> None:
    (project.home / ".npm").mkdir()
    project.write("package.json", '{"name": "app"}')
    manifest = json.dumps({"name": "thing", "version": "1.0.0"}).encode()
    with tarfile.open(project.cwd / "thing.tgz", "w:gz") as archive:
        info = tarfile.TarInfo("package/package.json")
        info.size = len(manifest)
        archive.addfile(info, BytesIO(manifest))
    (told,), _ = results(project, "npm install --no-audit --no-fund ./thing.tgz", mode=mode)
    assert "added 1 package" in told
    assert list((project.home / ".npm").iterdir()) == []


@pytest.mark.parametrize("place", ["home", "workspace"])
def test_unasked_and_approved_lines_run_the_person_s_own_programs(project: Project, place: str) -> None:
    """As nvm and an active venv set them up."""
    nvm = project.home / ".nvm" / "versions" / "node" / "v99.0.0" / "bin"
    venv = (project.home if place == "home" else project.cwd) / "env"
    nvm.mkdir(parents=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    for program in (nvm / "node", venv / "bin" / "tool"):
        program.write_text("#!/bin/sh\necho v99.0.0\n", encoding="utf-8")
        program.chmod(0o755)
    path = f"{venv}/bin:{nvm}:{os.environ['PATH']}"
    with_environment(project, PATH=path, VIRTUAL_ENV=str(venv))
    looks = ["node --version", "which node", "which python3", "which tool"]
    told, asked = results(project, *looks, *(f"{line} && touch made" for line in looks))
    mine = ["v99.0.0", str(nvm / "node"), str(venv / "bin" / "python3"), str(venv / "bin" / "tool")]
    assert told == mine * 2
    assert asked == 4


@pytest.fixture
def in_tmp() -> Iterator[Path]:
    path = Path(f"/tmp/coder-test-{os.getpid()}-{os.urandom(4).hex()}")
    yield path
    path.unlink(missing_ok=True)


def test_a_file_that_an_approved_line_writes_is_there(project: Project, in_tmp: Path) -> None:
    """The workspace is below /tmp itself."""
    results(project, f"echo hi > {in_tmp}", "echo x > ../f")
    assert in_tmp.read_text(encoding="utf-8") == "hi\n"
    assert (project.cwd.parent / "f").read_text(encoding="utf-8") == "x\n"


def test_a_search_finds_nothing_of_coder_s_own_records(project: Project) -> None:
    project.write("notes.txt", "needle\n")
    (_, found), _ = results(project, "echo first needle", "grep -rn needle . ; ls .coder/history; true")
    assert found.splitlines()[0] == "./notes.txt:1:needle"
    assert ".jsonl" not in found


@outside_temp
def test_any_command_runs_in_plan_mode(project: Project) -> None:
    project.write("test_a.py", "def test_a() -> None:\n    assert 6 * 7 == 42\n")
    told, _ = results(
        project, 'python3 -c "print(6 * 7)"', f"{sys.executable} -m pytest -q", "echo x > f", mode="plan"
    )
    assert told[0] == "42"
    assert "1 passed" in told[1]
    assert told[2].startswith("error: ")
    assert not (project.cwd / "f").exists()


# homes


@pytest.mark.parametrize("kind", ["read-only", "missing", "root", "link"])
def test_a_home_that_is_not_as_usual_stops_no_command(project: Project, kind: str) -> None:
    home = {
        "missing": project.cwd.parent / "nowhere",
        "root": Path("/"),
        "link": project.cwd.parent / "linked",
    }.get(kind, project.home)
    if kind == "link":
        home.symlink_to(project.home)
        (project.home / ".npm").mkdir()
    with_environment(project, HOME=str(home), CODER_HOME=str(project.home / ".coder"))
    (project.home / ".coder").mkdir()
    if kind == "read-only":
        project.home.chmod(0o555)
    try:
        told, _ = results(project, "echo looks", "touch made && echo writes", "cd ~ && pwd", mode="yolo")
    finally:
        project.home.chmod(0o755)
    assert told[:2] == ["looks", "writes"]


def test_a_check_of_a_package_in_a_monorepo_runs_unasked(project: Project) -> None:
    project.write("packages/a/test_a.py", "def test_a() -> None:\n    pass\n")
    subprocess.run(["git", "init", "-q", str(project.cwd)], check=True)
    with_environment(project, PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    told, asked = results(
        project,
        f"cd {project.cwd}/packages/a && timeout 60 pytest -q 2>&1 | tail -3; echo $?",
        "cd packages/a && python -m pytest -q --lf",
        mode="auto-edit",
    )
    assert all("1 passed" in one for one in told)
    assert asked == 0
