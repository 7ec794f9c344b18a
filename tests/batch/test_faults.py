"""Kills, interrupts and resuming: every task gets exactly one final result, and nothing is left behind."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from batch.batch_kit import FULL, Batch, make_repository, model, wait_for, writes
from coder.addons.batch.results import Progress, Running
from coder.addons.batch.table import Display
from coder.texts import Catalog, Language
from kit.driving import Project

TASK: dict[str, Any] = {"id": "one", "prompt": "write the file", "cwd": "."}


def many(count: int, **more: Any) -> list[dict[str, Any]]:
    return [{**TASK, "id": f"t{number}", "prompt": f"task {number}", **more} for number in range(count)]


def parent_of(pid: int) -> int:
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])
    return 0


def nursery_of(batch: Batch) -> int | None:
    """None between the end of one and the start of the next."""
    return next((pid for pid in batch.processes() if parent_of(pid) == batch.pids[-1]), None)


def task_processes(batch: Batch) -> list[int]:
    fork_server = nursery_of(batch)
    return [pid for pid in batch.processes() if pid != fork_server and parent_of(pid) == fork_server]


def kill(pids: Sequence[int | None], by: signal.Signals = signal.SIGKILL) -> int:
    killed = 0
    for pid in filter(None, pids):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, by)
            killed += 1
    return killed


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_every_task_has_one_result_although_everything_is_killed_once(project: Project) -> None:
    """Task processes, the fork server, the driver; then resumed. `./dev ray` does it with 200."""
    make_repository(project.cwd)
    batch = Batch(project, many(FULL, check="test -f new.txt"))
    with model(writes()) as server:
        driver = batch.start(server.url, "--jobs", "4")
        wait_for(lambda: len(batch.rows()) >= FULL // 20)
        wait_for(lambda: kill(task_processes(batch)[:2]))
        wait_for(lambda: len(batch.rows()) >= FULL * 3 // 20)
        wait_for(lambda: kill([nursery_of(batch)]))
        wait_for(lambda: len(batch.rows()) >= FULL * 3 // 10)
        driver.kill()
        driver.communicate()
        wait_for(lambda: not batch.processes())  # task processes end with their driver
        finished = batch.by_id()
        assert FULL * 3 // 10 <= len(finished) < FULL
        done = batch.run(server.url, "--jobs", "4", "--resume")
    assert done.returncode == 0, done.stderr
    rows = batch.by_id()  # one row each
    assert len(rows) == FULL
    assert all(row["check"]["status"] == "passed" for row in rows.values())
    assert {name: rows[name] for name in finished} == finished  # nothing was repeated
    assert max(row["attempt"] for row in rows.values()) > 1  # what was killed ran again
    assert all((batch.out / name / "patch.diff").stat().st_size for name in rows)


@pytest.mark.thorough
def test_resume_does_what_is_missing_and_a_torn_row_is_missing(project: Project) -> None:
    make_repository(project.cwd)
    batch = Batch(project, many(3))
    with model(writes()) as server:
        batch.run(server.url)
        rows = (batch.out / "results.jsonl").read_bytes().splitlines(keepends=True)
        kept, torn = rows[:2], rows[2]
        (batch.out / "results.jsonl").write_bytes(b"".join(kept) + torn[: len(torn) // 2])
        before = len(server.chats)
        assert batch.run(server.url).returncode == 2  # it has results
        assert len(server.chats) == before
        assert batch.run(server.url, "--resume").returncode == 0
        assert len(server.chats) == before + 2
        assert batch.run(server.url, "--resume").returncode == 0
        assert len(server.chats) == before + 2
    assert (batch.out / "results.jsonl").read_bytes().splitlines(keepends=True)[:2] == kept
    again = batch.by_id()[json.loads(torn)["id"]]
    assert again["attempt"] == 2


@pytest.mark.thorough
def test_retry_runs_failed_tasks_again_and_the_last_row_counts(project: Project) -> None:
    make_repository(project.cwd)
    batch = Batch(project, [{**TASK, "check": "test -f new.txt"}, {**TASK, "id": "two"}])
    with model(lambda _request: {"text": "I did nothing"}) as server:
        assert batch.run(server.url).returncode == 1
    with model(writes()) as server:
        assert batch.run(server.url, "--resume").returncode == 1  # both have a result
        assert server.chats == []
        assert batch.run(server.url, "--retry", "failed").returncode == 0
    assert [(row["id"], row["attempt"]) for row in batch.rows() if row["id"] == "one"] == [
        ("one", 1),
        ("one", 2),
    ]
    assert [row["attempt"] for row in batch.rows() if row["id"] == "two"] == [1]


@pytest.mark.thorough
def test_a_task_whose_process_always_dies_is_given_up(project: Project) -> None:
    """Three attempts; then the row says so."""
    make_repository(project.cwd)
    asked = threading.Semaphore(0)

    def hang(_request: dict[str, Any]) -> Any:
        asked.release()
        return {"text": "never " * 1000, "delay": 60}

    batch = Batch(project, [TASK])
    with model(hang) as server:
        driver = batch.start(server.url)
        for _ in range(3):
            assert asked.acquire(timeout=60)
            assert kill(task_processes(batch))
        driver.communicate(timeout=60)
    row = batch.by_id()["one"]
    assert (row["status"], row["attempt"], driver.returncode) == ("lost", 3, 1)
    assert "died 3 times" in row["error"]
    batch.nothing_left()


@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_task_that_somebody_else_ended_is_done_again(project: Project, by: signal.Signals) -> None:
    make_repository(project.cwd)
    asked, answers = threading.Event(), iter([{"text": "never " * 1000, "delay": 60}])

    def answer(request: dict[str, Any]) -> Any:
        asked.set()
        return next(answers, None) or writes()(request)

    batch = Batch(project, [TASK])
    with model(answer) as server:
        driver = batch.start(server.url)
        assert asked.wait(60)
        assert kill(task_processes(batch), by)
        driver.communicate(timeout=60)
    row = batch.by_id()["one"]
    assert (row["status"], row["attempt"], driver.returncode) == ("ok", 2, 0)
    batch.nothing_left()


@pytest.mark.parametrize("word", ["clone", "reset"])
def test_a_git_that_was_killed_is_no_result_of_the_task(project: Project, word: str) -> None:
    make_repository(project.cwd)
    batch = Batch(project, [{**TASK, "check": "test -f new.txt"}])
    once = project.home / "once"
    body = f'#!/bin/sh\ntest "$1" = {word} && mkdir {once} && kill -9 $$\nexec {shutil.which("git")} "$@"\n'
    program = project.home / "bin" / "git"
    program.parent.mkdir()
    program.write_text(body, encoding="utf-8")
    program.chmod(0o755)
    with model(writes()) as server:
        done = batch.run(server.url, env={"PATH": f"{program.parent}:{os.environ['PATH']}"})
    row = batch.by_id()["one"]
    assert (done.returncode, row["status"], row["attempt"]) == (0, "ok", 2), row
    assert once.exists()


def slow_second_step(request: dict[str, Any]) -> Any:
    if request["messages"][-1]["role"] == "tool":
        return {"text": "done", "delay": 0.3}
    return writes()(request)


@pytest.mark.thorough
def test_ctrl_c_once_finishes_what_runs(project: Project) -> None:
    make_repository(project.cwd)
    batch = Batch(project, many(6))
    with model(slow_second_step) as server:
        driver = batch.start(server.url, "--jobs", "2")
        wait_for(lambda: len(server.chats) >= 2)
        driver.send_signal(signal.SIGINT)
        out, _ = driver.communicate(timeout=60)
        assert driver.returncode == 130
        assert "Interrupted" in out
        assert "--resume" in out
        finished = batch.by_id()
        assert 2 <= len(finished) < 6
        assert all(row["status"] == "ok" for row in finished.values())
        batch.nothing_left()
        assert batch.run(server.url, "--resume").returncode == 0
    assert Counter(row["id"] for row in batch.rows()) == Counter(f"t{n}" for n in range(6))


@pytest.mark.thorough
def test_ctrl_c_twice_cancels_and_nothing_counts_as_done(project: Project) -> None:
    make_repository(project.cwd)
    batch = Batch(project, many(3))
    with model(lambda _request: {"text": "never " * 1000, "delay": 60}) as server:
        driver = batch.start(server.url, "--jobs", "2")
        wait_for(lambda: len(server.chats) >= 2)
        driver.send_signal(signal.SIGINT)
        wait_for(lambda: _stopped(batch) == "interrupted")
        driver.send_signal(signal.SIGINT)
        out, _ = driver.communicate(timeout=60)
    assert driver.returncode == 130
    assert "Cancelled" in out
    assert batch.rows() == []
    batch.nothing_left()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_with_the_records_of_its_tasks_closed(project: Project, number: int) -> None:
    make_repository(project.cwd)
    batch = Batch(project, many(2))
    with model(lambda _request: {"text": "never " * 1000, "delay": 60}) as server:
        driver = batch.start(server.url, "--jobs", "2")
        wait_for(lambda: len(server.chats) >= 2)
        driver.send_signal(number)
        driver.communicate(timeout=60)
    assert (driver.returncode, batch.rows()) == (130, [])
    records = [path.read_text(encoding="utf-8") for path in batch.out.glob("*/record.jsonl")]
    assert len(records) == 2
    assert all('"type":"session_end"' in text.splitlines()[-1] for text in records)
    batch.nothing_left()


@pytest.mark.thorough
def test_a_batch_that_nohup_started_goes_on_when_the_terminal_closes(project: Project) -> None:
    make_repository(project.cwd)
    batch = Batch(project, many(2))
    with model(slow_second_step) as server:
        kept = signal.signal(signal.SIGHUP, signal.SIG_IGN)
        try:
            driver = batch.start(server.url, "--jobs", "1")
        finally:
            signal.signal(signal.SIGHUP, kept)
        wait_for(lambda: server.chats)
        driver.send_signal(signal.SIGHUP)
        out, err = driver.communicate(timeout=60)
    assert (driver.returncode, len(batch.by_id())) == (0, 2), out + err


def _stopped(batch: Batch) -> str:
    with contextlib.suppress(OSError):
        return str(json.loads((batch.out / "status.json").read_bytes())["stopped"])
    return ""


@pytest.mark.thorough
def test_time_for_the_batch(project: Project) -> None:
    make_repository(project.cwd)
    batch = Batch(project, many(3))
    with model(lambda _request: {"text": "never " * 1000, "delay": 60}) as server:
        done = batch.run(server.url, "--time", "2s")
    assert done.returncode == 1
    assert "The time is up" in done.stdout
    assert batch.rows() == []


@pytest.mark.thorough
def test_a_second_driver_is_kept_out_and_status_shows_the_first(project: Project) -> None:
    make_repository(project.cwd)
    batch = Batch(project, many(2))
    with model(slow_second_step) as server:
        driver = batch.start(server.url, "--jobs", "1")
        wait_for(lambda: (batch.out / "status.json").exists())
        second = batch.start(server.url, "--resume")
        _, err = second.communicate(timeout=60)
        assert second.returncode == 2
        assert "Another `coder batch` is writing" in err
        status = project.coder("batch", "status", str(batch.out))
        driver.communicate(timeout=60)
    assert status.returncode == 0
    assert "of 2 done" in status.stdout
    ended = project.coder("batch", "status", str(batch.out))
    assert "2 of 2 done" in ended.stdout
    assert "It has ended." in ended.stdout
    assert project.coder("batch", "status", str(project.cwd)).returncode == 2


def test_status_of_a_killed_driver_says_how_to_go_on(project: Project) -> None:
    make_repository(project.cwd)
    batch = Batch(project, many(2))
    with model(slow_second_step) as server:
        driver = batch.start(server.url, "--jobs", "1")
        wait_for(lambda: (batch.out / "status.json").exists())
        driver.kill()
        driver.communicate()
    assert "--resume` goes on" in project.coder("batch", "status", str(batch.out)).stdout


def test_a_ctrl_c_that_the_terminal_echoes_leaves_the_table_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import io

    import pyte

    shown = io.StringIO()
    monkeypatch.setattr(shown, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdout", shown)
    monkeypatch.setenv("TERM", "xterm")
    display = Display(tmp_path, Catalog("en"))
    progress = Progress(total=5, seconds_left=9.0, running=[Running("one", 1, 2.0)])
    display.show(progress, [])
    shown.write("^C")
    progress.stopped = "interrupted"
    display.show(progress, [])
    screen = pyte.Screen(80, 10)
    pyte.Stream(screen).feed(shown.getvalue().replace("\n", "\r\n"))
    lines = [line.rstrip() for line in screen.display if line.strip()]
    assert lines[0].startswith("0 of 5 done · finishing what runs")
    assert [line.split()[0] for line in lines if "one" in line or "of 5" in line] == ["0", "one"]


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize(("width", "height"), [(44, 24), (80, 8), (30, 5)])
def test_the_table_fits_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lang: Language, width: int, height: int
) -> None:
    """Drawn over, not piled up: the summary with its numbers, and of every row the time."""
    import io

    import pyte

    shown = io.StringIO()
    monkeypatch.setattr(shown, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdout", shown)
    for name, value in (("TERM", "xterm"), ("COLUMNS", str(width)), ("LINES", str(height))):
        monkeypatch.setenv(name, value)
    display = Display(tmp_path, Catalog(lang))
    running = [Running(f"migrate-the-service-number-{n}", 1, 11.9) for n in range(14)]
    screen = pyte.HistoryScreen(width, height)
    for done in range(3):
        display.show(Progress(total=30, done=done, succeeded=done, cost=0.1, running=running), [])
    pyte.Stream(screen).feed(shown.getvalue().replace("\n", "\r\n"))
    lines = [line.rstrip() for line in screen.display if line.strip()]
    assert not screen.history.top
    # Terminals keep what is erased from the first row on in their scrollback: only rows below are erased.
    assert shown.getvalue().count("\x1b[J") == shown.getvalue().count("\n\x1b[J")
    assert "$0.1000" in "".join(lines)
    rows = [line for line in lines if "number-" in line]
    assert bool(rows) == (height > 5)
    assert all("11.9s" in row for row in rows)


PRICES = {"scripted": {"input": 10.0, "output": 10.0}}
USAGE = {"prompt_tokens": 16000, "completion_tokens": 4000, "total_tokens": 20000}  # 20 cents


def priced(request: dict[str, Any]) -> Any:
    return {**writes()(request), "usage": USAGE}


@pytest.mark.thorough
def test_the_budget_is_hard_and_counts_what_earlier_runs_spent(project: Project) -> None:
    make_repository(project.cwd)
    project.configure(budget={"prices": PRICES})
    batch = Batch(project, many(8))
    with model(priced) as server:
        done = batch.run(server.url, "--jobs", "3", "--budget", "2")
        spent = len(server.chats) * 0.2
        assert spent <= 2
        assert done.returncode == 1
        assert "left of the budget" in done.stdout
        finished = batch.by_id()
        assert len(finished) < 8
        assert all(row["cost"] == pytest.approx(0.4) for row in finished.values())
        again = batch.run(server.url, "--resume", "--budget", "2")
        assert again.returncode == 1
        assert len(server.chats) * 0.2 <= 2
        assert batch.run(server.url, "--resume", "--budget", "20").returncode == 0
    assert len(batch.by_id()) == 8


def test_a_budget_without_prices_is_refused(project: Project) -> None:
    make_repository(project.cwd)
    batch = Batch(project, [{**TASK, "model": "unknown-model"}])
    with model(priced) as server:
        done = batch.run(server.url, "--budget", "2")
        assert (done.returncode, server.chats) == (2, [])
    assert "unknown-model" in done.stderr
    assert "budget.prices" in done.stderr


@pytest.mark.thorough
def test_a_task_s_own_budget_ends_that_task(project: Project) -> None:
    make_repository(project.cwd)
    project.configure(budget={"prices": PRICES})
    batch = Batch(project, [{**TASK, "budget_usd": 0.1}, {**TASK, "id": "two"}])
    with model(priced) as server:
        batch.run(server.url, "--jobs", "1")
    rows = batch.by_id()
    assert (rows["one"]["status"], rows["two"]["status"]) == ("budget", "ok")


@pytest.mark.thorough
def test_a_429_makes_everybody_wait_and_fails_nobody(project: Project) -> None:
    make_repository(project.cwd)
    batch = Batch(project, many(4))
    refusals = iter([True] * 6)
    times = []

    def busy(request: dict[str, Any]) -> Any:
        refused = next(refusals, False)
        times.append((time.monotonic(), refused))
        if refused:
            return {
                "status": 429,
                "headers": {"Retry-After": "1"},
                "body": {"error": {"message": "slow down"}},
            }
        return writes()(request)

    with model(busy) as server:
        assert batch.run(server.url, "--jobs", "4").returncode == 0
    assert len(batch.by_id()) == 4
    refused = [at for at, was in times if was]
    # After a 429, and those that were under way then, nobody asks before the second that it named is over.
    after = [at for at, _ in times if at > refused[-1]]
    assert min(after) - refused[-1] >= 0.9


def test_a_pause_is_no_part_of_a_tasks_time(project: Project) -> None:
    make_repository(project.cwd)
    batch = Batch(project, [{**TASK, "timeout_s": 8}])
    pause = {"status": 429, "headers": {"Retry-After": "9"}, "body": {"error": {"message": "slow down"}}}
    answers = iter([pause])
    with model(lambda request: next(answers, None) or writes()(request)) as server:
        ran = batch.run(server.url)
    assert ran.returncode == 0
    assert "1 request put off (429)" in ran.stdout
    assert batch.by_id()["one"]["duration"] > 9


@pytest.mark.thorough
def test_a_batch_that_is_stopped_for_a_while_costs_no_task_its_time(project: Project) -> None:
    """By Ctrl+Z: its tasks go on until they need it."""
    make_repository(project.cwd)
    batch = Batch(project, [{**TASK, "timeout_s": 4}])
    asked, go_on = threading.Event(), threading.Event()

    def answer(request: dict[str, Any]) -> Any:
        asked.set()
        go_on.wait(60)
        return writes()(request)

    with model(answer) as server:
        driver = batch.start(server.url)
        assert asked.wait(60)
        driver.send_signal(signal.SIGSTOP)
        go_on.set()
        time.sleep(10)  # longer than the task may take
        driver.send_signal(signal.SIGCONT)
        driver.communicate(timeout=60)
    row = batch.by_id()["one"]
    assert (driver.returncode, row["status"]) == (0, "ok"), row


@pytest.mark.thorough
def test_the_table_of_a_terminal_is_redrawn_and_names_failures(project: Project) -> None:
    import pty

    make_repository(project.cwd)
    batch = Batch(project, [{**TASK, "check": "false"}, {**TASK, "id": "two"}])
    with model(slow_second_step) as server:
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            [sys.executable, "-m", "coder", "batch", str(batch.file), "--out", str(batch.out), "--jobs", "1"],
            cwd=project.cwd,
            env=project.environ(server.url, TMPDIR=str(batch.temp), TERM="xterm"),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):
            while data := os.read(ours, 65536):
                shown += data
        process.wait(60)
        os.close(ours)
    import pyte

    screen = pyte.Screen(400, 40)
    pyte.ByteStream(screen).feed(shown)
    lines = [line.rstrip() for line in screen.display if line.strip()]
    assert any("one: failed" in line for line in lines)
    assert [line for line in lines if "of 2 done" in line] == [lines[-3]]  # drawn over, not piled up
    assert "2 of 2 done · 1 succeeded · 1 failed" in lines[-3]
    assert b"1 running" in shown
