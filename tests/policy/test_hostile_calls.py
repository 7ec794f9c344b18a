"""Edge cases of a hostile model's calls, each held by a rule of the policy."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from coder.policy.sandbox.backends import SandboxLevel
from coder.policy.verification import is_verification
from coder.protocol.events import AnyEvent, ApprovalRequested, ToolCallChanged
from coder.protocol.ops import ApprovalReply, SetOperatingMode, UserInput
from kit import ScriptedServer
from kit.calls import step
from kit.driving import Driver, Project, of


def steered_repository(project: Project) -> Path:
    """A repository whose settings name a program that git starts for `git status`; returns the file it
    creates.
    """
    made = project.cwd.parent / "made"
    program = project.write("monitor", f"#!/bin/sh\ntouch {made}\n")
    program.chmod(0o755)
    subprocess.run(["git", "init", "-q"], cwd=project.cwd, check=True)
    subprocess.run(["git", "config", "core.fsmonitor", str(program)], cwd=project.cwd, check=True)
    return made


@pytest.mark.parametrize("mode", ["default", "plan"])
def test_a_job_that_only_looks_does_not_believe_the_repository(project: Project, mode: str) -> None:
    """A read-only job runs no program of the repository's settings, with or without a sandbox."""
    made = steered_repository(project)

    async def run(url: str) -> None:
        driver = Driver(project, url, mode=mode)
        driver.engine.agent.sandbox.level = SandboxLevel()
        driver.engine.agent.sandbox.confirmed = True
        driver.start()
        await driver.send("go")
        await driver.close()

    script = [
        step("bash", command="git status", background=True),
        step("job", action="wait"),
        {"text": "ok"},
    ]
    with ScriptedServer(script) as server:
        asyncio.run(run(server.url))
    assert project.of_type("observation")[0]["meta"]["ok"]
    assert not made.exists()


def test_plan_binds_a_subagent_that_was_started_before(project: Project) -> None:
    def answer(request: dict[str, Any]) -> dict[str, Any]:
        messages = request["messages"]
        results = sum(1 for message in messages if message["role"] == "tool")
        if "You are a subagent" not in messages[0]["content"]:
            return {"text": "done"} if results else step("task", agent="general", objective="write two files")
        steps = [
            step("write", path="first", content="1"),
            step("write", path="second", content="2"),
        ]
        return steps[results] if results < 2 else {"text": "reported"}

    async def run(url: str) -> None:
        driver = Driver(project, url, preset="auto-edit", can_ask=True)
        driver.start()

        def watch(event: AnyEvent) -> None:
            if isinstance(event, ToolCallChanged) and event.tool.endswith("write"):
                driver.engine.submit(SetOperatingMode("plan"))

        driver.engine.submit(UserInput("go"))
        await driver.until_idle(lambda asked: ApprovalReply(asked.approval_id, "yes"), watch)
        await driver.close()

    with ScriptedServer([answer] * 9) as server:
        asyncio.run(run(server.url))
    assert (project.cwd / "first").exists()
    assert not (project.cwd / "second").exists()


def test_a_question_that_is_answered_in_plan_changes_nothing(project: Project) -> None:
    async def run(url: str) -> Driver:
        driver = Driver(project, url, can_ask=True)
        driver.start()

        def reply(asked: ApprovalRequested) -> ApprovalReply:
            driver.engine.submit(SetOperatingMode("plan"))
            return ApprovalReply(asked.approval_id, "yes")

        await driver.send("go", reply)
        await driver.close()
        return driver

    with ScriptedServer([step("write", path="made", content="1"), {"text": "done"}]) as server:
        driver = asyncio.run(run(server.url))
    assert len(of(driver.seen, ApprovalRequested)) == 1
    assert not (project.cwd / "made").exists()


def test_a_check_stays_in_the_workspace_as_the_shell_walks(tmp_path: Path) -> None:
    """The shell resolves `cd link/..` lexically, the file system physically: both must stay inside."""
    root = tmp_path / "root"
    (root / "b" / "c").mkdir(parents=True)
    (root / "a").symlink_to("b/c")
    assert is_verification("cd b/c && pytest -q", root)
    assert not is_verification("cd a/../.. && pytest -q", root)


@pytest.mark.parametrize("blank", ["\u00a0", "\u2028", "\x0b", "\x1c", "\u3000", "\r"])
def test_a_check_is_the_letter_that_bash_reads(blank: str, tmp_path: Path) -> None:
    """White space that is none to bash is part of a word: another program's name."""
    assert not is_verification(f"{blank}pytest -q", tmp_path)
    assert not is_verification(f"pytest -q{blank}", tmp_path)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("edit", """{"path": "a", "diff": "<<<<<<< SEARCH\\n" * 60_000}"""),
        ("edit", """{"path": "a", "diff": "<<<<<<< SEARCH\\na\\n=======\\n" * 40_000}"""),
        ("bash", """{"command": "apply_patch <<EOF\\n" + "\\n" * 400_000}"""),
        ("bash", """{"command": ["bash", "-lc", "apply_patch <<EOF\\n" + " \\nEOF x" * 150_000]}"""),
    ],
)
def test_a_call_in_anothers_shape_is_read_in_one_pass(tool: str, arguments: str) -> None:
    """Parsing is linear: a quadratic expression would take hours with the GIL held, and block a cancel."""
    program = f"""
import resource
from pathlib import Path
from coder.tools import bash, edit, patch
from coder.tools.calls.resolve import resolve_call
resource.setrlimit(resource.RLIMIT_CPU, (30, 30))
tools = {{"edit": edit.Edit(), "patch": patch.Patch(), "bash": bash.Bash()}}
print(resolve_call({tool!r}, {arguments}, tools, Path("/"))[0].spec.name)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.strip() in ("bash", "patch"), done.stderr[-500:]


@pytest.mark.parametrize(
    "program",
    [
        """matcher("**/" * 30 + "x")("a/" * 50 + "b")""",
        """matcher("**/a*/" * 12 + "x")("a/" * 900 + "b")""",
        """matcher("*a" * 40 + "*b")("a" * 250)""",
        """matcher("{" * 4000)("a")""",
        """list(window_starts(["a"] * 400_000, ["a"] * 200_000 + ["b"]))""",
    ],
)
def test_a_search_takes_one_pass_whatever_it_is_for(program: str) -> None:
    """Matching is linear in hostile names and patterns: no backtracking with the GIL held."""
    start = "import resource; resource.setrlimit(resource.RLIMIT_CPU, (30, 30))\n"
    start += (
        "from coder.tools.search.globs import matcher\nfrom coder.tools.text.match import window_starts\n"
    )
    done = subprocess.run([sys.executable, "-c", start + program], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr[-500:]


@pytest.mark.parametrize("arguments", [{"command": []}, [], {"cmd": []}, {"command": [[]]}])
def test_a_command_of_no_words_is_answered(project: Project, arguments: Any) -> None:
    script = [{"calls": [{"name": "bash", "arguments": arguments}]}, {"text": "done"}]
    with ScriptedServer(script) as server:
        done = project.coder("--once", "go", "--mode", "yolo", url=server.url)
    assert done.returncode == 0, done.stderr
    (seen,) = project.of_type("observation")
    assert seen["content"].startswith("error: ")
