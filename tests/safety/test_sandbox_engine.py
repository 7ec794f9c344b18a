"""The sandbox as the engine uses it: around every command that is not the person's own, on each backend."""

from __future__ import annotations

import asyncio
import shutil
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest
from box import SECRET, available, level_of

from coder.policy.sandbox import probe as sandbox_probe
from coder.policy.sandbox.backends import Hitch, SandboxLevel
from coder.policy.shell.verdict import PolicyDecision
from coder.protocol.events import CommandDone, Notice
from coder.protocol.ops import ApprovalReply
from kit import ScriptedServer
from kit.calls import bash
from kit.driving import Driver, Project, drive, of

RUNGS = available()
# What a hostile line tries, to be put into whatever runs lines.
HOSTILE = (
    "echo out > ../escaped; cat ~/.ssh/key ~/.coder/key > stolen; echo x > .git/hooks/pre-push; "
    "echo x > .coder/config.json; echo x >> .git/config; echo ../evil > .git/commondir; echo done > tried"
)


def prepared(project: Project) -> dict[str, bytes]:
    """A repository and a home with secrets; what must stay as it is."""
    for name, text in {
        "project/.git/config": "[core]\n",
        "project/.git/hooks/pre-push": "#!/bin/sh\n",
        "project/.coder/config.json": "{}",
        "home/.ssh/key": SECRET,
        "home/.coder/key": SECRET,
    }.items():
        path = project.cwd.parent / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return state(project)


def state(project: Project) -> dict[str, bytes]:
    root = project.cwd.parent
    places = [project.cwd / ".git", project.home / ".ssh", project.cwd / ".coder" / "config.json"]
    files = [p for place in places for p in ([place] if place.is_file() else place.rglob("*")) if p.is_file()]
    beside = {str(path): b"" for path in root.iterdir()}
    return {**beside, **{str(path): path.read_bytes() for path in files}}


def played(
    project: Project, backend: str, script: list[Any], *inputs: str, resume: str | None = None, **options: Any
) -> Driver:
    async def scenario(url: str) -> Driver:
        driver = Driver(project, url, **{"mode": "yolo", "preset": "yolo", **options})
        driver.engine.agent.sandbox.level = level_of(backend)
        driver.engine.agent.sandbox.confirmed = True
        driver.start(resume)
        for text in inputs or ("go",):
            await driver.send(text)
        await driver.close()
        return driver

    with ScriptedServer(script) as server:
        return asyncio.run(scenario(server.url))


def approved(project: Project, backend: str, script: list[Any], **options: Any) -> Driver:
    """As `played`, but a person is asked, and says yes."""

    async def scenario(url: str) -> Driver:
        driver = Driver(project, url, **{"can_ask": True, **options})
        driver.engine.agent.sandbox.level = level_of(backend)
        driver.engine.agent.sandbox.confirmed = True
        driver.start()
        await driver.send("go", lambda e: ApprovalReply(e.approval_id, "yes"))
        await driver.close()
        return driver

    with ScriptedServer(script) as server:
        return asyncio.run(scenario(server.url))


def by_task(line: str) -> list[Any]:
    def answer(request: dict[str, Any]) -> dict[str, Any]:
        if any(m["role"] == "tool" for m in request["messages"]):
            return {"text": "done"}
        chore = any(m["role"] == "user" and m["content"].startswith("chore") for m in request["messages"])
        call = {"name": "task", "arguments": {"agent": "general", "objective": "chore"}}
        return {"calls": [bash(line) if chore else call]}

    return [answer] * 4


def run_by(project: Project, backend: str, who: str) -> None:
    if who == "bash":
        played(project, backend, [{"calls": [bash(HOSTILE)]}, {"text": "ok"}])
    elif who == "subagent":
        played(project, backend, by_task(HOSTILE))
    elif who == "verify":
        project.write("gradlew", f"#!/bin/sh\n{HOSTILE}\n").chmod(0o755)
        edit = {"name": "write", "arguments": {"path": "app.py", "content": "x = 1\n"}}
        project.configure(workflow={"max_verify_attempts": 1})
        played(project, backend, [{"calls": [edit]}, {"text": "ok"}])
    else:
        mode = f"---\nkind: instant\ndescription: d\n---\n!`{HOSTILE}`\n"
        directory = project.home / ".coder" / "modes"
        directory.mkdir()
        (directory / "evil.md").write_text(mode, encoding="utf-8")
        played(project, backend, [{"text": "ok"}], "/evil")


@pytest.mark.parametrize("who", ["bash", "subagent", "verify", "mode"])
@pytest.mark.parametrize("backend", RUNGS)
def test_every_line_that_is_not_the_person_s_is_inside(project: Project, backend: str, who: str) -> None:
    before = prepared(project)
    project.configure(approval={"auto_approve_ask": True})  # it names files that agents obey
    run_by(project, backend, who)
    assert (project.cwd / "tried").read_text() == "done\n"  # it did run, to its end
    assert state(project) == before
    stolen = project.cwd / "stolen"
    assert not stolen.exists() or SECRET not in stolen.read_text()


def test_the_person_s_own_is_not(project: Project) -> None:
    prepared(project)
    with ScriptedServer([]) as server:
        drive(project, server.url, ["!echo out > ../escaped; cat ~/.ssh/key > own"])
    assert (project.cwd.parent / "escaped").exists()
    assert (project.cwd / "own").read_text() == SECRET


@pytest.mark.parametrize("backend", RUNGS)
def test_plan_is_enforced_by_the_sandbox_and_not_by_the_policy_alone(
    project: Project, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Should the policy ever take a line for read-only that is not."""
    monkeypatch.setattr("coder.engine.calls.decide_call", lambda *_: PolicyDecision("allow", []))
    project.write("kept", "old\n")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        connect = f"exec 3<>/dev/tcp/127.0.0.1/{port} && echo connected"
        line = f"echo new > kept; touch made; rm -f kept; mkdir d; {connect}; echo tried"
        played(project, backend, [{"calls": [bash(line)]}, {"text": "ok"}], mode="plan")
    assert (project.cwd / "kept").read_text() == "old\n"
    assert not (project.cwd / "made").exists()
    assert not (project.cwd / "d").exists()
    (event,) = project.of_type("observation")
    assert "tried" in event["content"]
    assert "connected" not in event["content"]


@pytest.mark.parametrize("backend", RUNGS)
def test_the_network_is_on_in_the_other_modes_and_one_setting_turns_it_off(
    project: Project, backend: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        line = f"exec 3<>/dev/tcp/127.0.0.1/{listening.getsockname()[1]} && echo connected"
        script = [{"calls": [bash(line)]}, {"text": "ok"}]
        project.configure(approval={"auto_approve_ask": True})
        played(project, backend, script * 3, "/default", "go", "/auto-edit", "go", "/yolo", "go")
        contents = [event["content"] for event in project.of_type("observation")]
        assert ["connected" in content for content in contents] == [True] * 3
        (log,) = project.logs()
        log.unlink()
        project.configure(sandbox={"network": False})
        played(project, backend, script)
    assert "connected" not in project.of_type("observation")[0]["content"]


@pytest.mark.thorough
def test_the_level_is_said_at_the_first_use_and_shown_by_status_and_doctor(project: Project) -> None:
    script = [{"calls": [bash("true")]}, {"calls": [bash("true")]}, {"text": "ok"}]
    with ScriptedServer(script) as server:
        driver = drive(project, server.url, ["/status", "go", "/status"], mode="yolo")
        doctor = project.coder("doctor", url=server.url)
    told = [n.text for n in of(driver.seen, Notice) if "sandbox" in n.text]
    assert len(told) == 1
    level = told[0].partition("sandbox: ")[2]
    before, after = (done.text for done in of(driver.seen, CommandDone))
    assert "tried out with the first command" in before
    assert f"sandbox: {level}" in after
    assert level in doctor.stdout


def test_it_is_tried_out_once_for_all_sessions(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    trials: list[str] = []
    trial = sandbox_probe.trial

    def counted(level: SandboxLevel, cache_dir: Path, *, network: bool) -> Hitch | None:
        trials.append(level.backend)
        return trial(level, cache_dir, network=network)

    monkeypatch.setattr(sandbox_probe, "trial", counted)
    counts = []
    for _ in range(2):
        with ScriptedServer([{"calls": [bash("true")]}, {"text": "ok"}]) as server:
            drive(project, server.url, ["go"], mode="yolo")
        counts.append(len(trials))
    assert counts[0] > 0
    assert counts[1] == counts[0]


def test_where_it_is_required_and_there_is_none_nothing_runs(project: Project) -> None:
    project.configure(sandbox={"mode": "require"})
    played(project, "none", [{"calls": [bash("touch made")]}, {"text": "ok"}])
    assert not (project.cwd / "made").exists()
    (event,) = project.of_type("observation")
    assert event["content"].startswith("error: The sandbox is required")


# git


def git(directory: Path, *words: str) -> str:
    who = ["-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "init.defaultBranch=main"]
    done = subprocess.run(["git", *who, *words], cwd=directory, capture_output=True, check=True)
    return done.stdout.decode("utf-8")


def repository(project: Project) -> None:
    git(project.cwd, "init", "-q")
    project.write("a", "one\n")
    git(project.cwd, "add", "a")
    git(project.cwd, "commit", "-qm", "first")


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
@pytest.mark.parametrize("backend", RUNGS)
def test_ordinary_git_work_needs_no_settings(project: Project, backend: str) -> None:
    repository(project)
    me = "git -c user.name=t -c user.email=t@localhost"
    line = (
        f"set -e; echo two >> a; {me} commit -qam two; git switch -qc side; echo 3 > b; git add b; "
        f"{me} commit -qm three; git switch -q main; {me} merge -q --no-ff -m merged side; {me} tag v1; "
        f"echo x >> a; {me} stash -q; git stash pop -q; git restore a; {me} commit -q --amend -m four; "
        f"git reset -q --hard HEAD; git gc -q; git log --oneline | wc -l"
    )
    played(project, backend, [{"calls": [bash(line)]}, {"text": "ok"}])
    (event,) = project.of_type("observation")
    assert event["meta"]["ok"], event["content"]
    assert event["meta"]["stdout"].strip() == "4"


SETTINGS = "git config user.email me@localhost && git remote add origin ../there && git branch -m trunk"


@pytest.mark.parametrize("backend", RUNGS)
@pytest.mark.parametrize("line", ["git config core.fsmonitor ./evil.sh", SETTINGS])
def test_git_s_settings_are_closed_to_what_nobody_approved(project: Project, backend: str, line: str) -> None:
    repository(project)
    before = (project.cwd / ".git" / "config").read_bytes()
    played(project, backend, [{"calls": [bash(line)]}, {"text": "ok"}])
    (event,) = project.of_type("observation")
    assert (project.cwd / ".git" / "config").read_bytes() == before
    if backend == "bwrap":  # put back afterwards on the weaker backend, not stopped
        assert f"Commands may not write {project.cwd}/.git/config" in event["content"]


@pytest.mark.parametrize("backend", RUNGS)
def test_daily_settings_of_git_can_be_made_by_lines_that_a_person_approved(
    project: Project, backend: str
) -> None:
    repository(project)
    approved(project, backend, [{"calls": [bash(SETTINGS)]}, {"text": "ok"}])
    (event,) = project.of_type("observation")
    assert event["meta"]["ok"], event["content"]
    assert git(project.cwd, "config", "remote.origin.url").strip() == "../there"
    assert git(project.cwd, "config", "--local", "user.email").strip() == "me@localhost"


@pytest.mark.parametrize("backend", RUNGS)
@pytest.mark.parametrize(
    "line",
    [
        'git branch "x$(sh evil.sh)"',
        "git tag v1; sh evil.sh",
        "git fetch; echo '[core] fsmonitor = evil' >> .git/config",
        "git -c alias.x='!sh evil.sh' x; git tag v1",
        "make; git tag v1",
    ],
)
def test_what_else_an_approved_line_starts_may_not(project: Project, backend: str, line: str) -> None:
    repository(project)
    project.write("evil.sh", "printf '[core]\\n\\tfsmonitor = evil\\n' >> .git/config\n")
    project.write("Makefile", "all:\n\tsh evil.sh\n")
    before = (project.cwd / ".git" / "config").read_bytes()
    approved(project, backend, [{"calls": [bash(line)]}, {"text": "ok"}])
    assert len(project.of_type("observation")) == 1
    assert (project.cwd / ".git" / "config").read_bytes() == before


@pytest.mark.parametrize("backend", RUNGS)
def test_git_cannot_be_pointed_elsewhere(project: Project, backend: str) -> None:
    """`commondir` makes git read another directory's settings, which name programs to run."""
    repository(project)
    line = (
        "cp -r .git evil; git config -f evil/config core.fsmonitor ./evil.sh; echo ../evil > .git/commondir"
    )
    played(project, backend, [{"calls": [bash(line)]}, {"text": "ok"}])
    assert (project.cwd / "evil" / "config").exists()
    assert not (project.cwd / ".git" / "commondir").exists()
    assert "evil" not in git(project.cwd, "config", "--list")


@pytest.mark.parametrize("backend", RUNGS)
def test_a_worktree_s_pointer_stays(project: Project, backend: str) -> None:
    """`.git` is a file there; another one in its place would be another repository."""
    main = project.cwd.parent / "main"
    main.mkdir()
    git(main, "init", "-q")
    git(main, "commit", "-q", "--allow-empty", "-m", "first")
    shutil.rmtree(project.cwd)
    git(main, "worktree", "add", "-q", str(project.cwd))
    before = (project.cwd / ".git").read_bytes()
    config = (main / ".git" / "config").read_bytes()
    line = (
        "echo 'gitdir: ./evil' > .git; mv .git g; rm -f .git; ln -sf evil .git; mkdir .git; "
        f"git config core.fsmonitor evil; echo evil >> {main}/.git/config; git status; echo tried"
    )
    played(project, backend, [{"calls": [bash(line)]}, {"text": "ok"}])
    assert "tried" in project.of_type("observation")[0]["content"]
    assert (project.cwd / ".git").read_bytes() == before
    assert not (project.cwd / ".git").is_symlink()
    assert (main / ".git" / "config").read_bytes() == config


@pytest.mark.parametrize("mode", ["default", "yolo"])  # as read-only, and as any other
@pytest.mark.parametrize("backend", [*RUNGS, "none"])
def test_a_writer_whose_reader_has_gone_ends_quietly(project: Project, backend: str, mode: str) -> None:
    played(project, backend, [{"calls": [bash("yes same | head -2")]}, {"text": "ok"}], mode=mode)
    (observation,) = project.of_type("observation")
    assert observation["content"] == "same\nsame"


@pytest.mark.parametrize("backend", RUNGS)
def test_commands_read_the_long_outputs_of_their_own_session_alone(project: Project, backend: str) -> None:
    with ScriptedServer([{"text": "hi"}]) as server:
        drive(project, server.url, ["hello"])
    session = project.snapshot()["session_id"]
    outputs = project.home / ".coder" / "outputs"
    for name, text in ((session, "my own"), ("20260101-000000-abcdef", SECRET)):
        (outputs / name).mkdir(parents=True)
        (outputs / name / "bash-1.txt").write_text(text, encoding="utf-8")
    other = f"cat {outputs}/*/bash-1.txt {outputs}/20260101-000000-abcdef/bash-1.txt"
    script = [{"calls": [bash(f"cat {outputs}/{session}/bash-1.txt")]}, {"calls": [bash(other)]}]
    played(project, backend, [*script, {"text": "done"}], resume=session)
    own, others = project.of_type("observation")
    assert own["content"] == "my own"
    assert SECRET not in others["content"]
