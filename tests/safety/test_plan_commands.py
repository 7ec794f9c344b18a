"""In plan mode any command may run, where it can write nothing; without such a sandbox only what reads."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import msgspec
import pytest
from box import available, level_of

from coder.engine.approval import decide_call
from coder.engine.session import Session
from coder.policy.sandbox.backends import SandboxLevel
from coder.policy.shell.verdict import PolicyDecision
from coder.protocol.events import ApprovalRequested
from coder.protocol.ops import ApprovalReply
from kit import ScriptedServer
from kit.calls import bash, call
from kit.driving import Driver, Project, of

CONFINING = [backend for backend in available() if level_of(backend).confines]
SAID = "Any command may run, tests too, in a sandbox without network"


def played(project: Project, level: SandboxLevel, *calls: Any, **options: Any) -> Driver:
    async def scenario(url: str) -> Driver:
        driver = Driver(project, url, **{"mode": "plan", "can_ask": True, **options})
        driver.engine.agent.sandbox.level = level
        driver.start()
        await driver.send("go", lambda asked: ApprovalReply(asked.approval_id, "yes"))
        await driver.close()
        return driver

    with ScriptedServer([*({"calls": [one]} for one in calls), {"text": "done"}]) as server:
        driver = asyncio.run(scenario(server.url))
        driver.chats = server.chats
    return driver


def results(project: Project) -> list[str]:
    return [event["content"] for event in project.of_type("observation")]


@pytest.fixture(params=CONFINING)
def level(request: pytest.FixtureRequest) -> SandboxLevel:
    return level_of(request.param)


def test_any_command_runs_unasked(project: Project, level: SandboxLevel) -> None:
    project.write("venv/bin/pytest", "#!/bin/sh\necho '2 passed'\n").chmod(0o755)
    lines = ["python3 -c 'print(6 * 7)'", "venv/bin/pytest -q", "echo $(echo sub)"]
    driver = played(project, level, *map(bash, lines))
    assert of(driver.seen, ApprovalRequested) == []
    assert results(project) == ["42", "2 passed", "sub"]


def test_nothing_can_be_written_or_reached(project: Project, level: SandboxLevel) -> None:
    project.write("kept", "old\n")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        connect = f"exec 3<>/dev/tcp/127.0.0.1/{listening.getsockname()[1]} && echo reached"
        lines = ["echo new > kept; rm -f kept; touch made ../outside", f"({connect}); echo tried"]
        driver = played(project, level, *map(bash, lines))
    assert of(driver.seen, ApprovalRequested) == []
    assert (project.cwd / "kept").read_text() == "old\n"
    assert not (project.cwd / "made").exists()
    assert not (project.cwd.parent / "outside").exists()
    assert results(project)[0].startswith("error: ")
    assert "tried" in results(project)[1]
    assert "reached" not in results(project)[1]


def test_a_background_job_can_write_nothing_either(project: Project, level: SandboxLevel) -> None:
    played(project, level, bash("touch made; echo tried", background=True))
    assert "tried" in results(project)[0]
    assert not (project.cwd / "made").exists()


def test_the_scratch_directory_can_be_written(project: Project, level: SandboxLevel) -> None:
    played(project, level, bash('python3 -c "print(1)" > $TMPDIR/x && cat $TMPDIR/x'))
    assert results(project) == ["1"]


def test_a_mode_changed_before_it_starts_does_not_open_the_workspace(
    project: Project, level: SandboxLevel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What may run because nothing can be written runs where nothing can be written."""

    def ruled_before_the_change(session: Session, *call: Any) -> PolicyDecision:
        found = decide_call(session, *call)
        session.agent.mode = "default"
        return found

    monkeypatch.setattr("coder.engine.calls.decide_call", ruled_before_the_change)
    played(project, level, bash("touch made"))
    assert not (project.cwd / "made").exists()


def test_the_prompt_says_so(project: Project, level: SandboxLevel) -> None:
    told = str(played(project, level).chats[0]["messages"])
    assert SAID in told
    assert "commands that do more than look" not in told


UNCONFINED = [SandboxLevel(), SandboxLevel("landlock", scopes=False)]


@pytest.mark.parametrize("weak", UNCONFINED, ids=["none", "landlock-5"])
def test_without_a_sandbox_that_holds_only_reading_runs(project: Project, weak: SandboxLevel) -> None:
    project.write("a", "x\n")
    driver = played(project, weak, bash("python3 -c 'print(1)'"), bash("cat a"))
    assert of(driver.seen, ApprovalRequested) == []
    assert results(project)[0].startswith("denied: Plan mode runs only commands known to be read-only")
    assert results(project)[1] == "x"
    assert SAID not in str(driver.chats[0]["messages"])


def test_with_the_sandbox_off_only_reading_runs(project: Project) -> None:
    project.configure(sandbox={"mode": "off"})
    driver = played(project, level_of(CONFINING[0]) if CONFINING else SandboxLevel(), bash("python3 -c 1"))
    assert results(project)[0].startswith("denied: ")
    assert SAID not in str(driver.chats[0]["messages"])


@pytest.mark.parametrize(
    ("options", "tools"), [({"preset": "strict"}, {}), ({}, {"bash": "deny"})], ids=["strict", "configured"]
)
def test_a_denial_of_bash_holds_in_plan_too(
    project: Project, level: SandboxLevel, options: dict[str, Any], tools: dict[str, str]
) -> None:
    project.configure(permission={"tools": tools})
    played(project, level, bash("python3 -c 1"), **options)
    assert results(project)[0].startswith("denied: ")


def test_an_explicit_ask_holds_in_plan_too(project: Project, level: SandboxLevel) -> None:
    project.configure(permission={"tools": {"bash": "ask"}})
    driver = played(project, level, bash("touch made"))
    assert len(of(driver.seen, ApprovalRequested)) == 1
    assert not (project.cwd / "made").exists()


def test_exploring_stays_limited_to_what_reads(project: Project, level: SandboxLevel) -> None:
    async def scenario(url: str) -> None:
        driver = Driver(project, url, mode="plan", can_ask=True)
        driver.engine.agent.sandbox.level = level
        driver.start()
        await driver.send("go")
        await driver.close()

    explore = call("task", agent="explore", objective="look")
    script = [
        {"calls": [explore]},
        {"calls": [bash("python3 -c 'print(1)'")]},
        {"text": "seen"},
        {"text": "ok"},
    ]
    with ScriptedServer(script) as server:
        asyncio.run(scenario(server.url))
        asked = [
            message for chat in server.chats for message in chat["messages"] if message["role"] == "tool"
        ]
    assert any(str(message["content"]).startswith("denied: ") for message in asked)


def test_undo_does_not_look_at_the_tree(project: Project, level: SandboxLevel) -> None:
    driver = played(project, level, bash("python3 -c 'print(1)'"))
    assert driver.engine.agent.session.undo.shell is None


def test_the_level_of_this_test_is_one_that_confines() -> None:
    assert not any(level.confines for level in UNCONFINED)
    assert msgspec.structs.replace(UNCONFINED[1], scopes=True).confines
