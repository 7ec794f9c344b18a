"""`sandbox.network` in a session: the question about a host, its answers, and what checks reach."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from typing import Any

import pytest
from box import available, level_of
from test_mcp_sandbox import entry, shell
from test_mcp_sandbox import played as played_by_server
from test_network_door import PUBLIC, PYTHON, World

from coder.protocol.events import ApprovalRequested, ApprovalResolved, JobChanged, TurnEnded
from coder.protocol.ops import ApprovalReply, Cancel
from kit import ScriptedServer
from kit.calls import bash_step
from kit.driving import Answerer, Driver, Project, of

RUNGS = available()
GET = "curl -sS http://api.example.com/"


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World(monkeypatch)
    made.names["api.example.com"] = [PUBLIC]
    return made


@pytest.fixture(params=RUNGS)
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def played(
    project: Project,
    world: World,
    backend: str,
    script: list[Any],
    answer: Answerer | None = None,
    *,
    turns: int = 1,
    **options: Any,
) -> Driver:
    """Play the script in yolo, where no command is asked about itself."""

    async def scenario(url: str) -> Driver:
        driver = Driver(project, url, **{"mode": "yolo", "preset": "yolo", "can_ask": True, **options})
        driver.engine.agent.sandbox.level = level_of(backend)
        async with world.serving():
            driver.start()
            for _ in range(turns):
                await driver.send("go", answer)
            await driver.close()
        return driver

    with ScriptedServer(script) as server:
        driver = asyncio.run(scenario(server.url))
        driver.chats = server.chats
        return driver


def told(driver: Driver) -> list[str]:
    return [message["content"] for message in driver.chats[-1]["messages"] if message["role"] == "tool"]


def by(answer: Any, reason: str = "") -> Answerer:
    return lambda event: ApprovalReply(event.approval_id, answer, reason)


def test_yes_reaches_the_host_this_once(project: Project, world: World, backend: str) -> None:
    project.configure(sandbox={"network": {"allow": []}})
    line = f"{GET}; {GET}"
    driver = played(project, world, backend, [bash_step(line), bash_step(GET), {"text": "ok"}], by("yes"))
    first, second = of(driver.seen, ApprovalRequested)
    assert (first.tool, first.subject, first.subject_kind) == ("network", "api.example.com:80", "text")
    assert any(line in str(reason) for reason in first.reasons)
    assert first.always_names == ["network=api.example.com:80"]
    assert first.call_id != second.call_id
    assert [text.count("Host: ") for text in told(driver)] == [2, 1]
    assert [event["meta"]["subject"] for event in project.of_type("approval")] == ["api.example.com:80"] * 2


def test_always_holds_for_the_project_and_can_be_revoked(
    project: Project, world: World, backend: str
) -> None:
    project.configure(sandbox={"network": {"allow": []}})
    script = [bash_step(GET), bash_step(GET), {"text": "ok"}]
    driver = played(project, world, backend, script, by("always"))
    assert len(of(driver.seen, ApprovalRequested)) == 1
    again = played(project, world, backend, script)
    assert of(again.seen, ApprovalRequested) == []
    assert [text.count("Host: ") for text in told(again)] == [1, 1]
    (remembered,) = (project.home / ".coder" / "projects").glob("*/allowlist.json")
    assert json.loads(remembered.read_text())["names"] == ["network=api.example.com:80"]


def test_no_is_told_to_the_command_and_to_the_model(project: Project, world: World, backend: str) -> None:
    project.configure(sandbox={"network": {"allow": []}})
    driver = played(
        project, world, backend, [bash_step(f"{GET}; true"), {"text": "ok"}], by("no", "use the mirror")
    )
    (text,) = told(driver)
    refusal = "The person refused api.example.com:80: use the mirror (sandbox.network)."
    assert text == f"coder: {refusal}\n[{refusal}]"
    assert world.asked == []


@pytest.mark.parametrize(
    ("sandbox", "more", "why"),
    [
        ({"otherwise": "deny"}, {}, "is not listed in sandbox.network.allow."),
        ({}, {"can_ask": False}, "and nobody can be asked about it in this run."),
        ({}, {"auto": True}, "and nobody can be asked about it in this run."),
    ],
)
def test_where_nobody_answers_it_is_denied(
    project: Project, world: World, backend: str, sandbox: dict[str, Any], more: dict[str, Any], why: str
) -> None:
    auto = {"approval": {"auto_approve_ask": True}} if "auto" in more else {}
    more = {name: value for name, value in more.items() if name != "auto"}
    project.configure(sandbox={"network": {"allow": ["other.com"], **sandbox}}, **auto)
    driver = played(project, world, backend, [bash_step(GET), {"text": "ok"}], by("yes"), **more)
    assert of(driver.seen, ApprovalRequested) == []
    (text,) = told(driver)
    assert text.count("api.example.com:80 is not listed in sandbox.network.allow") == 2
    assert text.endswith(f"{why}]")


def test_a_cancel_ends_the_question_and_the_command(project: Project, world: World, backend: str) -> None:
    project.configure(sandbox={"network": {"allow": []}})
    script = [bash_step(f"touch begun; {GET}; touch after"), bash_step("echo next"), {"text": "ok"}]

    async def scenario(url: str) -> Driver:
        driver = Driver(project, url, mode="yolo", preset="yolo", can_ask=True)
        driver.engine.agent.sandbox.level = level_of(backend)
        driver.start()

        def cancel(event: ApprovalRequested) -> None:
            driver.engine.submit(Cancel())

        await driver.send("go", cancel)
        assert driver.engine.agent.approvals == {}
        await driver.send("go on")
        await driver.close()
        return driver

    with ScriptedServer(script) as server:
        driver = asyncio.run(scenario(server.url))
    assert [event.status for event in of(driver.seen, TurnEnded)] == ["cancelled", "ok"]
    assert [event.answer for event in of(driver.seen, ApprovalResolved)] == ["cancelled"]
    assert (project.cwd / "begun").exists()
    assert not (project.cwd / "after").exists()


def test_a_program_that_ignores_the_proxy_is_named(project: Project, world: World, backend: str) -> None:
    project.configure(sandbox={"network": {"allow": []}})
    line = f"curl -sS --noproxy '*' http://{PUBLIC}/"
    driver = played(project, world, backend, [bash_step(line), {"text": "ok"}])
    (text,) = told(driver)
    assert f"A program tried to connect to {PUBLIC}:80 without the proxy." in text
    assert "(sandbox.network)" in text


def test_a_job_has_a_door_as_long_as_it_runs(project: Project, world: World, backend: str) -> None:
    project.configure(sandbox={"network": {"allow": ["api.example.com"], "otherwise": "deny"}})
    line = f"{GET} > one; until [ -e go ]; do sleep 0.05; done; {GET} > two; curl -sS http://x.com > three"
    job = {"name": "bash", "arguments": {"command": line, "background": True}}
    wait = {"name": "job", "arguments": {"action": "wait", "id": "1", "timeout_ms": 60_000}}
    script = [{"calls": [job]}, bash_step("touch go"), {"calls": [wait]}, {"text": "ok"}]
    for name in ("one", "two", "three"):
        project.write(name, "")
    driver = played(project, world, backend, script)
    assert [event.state for event in of(driver.seen, JobChanged)][-1:] == ["ended"], told(driver)
    assert "Host: api" in (project.cwd / "one").read_text()
    assert "Host: api" in (project.cwd / "two").read_text()
    assert "x.com:80 is not listed" in (project.cwd / "three").read_text()


# checks


TEST = """
import socket, sys, urllib.request
def test_it():
    with socket.create_connection(("localhost", {port}), timeout=20) as s:
        s.sendall(b"GET /db HTTP/1.1\\r\\nHost: db\\r\\n\\r\\n")
        assert s.recv(99).startswith(b"HTTP/1.1 200")
"""


def checked(
    project: Project, world: World, backend: str, network: Any, line: str = "python -m pytest -q"
) -> str:
    """What the model is told of a check that runs unasked in auto-edit; the database is `world`'s server."""
    project.write("pyproject.toml", "[tool.pytest.ini_options]\n")
    program = f'#!/bin/sh\nexec {PYTHON} -c "import test_it; test_it.test_it()"\n'
    project.write(".venv/bin/python", program).chmod(0o755)

    async def scenario(url: str) -> Driver:
        async with world.serving():
            project.write("test_it.py", TEST.format(port=world.port))
            text = json.dumps(network).replace("PORT", str(world.port))
            project.configure(sandbox={"network": json.loads(text)})
            driver = Driver(project, url, mode="auto-edit", can_ask=True)
            driver.engine.agent.sandbox.level = level_of(backend)
            driver.start()
            await driver.send("go")
            await driver.close()
        return driver

    with ScriptedServer([bash_step(line), {"text": "ok"}]) as server:
        driver = asyncio.run(scenario(server.url))
        driver.chats = server.chats
    assert of(driver.seen, ApprovalRequested) == []
    return told(driver)[0]


def test_a_check_reaches_a_listed_port_of_this_machine(project: Project, world: World, backend: str) -> None:
    assert checked(project, world, backend, {"allow": ["localhost:PORT"]}) == "(no output)"


@pytest.mark.parametrize("network", [True, {"allow": []}, {"allow": ["example.com", "localhost:1"]}])
def test_and_nothing_else_which_the_result_says(
    project: Project, world: World, backend: str, network: Any
) -> None:
    text = checked(project, world, backend, network)
    assert "A check that runs unasked reaches no network but what sandbox.network.allow lists" in text


def test_a_command_that_is_no_unasked_check_has_the_network(
    project: Project, world: World, backend: str
) -> None:
    project.configure(sandbox={"network": True})

    async def scenario(url: str) -> Driver:
        async with world.serving():
            project.write("test_it.py", TEST.format(port=world.port))
            driver = Driver(project, url, mode="yolo", preset="yolo")
            driver.engine.agent.sandbox.level = level_of(backend)
            driver.start()
            await driver.send("go")
            await driver.close()
        return driver

    line = f"{PYTHON} -c 'import test_it; test_it.test_it()'"
    with ScriptedServer([bash_step(line), {"text": "ok"}]) as server:
        driver = asyncio.run(scenario(server.url))
        driver.chats = server.chats
    assert told(driver) == ["(no output)"]


def test_a_verification_that_needs_the_network_says_what_opens_it(
    project: Project, world: World, backend: str
) -> None:
    project.write("gradlew", "#!/bin/sh\necho 'dial tcp: connection refused'\nexit 1\n").chmod(0o755)
    edit = {"name": "write", "arguments": {"path": "app.py", "content": "x = 1\n"}}
    driver = played(project, world, backend, [{"calls": [edit]}, {"text": "ok"}, {"text": "ok"}], turns=2)
    (ended,) = [event for event in project.of_type("verify") if event["meta"]["state"] == "gave_up"]
    assert "sandbox.network.allow lists" in ended["content"]
    assert "sandbox.network.allow lists" in driver.chats[-1]["messages"][-1]["content"]


def test_a_server_and_its_tools_reach_listed_hosts_alone(project: Project, backend: str) -> None:
    """Nobody is asked: it runs on between turns."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def answer() -> None:
            one, _ = server.accept()
            with one:
                one.recv(9999)
                one.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nhi\n")

        thread = threading.Thread(target=answer)
        thread.start()
        line = f"curl -sS http://localhost:{port}/; curl -sS http://evil.com/; "
        line += f"curl -sS --noproxy '*' http://{PUBLIC}/ 2>&1"
        network = {"network": {"allow": [f"localhost:{port}"]}}
        _, (said,) = played_by_server(project, backend, shell(line), entry(project), sandbox=network)
        thread.join()
    assert "hi\ncoder: evil.com:80 is not listed in sandbox.network.allow.\n" in said
    assert "onnect" in said.splitlines()[-1]
