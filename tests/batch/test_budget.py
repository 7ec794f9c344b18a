"""`--budget` holds across runs: what was paid for counts, also where nothing else is left of it."""

from __future__ import annotations

import json
import signal
from collections import Counter
from functools import partial
from typing import Any

import pytest

from batch.batch_kit import Batch, make_repository, model, wait_for
from kit.driving import Project

TASK: dict[str, Any] = {"id": "one", "prompt": "write the file", "cwd": "."}
TOKENS = 100_000
USAGE = {"prompt_tokens": TOKENS, "completion_tokens": 0, "total_tokens": TOKENS}  # 0.10 USD


@pytest.fixture
def priced(project: Project) -> Project:
    make_repository(project.cwd)
    prices = {"scripted": {"input": 1, "output": 1}}
    project.configure(budget={"prices": prices}, provider={"max_output_tokens": TOKENS})
    return project


def test_attempts_that_were_done_again_count(priced: Project) -> None:
    batch = Batch(priced, [{**TASK, "check": "false"}])
    with model(lambda _: {"text": "x", "usage": USAGE}) as server:
        for _ in range(5):
            batch.run(server.url, "--retry", "failed", "--budget", "0.35")
    assert [row["cost"] for row in batch.rows()] == [0.1, 0.1, 0.1]


def test_a_later_run_knows_what_a_request_costs(project: Project) -> None:
    """Also where the provider counts far more than the prompt's size lets expect."""
    make_repository(project.cwd)
    prices = {"scripted": {"input": 1, "output": 1}}
    project.configure(budget={"prices": prices}, provider={"max_output_tokens": 10})
    batch = Batch(project, [{**TASK, "check": "false"}])
    with model(lambda _: {"text": "x", "usage": USAGE}) as server:
        for _ in range(5):
            batch.run(server.url, "--retry", "failed", "--budget", "0.25")
    assert [row["cost"] for row in batch.rows()] == [0.1, 0.1]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_requests_under_way_at_the_end_of_a_driver_count(priced: Project, number: int) -> None:
    """The provider may have answered them."""
    batch = Batch(priced, [TASK])
    with model(lambda _: {"text": "x", "delay": 600}) as server:
        for runs in (1, 2):
            process = batch.start(server.url, "--resume", "--budget", "0.3")
            wait_for(partial(server.requests.__getitem__, slice(runs - 1, runs)))
            wait_for(partial(held, batch, runs))
            process.send_signal(number)
            process.communicate(timeout=60)
            wait_for(lambda: not batch.processes())
        asked = len(server.requests)
        batch.run(server.url, "--resume", "--budget", "0.3")
        assert len(server.requests) == asked, "there is no money for a third"


def held(batch: Batch, runs: int) -> bool:
    lines = (batch.out / "attempts.jsonl").read_text(encoding="utf-8").splitlines()
    return len([line for line in lines if "held" in json.loads(line)]) == runs


def test_what_a_row_does_not_cost_counts_too(priced: Project) -> None:
    """A request that was cancelled by the task's time limit is no part of the row's cost."""
    batch = Batch(priced, [{**TASK, "timeout_s": 1}])
    with model(lambda _: {"text": "x", "delay": 600}) as server:
        batch.run(server.url, "--budget", "0.15")
        assert [row["status"] for row in batch.rows()] == ["timeout"]
        asked = len(server.requests)
        batch.run(server.url, "--retry", "failed", "--budget", "0.15")
        assert len(server.requests) == asked


def test_a_task_s_budget_without_a_price_is_refused(project: Project) -> None:
    make_repository(project.cwd)
    batch = Batch(project, [{**TASK, "budget_usd": 0.01}])
    with model(lambda _: {"text": "x"}) as server:
        done = batch.run(server.url)
    assert done.returncode == 2
    assert "scripted" in done.stderr
    assert batch.rows() == []


def test_a_list_price_is_one(project: Project) -> None:
    """No request is made: the budget is too little for any."""
    make_repository(project.cwd)
    batch = Batch(project, [TASK])
    environ = {"ANTHROPIC_API_KEY": "sk-ant-1", "CODER_MODEL": "claude-sonnet-5-5"}
    done = batch.run("", "--budget", "0.000001", env=environ)
    assert "need a price" not in done.stderr
    assert "too little for a further request" in done.stdout + done.stderr
    done = batch.run("", "--budget", "1", env={**environ, "CODER_MODEL": "claude-opus-9"})
    assert "need a price for claude-opus-9" in done.stderr


def test_a_server_is_asked_for_its_model_once(priced: Project) -> None:
    """And not by every task; what it says has the price that is set for it."""
    batch = Batch(priced, [{**TASK, "id": f"t{number}"} for number in range(3)])
    with model(lambda _: {"text": "x", "usage": USAGE}) as server:
        environ = {"CODER_BASE_URL": server.url}
        done = batch.run("", "--budget", "10", env=environ)
        methods = Counter(request.method for request in server.requests)
    assert (done.returncode, methods) == (0, {"GET": 1, "POST": 3}), done.stderr
    assert {row["model"] for row in batch.rows()} == {"scripted"}
