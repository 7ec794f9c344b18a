"""Background jobs: started, looked at, awaited and stopped by the model, shown to the person, ended with the
session, on every backend of the sandbox."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from coder.base.process.jobs import BackgroundJob
from coder.protocol.events import (
    AnyEvent,
    ApprovalRequested,
    CommandDone,
    JobChanged,
    Notice,
    ToolCallChanged,
    TurnEnded,
)
from coder.protocol.ops import ApprovalReply, Cancel, UserInput
from kit import ScriptedServer
from kit.calls import bash
from kit.driving import Driver, Project, drive, left_running, of, play

# Lets a job go on that waits for the file, until it says that it is done. The weaker sandbox lets a job make
# new files in directories alone.
LET_GO = "touch go; until [ -e d/done ]; do sleep 0.02; done"
ENDED = """until grep -q '"type":"job"' .coder/history/*.jsonl; do sleep 0.02; done"""
PRINTED = "until [ -e d/printed ]; do sleep 0.02; done"


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that is being started is looked at until it ends, however slow the machine is."""
    monkeypatch.setattr("coder.tools.shell._FIRST_LOOK", 60)


def until(condition: Callable[[], bool]) -> None:
    """Wait for something that will happen; the bound is for a test that hangs."""
    for _ in range(12_000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it never happened")


def once(condition: Callable[[], bool], *calls: Any) -> Callable[[Any], dict[str, Any]]:
    """A turn of the model's that comes when `condition` holds."""

    def answer(_request: Any) -> dict[str, Any]:
        until(condition)
        return {"calls": list(calls)}

    return answer


def let_go(project: Project) -> bool:
    """Let a job go on that waits for the file; whether the session has noticed its end."""
    project.write("go", "")
    return bool(project.of_type("job"))


def started(command: str) -> dict[str, Any]:
    return bash(command, background=True)


def job(action: str, **more: Any) -> dict[str, Any]:
    return {"name": "job", "arguments": {"action": action, **more}}


def play_calls(project: Project, *calls: Any, inputs: tuple[str, ...] = ("go",), **options: Any) -> Driver:
    """One call a step, each in a request of its own; then the answer, and answers to further inputs."""
    project.write("d/kept", "")
    script = [
        call if callable(call) else {"calls": call if isinstance(call, list) else [call]} for call in calls
    ]
    done = [{"text": "done"}] * len(inputs)
    return play(project, [*script, *done], inputs, **{"mode": "yolo", **options})


def results(project: Project) -> list[dict[str, Any]]:
    return project.of_type("observation")


def test_a_server_is_started_probed_and_stopped(project: Project) -> None:
    """Each command has a process table of its own, but they share the network."""
    project.write("page.txt", "served from the workspace\n")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    python = os.path.realpath(sys.executable)  # a virtual environment in /tmp is not seen inside
    server = f"{python} -u -m http.server --bind 127.0.0.1 {port}"
    probe = (
        f'{python} -c "import time, urllib.request as u\n'
        "for _ in range(200):\n"
        "    try: print(u.build_opener(u.ProxyHandler({})).open('http://127.0.0.1:"
        f"{port}/page.txt').read().decode()); break\n"
        '    except OSError: time.sleep(0.05)"'
    )
    play_calls(project, started(server), bash(probe), job("output", id=1), job("stop", id="1"))
    begun, probed, output, stopped = results(project)
    assert begun["content"].startswith("Job 1 runs in the background.")
    assert begun["meta"]["background"] is True
    assert begun["meta"]["job_id"] == "1"
    assert probed["content"] == "served from the workspace"
    assert "GET /page.txt" in output["content"]
    assert stopped["content"].startswith("job 1: stopped")
    assert left_running(str(port)) == []


def test_output_is_what_is_new_and_the_file_has_all_of_it(project: Project) -> None:
    red = r"printf '\033[31mred\033[0m\n'"
    wait = "until [ -e go ]; do sleep 0.02; done"
    line = f"echo first; {red}; touch d/printed; {wait}; echo second; touch d/done; sleep 300"
    play_calls(
        project,
        started(line),
        once((project.cwd / "d" / "printed").exists, job("output", id="1")),
        bash(LET_GO),
        job("output", id="1"),
        job("output"),
    )
    begun, first, _, new, again = results(project)
    assert f"{begun['content']}\n{first['content']}\n".count("\nfirst\nred\n") == 1
    assert new["content"].split("\n")[1:] == ["second"]
    assert "nothing new" in again["content"]
    file = again["meta"]["output_file"]
    assert file in again["content"]
    assert Path(file).read_text() == "first\nred\nsecond\n"


def test_a_long_output_is_bounded(project: Project) -> None:
    printed = (project.cwd / "d" / "printed").exists
    play_calls(project, started("seq 1 200000; touch d/printed; sleep 300"), once(printed, job("output")))
    begun, rest = results(project)
    for one in (begun, rest):
        assert len(one["content"].encode()) < 12_600
    assert "left out" in begun["content"] + rest["content"]


def test_waiting_ends_with_the_job_or_with_its_time(project: Project) -> None:
    line = "until [ -e go ]; do sleep 0.02; done; echo finished; exit 7"
    driver = play_calls(
        project,
        started(line),
        job("wait", timeout_ms=50),
        [bash("touch go"), job("wait")],
        bash("true"),
    )
    _, early, _, ended, after = results(project)
    assert early["content"].startswith("job 1: running")
    assert ended["content"].startswith("job 1: ended with exit code 7")
    assert "finished" in ended["content"]
    assert ended["meta"]["exit_code"] == 7
    assert "<note>" not in after["content"]  # it knows
    changes = [(e.state, e.exit_code) for e in of(driver.seen, JobChanged)]
    assert changes == [("started", None), ("ended", 7)]


def test_the_model_is_told_of_an_end_with_the_next_result(project: Project) -> None:
    line = "until [ -e go ]; do sleep 0.02; done; echo last words; exit 3"
    ended = once(lambda: let_go(project), bash("true"), bash("true"))
    driver = play_calls(project, started(line), ended, inputs=("go", "next"))
    _, first, second = results(project)
    assert "<note>\nJob 1 (until" in first["content"]
    assert "ended with exit code 3" in first["content"]
    assert "last words" in first["content"]
    assert "<note>" not in second["content"]
    for chat in driver.chats:  # no message stands between a call and its result
        asked: list[str] = []
        for message in chat["messages"]:
            if asked:
                assert message.get("tool_call_id") == asked.pop(0)
            asked = asked or [call["id"] for call in message.get("tool_calls") or []]
    told = [m["content"] for m in driver.chats[-1]["messages"]]
    assert sum("ended with exit code 3" in text for text in told) == 1
    (end,) = project.of_type("job")
    assert end["meta"]["job_id"] == "1"
    assert end["meta"]["exit_code"] == 3


def test_the_model_is_told_of_an_end_between_turns_with_the_next_message(project: Project) -> None:
    line = "until [ -e go ]; do sleep 0.02; done"
    driver = play_calls(project, started(line), inputs=("go", f"!touch go; {ENDED}", "next"))
    last = driver.chats[-1]["messages"][-1]
    assert last["role"] == "user"
    assert last["content"].startswith("next\n\n<note>\nJob 1 (until")
    assert "ended with exit code 0" in last["content"]


@pytest.mark.usefixtures("patient")
def test_what_fails_at_once_is_told_at_once_and_is_no_job(project: Project) -> None:
    driver = play_calls(project, started("echo no such port >&2; exit 9"), job("list"))
    begun, listed = results(project)
    assert begun["content"].startswith("error: exit code 9\n")
    assert "no such port" in begun["content"]
    assert begun["meta"]["exit_code"] == 9
    assert "job_id" not in begun["meta"]
    assert listed["content"].startswith("error: there are no jobs")
    assert of(driver.seen, JobChanged) == []


def test_which_job_is_meant_must_be_clear(project: Project) -> None:
    play_calls(
        project,
        [started("sleep 300"), started("sleep 301")],
        job("stop"),
        job("output", id="9"),
        job("list"),
        job("stop", id=2),
        job("stop"),
    )
    _, _, unclear, missing, listed, second, only = results(project)
    assert unclear["content"] == "error: say which job with id; there are 1, 2"
    assert missing["content"] == "error: say which job with id; there are 1, 2"
    assert [one["job_id"] for one in listed["meta"]["jobs"]] == ["1", "2"]
    assert second["content"].startswith("job 2: stopped")
    assert only["content"].startswith("job 1: stopped")


# the person


def test_the_person_lists_and_stops(project: Project) -> None:
    line = "echo listening; touch d/printed; sleep 3010.5"
    driver = play_calls(
        project,
        [started(line), started("sleep 3010.5")],
        inputs=("go", f"!{PRINTED}", "/ps", "/stop 2", "/stop", "/stop", "next"),
    )
    listed, one, every, none = [e for e in of(driver.seen, CommandDone) if e.command.startswith("/")]
    assert re.fullmatch(rf"1  running \d+:\d\d  {re.escape(line)}", listed.text.split("\n")[0])
    assert listed.text.split("\n")[1] == "   listening"
    assert one.text == "Stopped: job 2 (sleep 3010.5)."
    assert every.text == f"Stopped: job 1 ({line})."
    assert none.text == "No background job is running."
    assert left_running("3010.5") == []
    note = driver.chats[-1]["messages"][-1]["content"]
    assert "stopped by the person" in note


def test_stop_of_no_job_says_which_there_are(project: Project) -> None:
    driver = play_calls(project, started("sleep 300"), inputs=("go", "/stop 7", "/stop x y"))
    first, second = [e for e in of(driver.seen, CommandDone) if e.command]
    assert first.text == "There is no job 7; running: 1."
    assert not first.ok
    assert "running: 1" in second.text


def test_undo_does_not_cover_it_and_that_is_said_once(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def looked_at(_job: BackgroundJob, _seconds: float) -> bool:
        await asyncio.to_thread(until, (project.cwd / "d" / "made").exists)
        return False

    monkeypatch.setattr(BackgroundJob, "wait", looked_at)
    made = "echo one > d/part; mv d/part d/made"  # whole when it is there
    line = f"{made}; until [ -e go ]; do sleep 0.02; done; echo two > d/later; touch d/done; sleep 300"
    driver = play_calls(project, [started(line), started("sleep 300")], inputs=("go", f"!{LET_GO}", "/undo"))
    said = [e.text for e in of(driver.seen, Notice) if "background job" in e.text and "/undo" in e.text]
    assert len(said) == 1
    assert all("/undo does not cover" in one["content"] for one in results(project))
    assert not (project.cwd / "d" / "made").exists()  # before the call returned
    assert (project.cwd / "d" / "later").read_text() == "two\n"


def test_esc_stops_the_turn_and_names_what_runs_on(project: Project) -> None:
    async def scenario(url: str) -> Driver:
        driver = Driver(project, url, mode="yolo")
        driver.start()
        driver.engine.submit(UserInput("go"))

        def watch(event: AnyEvent) -> None:
            if isinstance(event, ToolCallChanged) and (event.tool, event.state) == ("job", "executing"):
                driver.engine.submit(Cancel())

        await driver.until_idle(watch=watch)
        assert left_running("3011.5")
        await driver.send("/stop")
        assert not left_running("3011.5")
        await driver.close()
        return driver

    script = [{"calls": [started("sleep 3011.5")]}, {"calls": [job("wait", timeout_ms=20_000)]}]
    with ScriptedServer(script) as server:
        driver = asyncio.run(scenario(server.url))
    assert of(driver.seen, TurnEnded)[0].status == "cancelled"
    assert any(
        "Still running in the background: job 1 (sleep 3011.5)" in e.text for e in of(driver.seen, Notice)
    )


@pytest.mark.usefixtures("patient")
def test_esc_while_it_is_being_started_ends_it(project: Project) -> None:
    async def scenario(url: str) -> None:
        driver = Driver(project, url, mode="yolo")
        driver.start()
        driver.engine.submit(UserInput("go"))
        cancelling = asyncio.create_task(cancel(driver))
        await driver.until_idle()
        await cancelling
        assert list(driver.engine.agent.session.jobs) == []
        await driver.close()

    async def cancel(driver: Driver) -> None:
        for _ in range(3000):
            if left_running("3012.5"):
                break
            await asyncio.sleep(0.01)
        driver.engine.submit(Cancel())

    with ScriptedServer([{"calls": [started("sleep 3012.5")]}]) as server:
        asyncio.run(scenario(server.url))
    assert left_running("3012.5") == []


# policy


def test_it_is_asked_about_as_any_command_and_says_that_it_runs_on(project: Project) -> None:
    asked: list[ApprovalRequested] = []

    def answer(request: ApprovalRequested) -> ApprovalReply:
        asked.append(request)
        return ApprovalReply(request.approval_id, "no")

    async def scenario(url: str) -> None:
        driver = Driver(project, url, can_ask=True)
        driver.start()
        await driver.send("go", answer)
        await driver.close()

    with ScriptedServer([{"calls": [started("make serve")]}, {"text": "ok"}]) as server:
        asyncio.run(scenario(server.url))
    (request,) = asked
    assert request.subject == "make serve"
    assert any("in the background" in str(reason) for reason in request.reasons)
    assert results(project)[0]["content"].startswith("denied: ")


def test_what_undo_does_not_cover_is_not_told_twice(project: Project) -> None:
    async def scenario(url: str) -> Driver:
        driver = Driver(project, url, can_ask=True)
        driver.start()
        await driver.send("go", lambda request: ApprovalReply(request.approval_id, "yes"))
        await driver.close()
        return driver

    job = started("touch made; until [ -e go ]; do sleep 0.02; done")
    with ScriptedServer([{"calls": [job]}, {"text": "ok"}]) as server:
        seen = asyncio.run(scenario(server.url)).seen
    assert next(event.state for event in of(seen, JobChanged)) == "started"
    assert not [event for event in of(seen, Notice) if "/undo does not cover" in str(event.text)]


@pytest.mark.parametrize(
    ("options", "line", "allowed"),
    [
        ({"mode": "plan"}, "sleep 3018.5", True),
        ({"mode": "default", "preset": "strict"}, "sleep 3018.5", False),
    ],
)
def test_where_a_command_may_not_run_it_may_not_in_the_background(
    project: Project, options: dict[str, Any], line: str, allowed: bool
) -> None:
    play_calls(project, started(line), job("list"), **options)
    begun, listed = results(project)
    assert begun["meta"]["denied"] is not allowed
    assert left_running("3018.5") == []
    assert not (project.cwd / "made").exists()
    assert listed["meta"]["denied"] is False  # a look is allowed everywhere


def test_the_settings_have_a_word_on_the_tool(project: Project) -> None:
    project.configure(permission={"tools": {"job": "deny"}})
    play_calls(project, started("sleep 300"), job("list"))
    assert results(project)[1]["content"].startswith("denied: ")


# ends


@pytest.mark.parametrize("command", ["/new", "/resume {earlier}"])
def test_they_end_with_the_session(project: Project, command: str) -> None:
    with ScriptedServer([]) as server:
        drive(project, server.url, ["!true"])
    (earlier,) = project.logs()
    word = f"3013.{len(command)}"  # a number of its own: both cases may run at the same time
    driver = play_calls(
        project, started(f"sleep {word}"), inputs=("go", command.format(earlier=earlier.stem), "/ps")
    )
    assert left_running(word) == []
    assert any(e.text == f"Ended with the session: job 1 (sleep {word})." for e in of(driver.seen, Notice))
    assert of(driver.seen, CommandDone)[-1].text == "There are no background jobs in this session."


def test_once_ends_them_and_says_which(project: Project) -> None:
    with ScriptedServer([{"calls": [started("sleep 3014.5")]}, {"text": "answer"}]) as server:
        done = project.coder("--mode", "yolo", "--once", "go", url=server.url)
    assert done.returncode == 0
    assert done.stdout == "answer\n"
    assert "Ended with the session: job 1 (sleep 3014.5)." in done.stderr
    assert left_running("3014.5") == []


def test_a_resumed_session_says_that_they_are_gone(project: Project) -> None:
    play_calls(project, started("sleep 3015.5"))
    (log,) = project.logs()
    with ScriptedServer([{"calls": [started("sleep 3016.5")]}, {"text": "ok"}, {"text": "ok"}]) as server:
        driver = drive(project, server.url, ["next", "and"], resume=log.stem, mode="yolo")
        first, last = server.chats[0]["messages"], server.chats[-1]["messages"]
    assert any("ended with the earlier process: 1 (sleep 3015.5)" in e.text for e in of(driver.seen, Notice))
    assert "Background jobs ended with the earlier process: 1 (sleep 3015.5)" in first[-1]["content"]
    assert "earlier process" not in last[-1]["content"]
    assert results(project)[-1]["meta"]["job_id"] == "2"  # an id is not given twice
    with ScriptedServer([{"text": "ok"}]) as server:
        drive(project, server.url, ["once more"], resume=log.stem)
        told = server.chats[0]["messages"][-1]["content"]
    assert "2 (sleep 3016.5)" in told
    assert "3015.5" not in told


# subagents


def test_a_subagent_leaves_its_jobs_to_the_session(project: Project) -> None:
    def answer(request: dict[str, Any]) -> dict[str, Any]:
        texts = [m["content"] for m in request["messages"]]
        tools = [m["content"] for m in request["messages"] if m["role"] == "tool"]
        if any(text.startswith("chore") for text in texts):
            return {"text": "served"} if tools else {"calls": [started("sleep 3017.5")]}
        if not tools:
            return {"calls": [{"name": "task", "arguments": {"agent": "general", "objective": "chore"}}]}
        return {"text": "done"} if len(tools) > 1 else {"calls": [job("stop", id="1")]}

    with ScriptedServer([answer] * 6) as server:
        driver = drive(project, server.url, ["go"], mode="yolo", preset="yolo")
    task, stopped = results(project)
    assert task["content"] == "served\n[Still running, and yours now: job 1 (sleep 3017.5).]"
    assert stopped["content"].startswith("job 1: stopped")
    assert [e.state for e in of(driver.seen, JobChanged)] == ["started", "stopped"]
    assert left_running("3017.5") == []


def test_an_explorer_starts_none(project: Project) -> None:
    def answer(request: dict[str, Any]) -> dict[str, Any]:
        tools = [m["content"] for m in request["messages"] if m["role"] == "tool"]
        if any(m["content"].startswith("look") for m in request["messages"]):
            return {"text": tools[0]} if tools else {"calls": [started("sleep 3019.5")]}
        explore = {"name": "task", "arguments": {"agent": "explore", "objective": "look"}}
        return {"text": "done"} if tools else {"calls": [explore]}

    with ScriptedServer([answer] * 4) as server:
        drive(project, server.url, ["go"], mode="yolo")
    assert "nothing can run in the background here" in results(project)[0]["content"]
    assert left_running("3019.5") == []


def test_a_secret_in_a_job_reaches_neither_model_nor_record(project: Project) -> None:
    key = "ghp_" + "aB3dE6gH9jK2mN5pQ8rS1tU4vW7xY0zA3bC6"
    project.write("key", key)
    line = "cat key; echo; until [ -e go ]; do sleep 0.02; done; cat key; exit 1"
    driver = play_calls(project, started(line), job("list"), once(lambda: let_go(project), bash("true")))
    assert "ended with exit code 1" in results(project)[-1]["content"]
    assert key not in project.logs()[0].read_text()
    assert all(key not in event.last for event in of(driver.seen, JobChanged))
