"""`coder tune`: real tasks against a scripted model that can do some of them in one dialect only."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from cli_kit import run

from coder.addons.tune.tune_tasks import TASKS
from coder.context.prompt import SHORT_ROLE
from kit import ScriptedServer
from kit.driving import Project

FIX = {"do": "edit", "path": "calc.py", "old": "    return a - b\n", "new": "    return a + b\n"}
PORT = {"do": "edit", "path": "config.py", "old": "PORT = 8080\n", "new": "PORT = 9000\n"}
TWO = ["--task", "wrong-operator", "--task", "change-port"]


def only_guided(request: dict[str, Any]) -> dict[str, Any]:
    """Solves both tasks if it is asked for one action, and answers with empty words else."""
    if "tools" in request:
        return {"text": "I would fix that."}
    asked = "\n".join(message["content"] for message in request["messages"])
    if "Changed" in asked:
        return {"text": json.dumps({"do": "done", "answer": "done"})}
    return {"text": json.dumps(FIX if "calc.py" in asked else PORT)}


def tune(project: Project, server: ScriptedServer, *more: str) -> Any:
    return run(project, "tune", "--model", "m:1b", *more, url=server.url, timeout=120)


@pytest.mark.thorough
def test_the_table_tells_what_suits_the_model_and_yes_keeps_it(project: Project) -> None:
    with ScriptedServer([only_guided] * 100) as server:
        done = tune(project, server, *TWO, "--yes", "--only", "native", "--only", "guided")
    assert done.returncode == 0, done.stderr
    head, native, guided = done.stdout.decode().splitlines()
    assert head.split() == ["way", "done", "steps", "tokens", "seconds", "cost"]
    assert native.split()[:2] == ["native", "0/2"]
    assert guided.split()[:2] == ["guided", "2/2"]
    told = done.stderr.decode()
    assert "guided  1/2  wrong-operator  done" in told
    assert "native  2/2  change-port  not done" in told
    assert "What suits m:1b: guided." in told
    kept = json.loads((project.home / ".coder" / "config.json").read_text())
    assert kept["provider"]["models"]["m:1b"] == {"dialect": "guided", "tools": "all"}


@pytest.mark.thorough
def test_what_was_kept_is_used(project: Project) -> None:
    with ScriptedServer([only_guided] * 100) as server:
        tune(project, server, "--task", "wrong-operator", "--yes", "--only", "guided")
        before = len(server.chats)
        run(project, "--once", "hello", "--model", "m:1b", url=server.url)
        assert "tools" not in server.chats[before]


def test_without_yes_nothing_is_kept(project: Project) -> None:
    with ScriptedServer([only_guided] * 100) as server:
        done = tune(project, server, "--task", "wrong-operator", "--only", "guided", "--json")
    told = json.loads(done.stdout)
    assert told["best"] == "guided"
    assert told["ways"][0]["outcomes"][0]["done"] is True
    assert not (project.home / ".coder" / "config.json").exists()


def test_a_model_that_can_do_nothing_is_said_to(project: Project) -> None:
    with ScriptedServer([{"text": "no"}] * 100) as server:
        done = tune(project, server, "--task", "wrong-operator", "--only", "native")
    assert done.returncode == 1
    assert b"finished none" in done.stderr


@pytest.mark.parametrize("dead", [False, True], ids=["a wrong key", "a dead server"])
def test_a_server_that_cannot_be_asked_ends_it_at_once(project: Project, dead: bool) -> None:
    """It says nothing of the model."""
    refusal = {"status": 401, "body": {"error": {"message": "no such key"}}}
    with ScriptedServer([refusal] * 100) as server:
        url = "http://127.0.0.1:1/v1" if dead else server.url
        done = run(project, "tune", "--model", "m:1b", url=url, timeout=120)
        assert len(server.chats) <= 1
    assert done.returncode == 1
    assert done.stdout == b""
    _, *told = done.stderr.decode().splitlines()
    assert len(told) == 1
    assert ("connection refused" if dead else "no such key") in told[0]


def test_the_reason_of_a_failure_is_what_the_check_asserts(project: Project) -> None:
    with ScriptedServer([{"text": "no"}] * 100) as server:
        done = tune(project, server, "--task", "wrong-operator", "--only", "native", "--json")
    (outcome,) = json.loads(done.stdout)["ways"][0]["outcomes"]
    assert outcome["why"].startswith("assert ")


def test_few_tools_are_few(project: Project) -> None:
    with ScriptedServer([{"text": "no"}] * 100) as server:
        tune(project, server, "--task", "wrong-operator", "--only", "native, few")
        names = {tool["function"]["name"] for tool in server.chats[0]["tools"]}
        assert server.chats[0]["messages"][0]["content"].startswith(SHORT_ROLE)
    assert names == {"read", "glob", "grep", "write", "edit", "bash", "todowrite"}


def test_few_tools_and_a_short_prompt_where_they_suit_the_model(project: Project) -> None:
    project.configure(provider={"models": {"m:1b": {"tools": "few"}}})
    with ScriptedServer([{"text": "hi"}] * 2) as server:
        run(project, "--once", "hello", "--model", "m:1b", url=server.url)
        run(project, "--once", "hello", "--model", "other", url=server.url)
        few, many = (len(json.dumps(chat)) for chat in server.chats)
    assert few < 0.3 * many


def test_an_unknown_task_is_named(project: Project) -> None:
    done = run(project, "tune", "--task", "nonsense")
    assert done.returncode == 2
    assert b"There is no task nonsense" in done.stderr


def test_there_are_enough_tasks_of_every_kind() -> None:
    assert len(TASKS) >= 24
    kinds = {task.kind for task in TASKS}
    assert kinds == {"fix", "function", "edit", "rename", "repair", "question", "search", "refuse", "files"}


@pytest.mark.parametrize("task", [task for task in TASKS if task.check], ids=lambda task: task.name)
def test_no_task_is_done_before_it_is_begun(task: Any, tmp_path: Any) -> None:
    """Except for what should not be done."""
    for name, text in task.files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    done = subprocess.run(
        [sys.executable, "-B", "-c", task.check], cwd=tmp_path, capture_output=True, check=False
    )
    assert (done.returncode == 0) == (task.kind == "refuse")
