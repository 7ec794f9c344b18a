"""MCP servers are as confined as the model's commands, on each backend, and none outlives us."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from box import SECRET, available, level_of
from test_sandbox_engine import HOSTILE, prepared, state

from coder.protocol.events import Notice, TurnEnded
from kit import ScriptedServer
from kit.driving import Driver, Project, left_running, of

RUNGS = available()
SERVER = str(Path(__file__).parent.parent / "kit" / "tool_server.py")


def entry(project: Project, **more: Any) -> dict[str, Any]:
    return {"command": sys.executable, "args": [SERVER, str(project.cwd)], **more}


def shell(line: str) -> list[Any]:
    return [{"calls": [{"name": "mcp__s__shell", "arguments": {"line": line}}]}, {"text": "ok"}]


def played(
    project: Project, backend: str, script: list[Any], server: dict[str, Any], **sections: Any
) -> tuple[Driver, list[str]]:
    """The session, and what the server's tool answered."""
    project.configure(mcp={"servers": {"s": server}}, permission={"preset": "yolo"}, **sections)

    async def scenario(url: str) -> Driver:
        driver = Driver(project, url)
        driver.engine.agent.sandbox.level = level_of(backend)
        driver.engine.agent.sandbox.confirmed = True
        driver.start()
        await driver.send("go")
        await driver.close()
        return driver

    with ScriptedServer(script) as model:
        driver = asyncio.run(scenario(model.url))
    assert left_running(str(project.cwd)) == []
    return driver, [event["content"] for event in project.of_type("observation")]


@pytest.mark.parametrize("backend", RUNGS)
def test_a_hostile_server_gets_no_further_than_a_hostile_command(project: Project, backend: str) -> None:
    before = prepared(project)
    project.write("tried", "not yet\n")  # on the weaker backend a server makes no new files at the top
    _, (said,) = played(project, backend, shell(HOSTILE), entry(project))
    assert (project.cwd / "tried").read_text(encoding="utf-8") == "done\n"
    assert state(project) == before
    stolen = project.cwd / "stolen"
    assert SECRET not in said
    assert not stolen.exists() or SECRET not in stolen.read_text(encoding="utf-8")


@pytest.mark.skipif("landlock" not in RUNGS, reason="that backend does not hold here")
@pytest.mark.parametrize("granted", [False, True])
def test_without_locks_it_writes_what_is_there(project: Project, granted: bool) -> None:
    """And what the person does to their repository meanwhile is not put back when the server ends."""
    before = prepared(project)
    config = project.cwd / ".git" / "config"
    project.write("src/a.py", "a\n")
    line = "echo b > src/b.py; echo c >> src/a.py; echo d > d.py; echo x >> .git/config; echo tried"
    script = shell(line)

    def changed(request: dict[str, Any]) -> Any:
        config.write_text("[remote]\n", encoding="utf-8")
        return script[0]

    server = entry(project, writable=["."] if granted else [])
    _, (said,) = played(project, "landlock", [changed, script[1]], server)
    assert "tried" in said
    assert (project.cwd / "src" / "a.py").read_text(encoding="utf-8") == "a\nc\n"
    assert (project.cwd / "src" / "b.py").exists()
    assert (project.cwd / "d.py").exists() == granted
    if not granted:
        assert config.read_text(encoding="utf-8") == "[remote]\n"
        config.write_text("[core]\n", encoding="utf-8")
        assert state(project) == before


@pytest.mark.skipif("bwrap" not in RUNGS, reason="the weaker backend cannot lock")
@pytest.mark.parametrize("granted", [False, True])
def test_gits_settings_stay_locked_after_the_person_changed_them(project: Project, granted: bool) -> None:
    """By then another file is there, which no lock on the old one covers. A server that is to commit can be
    given the directory: then it is as with commands."""
    prepared(project)
    git = project.cwd / ".git"
    script = shell("echo x >> .git/config; echo x > .git/commondir; echo x > .git/made; echo tried")

    def changed(request: dict[str, Any]) -> Any:
        (git / "new").write_text("[remote]\n", encoding="utf-8")
        (git / "new").replace(git / "config")  # as git does it, while the server runs
        return script[0]

    server = entry(project, writable=[".git"] if granted else [])
    _, (said,) = played(project, "bwrap", [changed, script[1]], server)
    assert "tried" in said
    assert (git / "made").exists() == granted
    assert not (git / "commondir").exists()
    if not granted:
        assert (git / "config").read_text(encoding="utf-8") == "[remote]\n"


@pytest.mark.parametrize("backend", RUNGS)
def test_its_background_children_end_with_it(project: Project, backend: str) -> None:
    line = f"setsid sh -c 'exec sleep 3051' {project.cwd} >/dev/null 2>&1 & echo $!"
    played(project, backend, shell(line), entry(project))
    assert left_running("3051") == []


@pytest.mark.parametrize("backend", RUNGS)
@pytest.mark.parametrize("network", [True, False])
def test_the_network_setting_holds_for_it(project: Project, backend: str, network: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as outside:
        port = outside.getsockname()[1]
        line = f"bash -c '> /dev/tcp/127.0.0.1/{port} && echo reached'"
        _, (said,) = played(project, backend, shell(line), entry(project), sandbox={"network": network})
    assert ("reached" in said) == network


@pytest.mark.parametrize("backend", RUNGS)
def test_what_it_is_given_to_write_it_can_write(project: Project, backend: str) -> None:
    cache = project.home / "cache"
    cache.mkdir()
    other = project.home / "other"
    other.mkdir()
    line = f"echo x > {cache}/made; echo x > {other}/made"
    played(project, backend, shell(line), entry(project, writable=[str(cache)]))
    assert (cache / "made").exists()
    assert not (other / "made").exists()


def test_one_that_wants_to_write_elsewhere_is_told_how(project: Project) -> None:
    line = f"echo > {project.home}/cache.db"
    driver, _ = played(project, RUNGS[0], [{"text": "ok"}], {"command": "sh", "args": ["-c", line]})
    (said,) = [notice.text for notice in of(driver.seen, Notice) if "MCP server s" in notice.text]
    assert "mcp.servers.s.writable" in said


def test_without_the_sandbox_only_where_the_person_says_so(project: Project) -> None:
    line = f"echo x > {project.home}/made"
    backend = RUNGS[0]
    played(project, backend, shell(line), entry(project, sandbox=False))
    assert (project.home / "made").exists()


@pytest.mark.parametrize(("backend", "mine"), [("none", True), (RUNGS[0], False)])
def test_a_required_sandbox_is_required_of_servers_too(project: Project, backend: str, mine: bool) -> None:
    driver, (said,) = played(
        project, backend, shell("echo hi"), entry(project, sandbox=mine), sandbox={"mode": "require"}
    )
    assert said.startswith("error: there is no tool")
    assert any("was not started" in notice.text for notice in of(driver.seen, Notice))
    assert of(driver.seen, TurnEnded)[0].status == "ok"


@pytest.mark.thorough
@pytest.mark.parametrize("confined", [True, False])
def test_it_ends_with_coder_killed(project: Project, confined: bool) -> None:
    """In the middle of a call, so that it does not look at its stdin: what wraps it must end it."""
    server = entry(project, sandbox=confined)
    log = project.cwd / "server.log"
    server["env"] = {"TOOL_SERVER_LOG": str(log)}
    script = [{"calls": [{"name": "mcp__s__sleep", "arguments": {"seconds": 600}}]}, {"text": "ok"}]
    project.configure(mcp={"servers": {"s": server}}, permission={"preset": "yolo"})
    with ScriptedServer(script) as model:
        coder = project.started("--once", "go", url=model.url)
        try:
            wait_for(lambda: log.exists() and "call sleep" in log.read_text(encoding="utf-8"))
        finally:
            coder.send_signal(signal.SIGKILL)
            coder.communicate()
    wait_for(lambda: left_running(str(project.cwd)) == [])


def wait_for(condition: Any) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("backend", RUNGS)
def test_a_program_in_a_temporary_directory_is_found(project: Project, backend: str) -> None:
    """The sandbox has one of its own; the person has named this one."""
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        server = Path(directory) / "server.py"
        server.write_bytes(Path(SERVER).read_bytes())
        where = {"command": sys.executable, "args": [str(server), str(project.cwd)]}
        _, (said,) = played(
            project, backend, shell(f"ls {directory}; touch {directory}/made; echo tried"), where
        )
        assert "server.py" in said
        assert "tried" in said
        assert [path.name for path in Path(directory).iterdir()] == ["server.py"]
