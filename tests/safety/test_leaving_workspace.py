"""What a person approved is what happens: files outside the workspace, and commands outside the sandbox."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from box import available, level_of

from coder.protocol.events import ApprovalRequested
from coder.protocol.ops import ApprovalReply
from kit import ScriptedServer
from kit.calls import bash
from kit.driving import Driver, Event, Project, of

RUNGS = available()
Answer = Callable[[ApprovalRequested], Literal["yes", "no", "always"]]


@pytest.fixture(params=RUNGS)
def backend(request: pytest.FixtureRequest, project: Project) -> str:
    (project.cwd.parent / "out").mkdir()
    return str(request.param)


def played(
    project: Project, backend: str, *calls: Any, answer: Answer = lambda _asked: "yes", **options: Any
) -> tuple[list[Event], list[ApprovalRequested]]:
    """The results of these calls, and the questions."""

    async def scenario(url: str) -> list[ApprovalRequested]:
        driver = Driver(project, url, **{"can_ask": True, **options})
        driver.engine.agent.sandbox.level = level_of(backend)
        driver.start()
        await driver.send("go", lambda asked: ApprovalReply(asked.approval_id, answer(asked)))
        await driver.close()
        return of(driver.seen, ApprovalRequested)

    steps = [{"calls": [bash(one) if isinstance(one, str) else one]} for one in calls]
    with ScriptedServer([*steps, {"text": "done"}]) as server:
        asked = asyncio.run(scenario(server.url))
    return project.of_type("observation"), asked


@pytest.fixture
def in_tmp() -> Iterator[Path]:
    """A name in the machine's own /tmp."""
    path = Path(f"/tmp/coder-test-{os.getpid()}-{os.urandom(4).hex()}")
    yield path
    if path.is_dir():
        for inner in path.iterdir():
            inner.unlink()
        path.rmdir()
    path.unlink(missing_ok=True)


def test_an_approved_redirection_into_tmp_writes_the_real_file(
    project: Project, backend: str, in_tmp: Path
) -> None:
    results, asked = played(project, backend, f"echo hi > {in_tmp}", f"echo more >> {in_tmp}; cat {in_tmp}")
    assert in_tmp.read_text(encoding="utf-8") == "hi\nmore\n"
    assert [event["content"] for event in results] == ["(no output)", "hi\nmore"]
    assert all(str(in_tmp) in str(one.reasons) for one in asked)
    assert not any(one.can_always for one in asked)


OUTSIDE = {
    "echo x > ../out/f": "x\n",
    "printf x | tee ../out/f": "x",
    "touch ../out/f": "",
    "cp mine ../out/f": "mine\n",
    "mv mine ../out/f": "mine\n",
    "echo x > new && mv new ../out/f && echo y >> ../out/f": "x\ny\n",
    "python3 -c 'print(7)' > ../out/f": "7\n",
}


@pytest.mark.parametrize("line", OUTSIDE)
def test_what_the_question_listed_is_written(project: Project, backend: str, line: str) -> None:
    if backend == "landlock" and line.startswith("echo x > new"):
        pytest.skip("Landlock opens whole directories alone, and not to a line that writes in the workspace")
    project.write("mine", "mine\n")
    _, (asked,) = played(project, backend, line)
    written = project.cwd.parent / "out" / "f"
    assert str(written) in str(asked.reasons)
    assert written.read_text(encoding="utf-8") == OUTSIDE[line]


@pytest.mark.parametrize(
    "line", ["mkdir ../out/d && cp mine ../out/d/x", "mkdir -p ../out/d/e && mv mine ../out/d/x"]
)
def test_directories_are_made_outside(project: Project, backend: str, line: str) -> None:
    project.write("mine", "mine\n")
    played(project, backend, line)
    assert (project.cwd.parent / "out" / "d" / "x").read_text(encoding="utf-8") == "mine\n"


def test_a_directory_is_made_in_the_real_tmp(project: Project, backend: str, in_tmp: Path) -> None:
    if backend == "landlock":
        pytest.skip("Landlock cannot open /tmp without the home in it, which is where the tests have theirs")
    project.write("mine", "mine\n")
    (result,), _ = played(project, backend, f"mkdir {in_tmp} && cp mine {in_tmp}/x && echo made")
    assert result["content"] == "made"
    assert (in_tmp / "x").read_text(encoding="utf-8") == "mine\n"


def test_files_outside_are_removed_when_the_person_agrees(project: Project, backend: str) -> None:
    old = project.cwd.parent / "out" / "old"
    old.mkdir()
    (old / "x").write_text("x", encoding="utf-8")
    played(project, backend, "rm -r ../out/old")
    assert not old.exists()


def test_nothing_beside_the_listed_file_is_written(project: Project, backend: str) -> None:
    beside = project.cwd.parent / "out"
    (beside / "kept").write_text("kept", encoding="utf-8")
    tries = ["echo x > ../out/beside", "echo x > ../out/kept", "rm ../out/kept", "mkdir ../out/d"]
    script = f"import os; [os.system(line) for line in {tries}]"
    played(project, backend, f'python3 -c "{script}" > ../out/f; echo x > ~/g; true')
    assert (beside / "f").exists()
    assert (beside / "kept").read_text(encoding="utf-8") == "kept"
    assert not any((beside / name).exists() for name in ("beside", "d"))


def test_what_a_line_only_reads_opens_nothing(project: Project, backend: str) -> None:
    source = project.cwd.parent / "source"
    source.write_text("old", encoding="utf-8")
    played(project, backend, f"cp ../source copy; python3 -c \"open('{source}', 'w').write('new')\"; true")
    assert source.read_text(encoding="utf-8") == "old"


def test_a_file_that_the_command_did_not_write_is_not_left(project: Project, backend: str) -> None:
    (result,), _ = played(project, backend, "false && echo x > ../out/f")
    assert not result["meta"]["ok"]
    assert not (project.cwd.parent / "out" / "f").exists()


@pytest.mark.parametrize(("options", "config"), [({"mode": "yolo"}, {}), ({}, {"auto_approve_ask": True})])
def test_only_a_person_lets_a_line_leave_the_workspace(
    project: Project, backend: str, options: dict[str, Any], config: dict[str, Any]
) -> None:
    project.configure(approval=config)
    (result,), asked = played(project, backend, "echo x > ../out/f", **options)
    assert asked == []
    assert not result["meta"]["ok"]
    assert not (project.cwd.parent / "out" / "f").exists()
    assert "sandbox.writable" in result["content"]


@pytest.mark.parametrize(
    "path",
    ["~/.bashrc", "~/.config/x", "~/.ssh/authorized_keys", "/etc/x", "../out/.git/hooks/pre-commit", "~"],
)
def test_some_places_need_leaving_the_sandbox_and_nobody_is_asked_in_vain(
    project: Project, backend: str, path: str
) -> None:
    line = f"touch {path}" if path == "~" else f"echo x > {path}"
    (result,), asked = played(project, backend, line)
    assert asked == []
    assert result["content"].startswith("error: ")
    assert 'sandbox: "off"' in result["content"]


@pytest.mark.parametrize("late", [False, True])
def test_a_swapped_directory_is_not_written_through(
    project: Project, backend: str, late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether before or after the approved line was looked at again."""
    place, other = project.cwd.parent / "place", project.cwd.parent / "other"
    place.mkdir()
    other.mkdir()

    if late:
        monkeypatch.setattr("coder.engine.calls.require_same_line", lambda *_: None)

    def swap(_asked: ApprovalRequested) -> Literal["yes", "no"]:
        if place.is_symlink():
            return "no"
        place.rmdir()
        place.symlink_to(other)
        return "yes"

    (result,), asked = played(project, backend, "echo x > ../place/f", answer=swap)
    assert len(asked) == (1 if late else 2)
    assert not result["meta"]["ok"]
    assert list(other.iterdir()) == []


# outside the sandbox


def leaving(command: str, reason: str = "it needs the daemon") -> Any:
    given = {"command": command, "sandbox": "off"}
    return {"name": "bash", "arguments": {**given, "reason": reason} if reason else given}


@pytest.mark.parametrize("mode", ["default", "auto-edit", "yolo"])
def test_leaving_the_sandbox_is_asked_about_in_every_mode(project: Project, backend: str, mode: str) -> None:
    (result,), (asked,) = played(project, backend, leaving("echo x > ~/.made && echo done"), mode=mode)
    assert result["content"] == "done"
    assert result["meta"]["sandbox"] == "off"
    assert (project.home / ".made").read_text(encoding="utf-8") == "x\n"
    assert "outside the sandbox" in str(asked.reasons[0])
    assert "it needs the daemon" in str(asked.reasons[0])
    assert asked.subject == "echo x > ~/.made && echo done"


def test_a_no_keeps_it_inside(project: Project, backend: str) -> None:
    (result,), _ = played(project, backend, leaving("echo x > ~/.made"), answer=lambda _asked: "no")
    assert result["meta"]["denied"]
    assert not (project.home / ".made").exists()


def test_always_remembers_the_whole_line(project: Project, backend: str) -> None:
    line, other = "echo x >> ~/.made", "echo y >> ~/.made"
    _, asked = played(
        project, backend, leaving(line), leaving(line), leaving(other), answer=lambda _asked: "always"
    )
    assert [one.subject for one in asked] == [line, other]
    assert (project.home / ".made").read_text(encoding="utf-8") == "x\nx\ny\n"


@pytest.mark.parametrize("config", [{"auto_approve_ask": True}, {"interactive": False}])
@pytest.mark.parametrize("can_ask", [True, False])
def test_no_setting_answers_for_the_person(
    project: Project, backend: str, config: dict[str, bool], can_ask: bool
) -> None:
    project.configure(approval=config)
    (result,), asked = played(
        project,
        backend,
        leaving("echo x > ~/.made"),
        can_ask=can_ask,
        mode="yolo",
        answer=lambda _asked: "no",
    )
    assert len(asked) == can_ask
    assert result["content"].startswith("denied: ")
    assert not (project.home / ".made").exists()


def test_in_plan_no_command_leaves(project: Project, backend: str) -> None:
    (result,), asked = played(project, backend, leaving("ls"), mode="plan")
    assert asked == []
    assert result["content"].startswith("denied: ")


def test_a_reason_is_required(project: Project, backend: str) -> None:
    (result,), asked = played(project, backend, leaving("ls", reason=""))
    assert asked == []
    assert "needs a reason" in result["content"]


# where nothing holds commands


def test_yolo_without_a_sandbox_is_confirmed_once(project: Project) -> None:
    results, asked = played(project, "none", "touch one", "touch two", mode="yolo")
    assert [one.subject for one in asked] == ["touch one"]
    assert "There is no sandbox here" in str(asked[0].reasons[0])
    assert all(event["meta"]["ok"] for event in results)


def test_yolo_without_a_sandbox_and_without_a_person_runs_nothing(project: Project) -> None:
    (result,), _ = played(project, "none", "touch one", mode="yolo", can_ask=False)
    assert result["meta"]["denied"]
    assert not (project.cwd / "one").exists()


def test_a_person_who_turned_the_sandbox_off_is_not_asked(project: Project) -> None:
    project.configure(sandbox={"mode": "off"})
    _, asked = played(project, "none", "touch one", mode="yolo", can_ask=False)
    assert asked == []
    assert (project.cwd / "one").exists()


@pytest.mark.parametrize("line", ["echo x >> AGENTS.md", "tee .mcp.json < a", "cp a sub/CLAUDE.md"])
def test_yolo_asks_before_a_command_writes_what_agents_obey(
    project: Project, backend: str, line: str
) -> None:
    project.write("a", "a")
    project.write("sub/b", "b")
    _, asked = played(project, backend, line, "cat AGENTS.md; touch made", mode="yolo")
    assert [one.subject for one in asked] == [line]


CLOSED = {
    "mkdir -p ~/.tool/a/b": '["~/.tool"]',
    "mkdir -p ~/.tool/a/b 2>/dev/null": '["~/.tool"]',  # known by the line, whatever is printed
    "python3 -c \"import os; open(os.path.expanduser('~/.config/tool/x'), 'w')\"": '["~/.config/tool"]',
    "touch ../out/f": '["{out}"]',
    "touch ~/f": '["…"]',  # not the home itself
}


@pytest.mark.parametrize("line", CLOSED)
def test_a_failure_by_the_sandbox_names_the_ways_out_and_asks_nothing(
    project: Project, backend: str, line: str
) -> None:
    (project.home / ".config" / "tool").mkdir(parents=True)
    (project.home / ".tool").mkdir()
    (result,), asked = played(project, backend, line, mode="yolo")
    opened = CLOSED[line].format(out=project.cwd.parent / "out")
    assert asked == []
    assert f"sandbox.writable: {opened}" in result["content"]
    assert 'sandbox: "off"' in result["content"]


def test_a_failure_and_leaving_for_it_are_a_question_each(project: Project, backend: str) -> None:
    line = "python3 -c \"open('../out/f', 'w')\""
    (failure, success), asked = played(project, backend, line, leaving(line))
    assert "sandbox.writable" in failure["content"]
    assert [failure["meta"]["ok"], success["meta"]["ok"]] == [False, True]
    assert len(asked) == 2
