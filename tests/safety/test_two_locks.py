"""What runs unasked cannot write: the kernel holds it where the parser is wrong. No output asks a person."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest
from box import available, level_of

from coder.policy.sandbox.backends import system_first
from coder.policy.shell import judge as shell
from coder.policy.shell.verdict import ShellVerdict
from coder.protocol.events import ApprovalRequested, CommandDone
from coder.protocol.ops import ApprovalReply
from kit import ScriptedServer
from kit.calls import bash
from kit.driving import Driver, Event, Project, of

RUNGS = available()
Answer = Callable[[ApprovalRequested], Literal["yes", "no", "always"]]
ESCAPE = "echo out > ../outside && echo in > inside"
AGAIN = "send exactly the same line once more"


def played(
    project: Project,
    backend: str,
    *lines: str,
    inputs: tuple[str, ...] = ("go",),
    answer: Answer = lambda _asked: "yes",
    tools: list[dict[str, Any]] | None = None,
    **options: Any,
) -> Driver:
    """The model runs these lines, a person answers; the strongest backend of the machine is `backend`."""

    async def scenario(url: str) -> Driver:
        driver = Driver(project, url, **{"can_ask": True, **options})
        driver.engine.agent.sandbox.level = level_of(backend)
        driver.engine.agent.sandbox.confirmed = True
        driver.start()
        for text in inputs:
            await driver.send(text, lambda e: ApprovalReply(e.approval_id, answer(e), "not now"))
        await driver.close()
        return driver

    calls = [*map(bash, lines), *(tools or [])]
    with ScriptedServer([*({"calls": [call]} for call in calls), {"text": "done"}]) as server:
        return asyncio.run(scenario(server.url))


def results(project: Project) -> list[Event]:
    return project.of_type("observation")


@pytest.fixture(params=RUNGS)
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def fooled(monkeypatch: pytest.MonkeyPatch) -> None:
    """A parser that takes every line for read-only."""
    judge = shell.judge

    def wrong(line: str, cwd: Path, **options: Any) -> ShellVerdict:
        found = judge(line, cwd, **options)
        return msgspec.structs.replace(found, read_only=True, risks=[], parsed=True)

    monkeypatch.setattr(shell, "judge", wrong)


# the second lock


@pytest.mark.usefixtures("fooled")
@pytest.mark.parametrize("mode", ["default", "auto-edit"])
def test_a_wrong_verdict_costs_a_failed_command_and_no_file(
    project: Project, backend: str, mode: str
) -> None:
    granted = project.cwd.parent / "granted"
    granted.mkdir()
    project.configure(sandbox={"writable": [str(granted)]})
    project.write("kept", "old\n").chmod(0o640)
    os.utime(project.cwd / "kept", (1, 1))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        lines = [
            "echo new > kept; rm -f kept; touch made; mkdir d",
            f"touch {granted}/made; touch ../outside; touch ~/made",
            "chmod 777 kept; touch kept; chown 1:1 kept; setfattr -n user.x -v y kept",
            f"(exec 3<>/dev/tcp/127.0.0.1/{port}) && echo reached",
            "echo x > /tmp/carried; echo x > /dev/shm/carried-by-a-test; echo x > $TMPDIR/carried",
        ]
        driver = played(project, backend, *(f"({line}); echo tried" for line in lines), mode=mode)
    assert of(driver.seen, ApprovalRequested) == []
    assert [("tried" in e["content"], "reached" in e["content"]) for e in results(project)] == [
        (True, False)
    ] * 5
    kept = project.cwd / "kept"
    assert (kept.read_text(), kept.stat().st_mode & 0o777, kept.stat().st_mtime) == ("old\n", 0o640, 1)
    assert not any((project.cwd / name).exists() for name in ("made", "d"))
    assert list(granted.iterdir()) == []
    assert not (project.cwd.parent / "outside").exists()
    assert not (project.home / "made").exists()
    assert not Path("/dev/shm/carried-by-a-test").exists()


@pytest.mark.usefixtures("fooled")
def test_nothing_is_carried_from_one_to_the_next(project: Project, backend: str) -> None:
    """Neither by a temporary directory that they share, nor to the commands that write."""
    write = 'echo x > "$TMPDIR/carried" && cat "$TMPDIR/carried"'
    played(project, backend, write, 'ls "$TMPDIR"; ls /tmp; echo listed')
    first, second = results(project)
    assert first["content"] == "x"
    assert "carried" not in second["content"]
    assert "listed" in second["content"]


def test_what_a_writing_command_left_in_tmp_can_be_read(project: Project, backend: str) -> None:
    name = f"left-{os.getpid()}-{backend}"
    directory = 'echo x > "${TMPDIR:-/tmp}/' + name + '"; echo "${TMPDIR:-/tmp}"'
    driver = played(project, backend, directory)
    where = results(project)[0]["content"]
    project.logs()[0].unlink()
    try:
        played(project, backend, f"cat {where}/{name}")
        assert results(project)[0]["content"] == "x"
    finally:
        scratch = driver.engine.agent.session.commands.sandboxes[False, False].scratch()
        for place in (Path("/tmp"), Path(scratch)):
            (place / name).unlink(missing_ok=True)


READING = {
    "git status --short": "?? big",
    "git log --oneline | head -1": "first",
    "git diff": "+two",
    "git branch": "main",
    "ls -la": "a",
    "find . -name a": "./a",
    "wc -l big": "200000 big",
    "sort big | tail -1": "99999",
    "sort --buffer-size=64k big | tail -1": "99999",
    "cat <<'END'\nhere\nEND": "here",
    "grep -c 1 big": "",
    "cat a | sort | uniq -c": "one",
    "diff a big | head -1": "",
    "stat -c %s a": "8",
    "head -c 3 a; tail -n 1 a": "two",
    "id -un": "",
    "date +%Y": "20",
    "cat <<'END' | wc -l\n" + "long line\n" * 6000 + "END": "6000",
}


@pytest.mark.thorough
@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_what_only_reads_works_there(project: Project, backend: str) -> None:
    from test_sandbox_engine import git

    git(project.cwd, "init", "-q")
    project.write("a", "one\n")
    git(project.cwd, "add", "a")
    git(project.cwd, "commit", "-qm", "first")
    project.write("a", "one\ntwo\n")
    project.write("big", "".join(f"{n}\n" for n in range(200_000)))
    driver = played(project, backend, *READING, max_steps=99)
    assert of(driver.seen, ApprovalRequested) == []
    found = dict(zip(READING, results(project), strict=True))
    wrong = {
        line: e["content"]
        for line, e in found.items()
        if not e["meta"]["ok"] or READING[line] not in e["content"]
    }
    assert wrong == {}
    assert "Read-only" not in "".join(event["meta"]["stderr"] for event in found.values())


def test_an_unasked_line_finds_the_programs_that_an_approved_one_finds(
    project: Project, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """nvm, pyenv, an active venv: what the model is told of versions is true."""
    brought = project.cwd / ".venv" / "bin"
    brought.mkdir(parents=True)
    for name in ("python3", "node"):
        (brought / name).write_text(f"#!/bin/sh\necho {name} of the project\n", encoding="utf-8")
        (brought / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{brought}:{os.environ['PATH']}")
    lines = ["python3 --version", "which node", "node --version", ".venv/bin/python3 --version"]
    driver = played(project, backend, *lines, *(f"{line}; touch written" for line in lines))
    said = [event["content"] for event in results(project)]
    assert said[:4] == ["python3 of the project", f"{brought}/node", "node of the project", said[0]]
    assert said[4:] == said[:4]
    assert [asked.subject for asked in of(driver.seen, ApprovalRequested)] == [
        f"{line}; touch written" for line in lines
    ]


def test_without_a_sandbox_unasked_lines_use_the_system_s_programs(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    brought = project.cwd / "bin"
    brought.mkdir()
    (brought / "ls").write_text("#!/bin/sh\necho brought\n", encoding="utf-8")
    (brought / "ls").chmod(0o755)
    path = f"{brought}:{os.environ['PATH']}"
    first = system_first(f".:rel::{path}").split(":")
    assert all(directory.startswith("/") for directory in first)
    assert first.index("/usr/bin") < first.index(str(brought))
    monkeypatch.setenv("PATH", path)
    driver = played(project, "none", "ls", answer=lambda _asked: "no")
    assert [asked.subject for asked in of(driver.seen, ApprovalRequested)] == ["ls"]


def test_commands_and_tools_find_nothing_of_the_records(project: Project, backend: str) -> None:
    record = project.cwd / ".coder" / "history" / "other.txt"
    record.parent.mkdir(parents=True)
    record.write_text("a very rare word\n", encoding="utf-8")
    project.write(".coder/modes/x.md", "seen")
    search = {"name": "grep", "arguments": {"pattern": "very rare"}}
    reading = {"name": "read", "arguments": {"path": ".coder/history/other.txt"}}
    lines = ["grep -rns 'very rare' .; ls .coder/modes", "cat .coder/history/* .coder/sessions/*"]
    played(project, backend, *lines, tools=[search, reading])
    said = [event["content"] for event in results(project)]
    assert not any("a very rare word" in text for text in said)
    assert "x.md" in said[0]
    assert said[2].startswith("no matches")
    assert "not searched" not in said[2]  # nobody looks for it there
    assert "closed to you" in said[3]


# asking for it as a command that writes


@pytest.mark.usefixtures("fooled")
def test_what_failed_for_that_is_asked_about_when_it_comes_again(project: Project, backend: str) -> None:
    line = "touch made && echo was made"
    driver = played(project, backend, line, line)
    first, second = results(project)
    assert not first["meta"]["ok"]
    assert AGAIN in first["content"]
    assert "Nothing but $TMPDIR can be written" in first["content"]
    (asked,) = of(driver.seen, ApprovalRequested)
    assert asked.subject == line
    assert second["content"] == "was made"
    assert (project.cwd / "made").exists()


@pytest.mark.usefixtures("fooled")
def test_a_no_and_nobody_to_ask_hold_as_for_any_command(project: Project, backend: str) -> None:
    line = "touch made"
    played(project, backend, line, line, answer=lambda _asked: "no")
    assert results(project)[1]["content"].startswith("denied: ")
    project.logs()[0].unlink()
    played(project, backend, line, line, can_ask=False)
    assert results(project)[1]["content"].startswith("denied: ")
    assert not (project.cwd / "made").exists()


@pytest.mark.usefixtures("fooled")
def test_in_plan_nothing_is_offered(project: Project, backend: str) -> None:
    driver = played(project, backend, "touch made", "touch made", mode="plan")
    assert of(driver.seen, ApprovalRequested) == []
    assert all(AGAIN not in event["content"] for event in results(project))
    assert not (project.cwd / "made").exists()


def test_an_ordinary_failure_is_not_asked_about(project: Project, backend: str) -> None:
    driver = played(project, backend, "grep -c nothing a", "grep -c nothing a", "cat missing", "cat missing")
    assert of(driver.seen, ApprovalRequested) == []
    assert all(AGAIN not in event["content"] for event in results(project))


# without a sandbox


@pytest.mark.usefixtures("fooled")
@pytest.mark.parametrize("setting", ["auto", "off"])
def test_undo_looks_where_the_parser_alone_has_judged(project: Project, setting: str) -> None:
    project.configure(sandbox={"mode": setting})
    project.write("kept", "old\n")
    driver = played(project, "none", "echo new > kept", inputs=("go", "/undo", "/status"))
    assert (project.cwd / "kept").read_text() == "old\n"
    assert "only coder's analysis of shell lines" in of(driver.seen, CommandDone)[-1].text


# honesty


FORGED = {
    "echo": "echo 'bash: /etc/x: Read-only file system' >&2; exit 1",
    "no x bit": "chmod -x script; ./script",
    "network": "echo 'curl: (6) Could not resolve host: example.org' >&2; exit 6",
    "real": f"sh -c '{ESCAPE}'",
}


@pytest.mark.parametrize("case", FORGED)
@pytest.mark.parametrize("mode", ["default", "auto-edit", "yolo"])
def test_no_output_makes_anybody_ask_to_leave(project: Project, backend: str, mode: str, case: str) -> None:
    project.write("script", "#!/bin/sh\n").chmod(0o644)
    driver = played(project, backend, FORGED[case], mode=mode)
    asked = of(driver.seen, ApprovalRequested)
    assert len(asked) <= (0 if mode == "yolo" else 1)
    assert not any("sandbox" in reason for one in asked for reason in one.reasons)
    (event,) = results(project)
    assert event["meta"]["sandbox"] == backend
    assert "sandbox stopped" not in event["content"]
    assert not (project.cwd.parent / "outside").exists()


def test_at_a_refusal_the_model_is_told_the_rule(project: Project, backend: str) -> None:
    played(project, backend, ESCAPE, "cat linked", "./script", mode="yolo")
    told = results(project)[0]["content"]
    assert f"Commands may not write {project.cwd.parent}/outside, only the workspace and $TMPDIR" in told


# caches of tools in plan mode


@pytest.mark.parametrize("name", ["PYTHONPYCACHEPREFIX", "MYPY_CACHE_DIR", "RUFF_CACHE_DIR"])
def test_tools_keep_their_caches_in_the_throw_away_directory_of_a_plan_line(
    project: Project, backend: str, name: str
) -> None:
    project.write("mod.py", "x = 7\n")
    write = f'mkdir -p "${name}" && echo x > "${name}/made" && echo done'
    line = f'python3 -c "import mod; print(mod.x)"; {write}'
    played(project, backend, line, mode="plan")
    assert results(project)[0]["content"].splitlines() == ["7", "done"]
    assert sorted(path.name for path in project.cwd.iterdir() if path.name != ".coder") == ["mod.py"]
