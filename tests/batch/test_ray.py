"""`coder batch --engine ray` on a cluster of two nodes. `./dev ray` runs these; else they are skipped."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray")

from batch.batch_kit import FULL, Batch, git, make_repository, model, runs, wait_for, writes
from batch.ray_kit import Cluster, ray_batch
from batch.test_local import shallow_clone
from kit.driving import Project

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")

TASK: dict[str, Any] = {"id": "one", "prompt": "write the file", "cwd": "."}


def many(count: int, **more: Any) -> list[dict[str, Any]]:
    return [{**TASK, "id": f"t{number}", "prompt": f"task {number}", **more} for number in range(count)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    made = Cluster()
    try:
        yield made
    finally:
        made.close()


@pytest.fixture(autouse=True)
def cut_off(project: Project) -> None:
    """Commands of tasks that could reach the cluster could leave their sandbox by it."""
    project.configure(sandbox={"network": False})


def kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def test_everything_killed_once_and_every_task_has_one_result(project: Project, cluster: Cluster) -> None:
    """A task process, a Ray worker, a node, the driver; then resumed."""
    make_repository(project.cwd)
    node = cluster.add_node()
    batch = Batch(project, many(FULL, check="test -f new.txt"))
    with model(writes()) as server:
        driver = batch.start(server.url, "--engine", "ray", "--address", cluster.address, "--jobs", "4")
        wait_for(lambda: len(batch.rows()) >= FULL // 10, 300)
        assert len(cluster.nurseries()) <= 4  # a worker process for each core, however often its task waits
        wait_for(cluster.task_processes)
        kill(next(iter(cluster.task_processes()), 0) or 2**22)
        wait_for(lambda: len(batch.rows()) >= FULL // 5, 300)
        wait_for(cluster.nurseries)
        kill(next(iter(cluster.nurseries().values())))
        wait_for(lambda: len(batch.rows()) >= FULL * 3 // 10, 300)
        cluster.kill_node(node)
        wait_for(lambda: len(batch.rows()) >= FULL // 2, 600)
        driver.kill()
        driver.communicate()
        cluster.nothing_left()  # the job ends with its driver
        wait_for(lambda: not list(batch.temp.glob("*/batch-*")))
        finished = batch.by_id()
        assert FULL // 2 <= len(finished) < FULL
        done = ray_batch(batch, cluster, server.url, "--jobs", "4", "--resume")
    assert done.returncode == 0, done.stderr
    rows = batch.by_id()  # one row each
    assert len(rows) == FULL
    assert all(row["check"]["status"] == "passed" for row in rows.values())
    assert {name: rows[name] for name in finished} == finished  # nothing was repeated
    assert max(row["attempt"] for row in rows.values()) > 1  # what was killed ran again
    assert all((batch.out / name / "patch.diff").stat().st_size for name in rows)


def test_the_same_files_with_a_client_and_no_key_in_what_ray_keeps(
    project: Project, cluster: Cluster
) -> None:
    """Code, settings and repositories come through Ray: the nodes have another temporary directory, and the
    source is moved away while the batch runs."""
    source = make_repository(project.cwd / "source", {"a.txt": "one\n"})
    shallow_clone(project.home / "long", project.cwd / "shallow")
    first = git(source, "rev-parse", "HEAD")
    (source / "a.txt").write_text("two\n", encoding="utf-8")  # uncommitted
    headers = {"X-Team": "from-settings"}
    project.configure(runtime={"max_steps": 7}, provider={"headers": headers}, sandbox={"network": False})
    key, token = "sk-very-secret-key", "tok-very-secret"
    moved = project.cwd / "moved"

    def answer(request: dict[str, Any]) -> Any:
        if source.exists():
            source.rename(moved)
        return runs("cat a.txt")(request)

    batch = Batch(
        project,
        [
            {**TASK, "cwd": "source", "check": "cat a.txt; echo $TOKEN", "env": ["TOKEN"], "mode": "yolo"},
            {
                **TASK,
                "id": "ref",
                "cwd": "source",
                "ref": first,
                "until_ref": True,
                "check": "cat a.txt; echo $TOKEN; git cat-file --batch-all-objects --batch-check | wc -l",
            },
            {**TASK, "id": "none", "cwd": "source", "ref": "no-such-branch"},
            {**TASK, "id": "cut", "cwd": "shallow", "check": "git log --format=%s; git tag"},
        ],
    )
    with model(answer) as server:
        words = ["--engine", "ray", "--address", cluster.client, "--jobs", "3"]
        done = batch.run(server.url, *words, env={"CODER_API_KEY": key, "TOKEN": token})
        sent = [request.headers for request in server.requests]
    cluster.nothing_left()
    assert done.returncode == 1, done.stderr
    rows = batch.by_id()
    assert rows["one"]["check"]["output"] == f"two\n{token}"
    assert rows["ref"]["check"]["output"] == "one\n\n3"  # a commit, a tree and a file, and nothing later
    assert rows["cut"]["check"]["output"].split("\n")[1:] == ["two", "here"]
    assert (rows["none"]["status"], "no-such-branch" in rows["none"]["error"]) == ("setup_failed", True)
    assert {headers["authorization"] for headers in sent} == {f"Bearer {key}"}
    assert {headers["x-team"] for headers in sent} == {"from-settings"}
    types = [json.loads(line)["type"] for line in batch.file_of("one", "record.jsonl").splitlines()]
    assert (types[0], types[-1]) == ("session_start", "session_end")
    assert batch.file_of("one", "answer.md") == "ran"
    kept = [path for path in cluster.session.rglob("*") if path.is_file()]
    assert any("_ray_pkg_" in str(path) and path.name == "runner.py" for path in kept)  # the code was shipped
    assert any(path.name.startswith("worker-") for path in kept)  # logs
    for path in kept:
        assert not _contains(path, key.encode(), token.encode()), path
    assert not _contains(batch.out / "results.jsonl", key.encode())


def _contains(path: Path, *words: bytes) -> bool:
    data = path.read_bytes()
    return any(word in data for word in words)


def test_ctrl_c_twice_cancels_everywhere(project: Project, cluster: Cluster) -> None:
    """What runs, and what waits for a node: more than the cluster has cores for."""
    make_repository(project.cwd)
    batch = Batch(project, many(4))
    with model(lambda _request: {"text": "never " * 1000, "delay": 60}) as server:
        driver = batch.start(server.url, "--engine", "ray", "--address", cluster.address, "--jobs", "4")
        wait_for(lambda: len(server.chats) >= 2, 300)
        wait_for(lambda: _status(batch).get("waiting") == 2)
        assert len(_status(batch)["running"]) == 2
        assert "waiting for a node" in project.coder("batch", "status", str(batch.out)).stdout
        driver.send_signal(signal.SIGINT)
        wait_for(lambda: _status(batch).get("stopped") == "interrupted")
        assert cluster.task_processes()
        driver.send_signal(signal.SIGINT)
        out, err = driver.communicate(timeout=300)
    assert (driver.returncode, "Cancelled" in out, "Traceback" in err) == (130, True, False), err
    assert batch.rows() == []
    batch.nothing_left()
    cluster.nothing_left()


def _status(batch: Batch) -> dict[str, Any]:
    with contextlib.suppress(OSError, ValueError):
        found: dict[str, Any] = json.loads((batch.out / "status.json").read_bytes())
        return found
    return {}


def test_ctrl_c_once_finishes_what_runs_and_limits_hold_across_nodes(
    project: Project, cluster: Cluster
) -> None:
    make_repository(project.cwd)
    prices = {"scripted": {"input": 10.0, "output": 10.0}}
    project.configure(budget={"prices": prices}, sandbox={"network": False})
    usage = {"prompt_tokens": 16000, "completion_tokens": 4000, "total_tokens": 20000}  # 20 cents
    refusals = iter(
        [{"status": 429, "headers": {"Retry-After": "1"}, "body": {"error": {"message": "no"}}}] * 2
    )
    batch = Batch(project, many(6))
    paid = []

    def answer(request: dict[str, Any]) -> Any:
        if refused := next(refusals, None):
            return refused
        paid.append(request)
        return {**writes()(request), "usage": usage}

    with model(answer) as server:
        done = ray_batch(batch, cluster, server.url, "--jobs", "2", "--budget", "1")
        assert (done.returncode, "left of the budget" in done.stdout) == (1, True)
        assert 1 <= len(paid) <= 5  # of 20 cents each
        few = len(batch.by_id())
        assert few < 6
        words = ["--engine", "ray", "--address", cluster.address, "--jobs", "1", "--resume"]
        driver = batch.start(server.url, *words)
        wait_for(lambda: len(_status(batch).get("running", [])) == 1 and not _status(batch)["ended"], 300)
        driver.send_signal(signal.SIGINT)
        out, _ = driver.communicate(timeout=300)
        assert (driver.returncode, "Interrupted" in out) == (130, True)
        cluster.nothing_left()
        assert few < len(batch.by_id()) < 6
        assert ray_batch(batch, cluster, server.url, "--resume").returncode == 0
    assert len(batch.by_id()) == 6


def test_a_hub_that_dies_ends_the_batch_with_a_sentence(project: Project, cluster: Cluster) -> None:
    """As with the head's machine. Its attempts end too, and are done again."""
    make_repository(project.cwd)
    batch = Batch(project, many(2))
    with model(lambda _request: {"text": "never " * 1000, "delay": 60}) as server:
        driver = batch.start(server.url, "--engine", "ray", "--address", cluster.address)
        wait_for(lambda: len(server.chats) >= 2, 300)
        (hub,) = cluster.hubs()
        kill(hub)
        out, err = driver.communicate(timeout=300)
    assert (driver.returncode, "The cluster is gone" in out, "--resume" in out) == (1, True, True), out + err
    assert (batch.rows(), "Traceback" in err) == ([], False), err
    batch.nothing_left()
    cluster.nothing_left()
    lost = [line for line in (batch.out / "attempts.jsonl").read_text().splitlines() if '"lost"' in line]
    assert len(lost) == 2


def test_a_cluster_that_is_not_there_is_said_at_once(project: Project, cluster: Cluster) -> None:
    make_repository(project.cwd)
    batch = Batch(project, [TASK])
    for address, said in [("127.0.0.1:1", "no Ray cluster at 127.0.0.1:1"), ("nowhere", "HOST:PORT")]:
        done = batch.run("http://127.0.0.1:9/v1", "--engine", "ray", "--address", address)
        assert (done.returncode, done.stdout) == (2, "")
        assert said in done.stderr
    assert project.coder("batch", str(batch.file), "--out", "x", "--address", "auto").returncode == 2


@pytest.mark.skipif(os.geteuid() != 0, reason="starts a process of another user")
def test_no_worker_imports_from_the_project(project: Project, cluster: Cluster) -> None:
    """Ray puts the driver's directory first on the path of its workers, which are in no sandbox."""
    make_repository(project.cwd)
    canary = project.home / "canary"
    for name in ("msgspec", "pathspec", "yaml", "typing_extensions"):
        project.write(f"{name}.py", f"open({str(canary)!r}, 'w').close(); raise ImportError")
    batch = Batch(project, [{**TASK, "check": "test -f new.txt"}])
    safe = {"PYTHONSAFEPATH": "1"}  # `-m`, by which tests start coder, would import from it as well
    with model(writes()) as server:
        done = ray_batch(batch, cluster, server.url, env=safe)
    assert not canary.exists()
    assert done.returncode == 0, done.stderr


def test_commands_cannot_leave_their_sandbox_by_the_cluster(project: Project, cluster: Cluster) -> None:
    """Ray asks nobody who he is, and runs what it is sent outside."""
    make_repository(project.cwd)
    canary = project.home / "canary"
    job = f"import os, ray; ray.init({cluster.client!r}); "
    job += f"ray.get(ray.remote(lambda: os.mkdir({str(canary)!r})).remote())"
    batch = Batch(project, [{**TASK, "mode": "yolo"}])
    with model(runs(f'timeout 30 {sys.executable} -c "{job}"')) as server:
        done = ray_batch(batch, cluster, server.url)
        assert len(server.chats) == 2
        assert not canary.exists()
        project.configure()
        refused = ray_batch(batch, cluster, server.url, "--resume")
    assert done.returncode == 0, done.stderr
    assert refused.returncode == 2
    assert "outside their sandbox" in refused.stderr


def test_auto_never_joins_a_cluster_of_another_user(cluster: Cluster) -> None:
    """Ray itself takes the address in the command line of any process named `raylet`, and our keys would
    go to whoever started it."""
    from coder.addons.batch.cluster import own_clusters

    words = ["raylet", "-c", "echo; read end", "--gcs-address=203.0.113.1:6379"]
    with subprocess.Popen(
        words, executable="/bin/sh", user=65534, cwd="/", stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as foreign:
        assert foreign.stdout is not None
        foreign.stdout.readline()
        found = own_clusters()
        foreign.kill()
    assert cluster.address.rpartition(":")[2] in {address.rpartition(":")[2] for address in found}
    assert "203.0.113.1:6379" not in found
