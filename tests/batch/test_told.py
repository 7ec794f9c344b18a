"""What a batch tells while it runs and afterwards, and to whom it keeps silent."""

from __future__ import annotations

import json
import os
import pty
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from batch.batch_kit import Batch, make_repository, model, wait_for, writes
from coder.addons.batch.results import Progress
from coder.addons.batch.table import Display
from coder.texts import Catalog
from kit.driving import Project

TASK: dict[str, Any] = {"id": "one", "prompt": "write the file", "cwd": "."}


def test_a_terminal_that_goes_away_does_not_end_the_batch(project: Project) -> None:
    make_repository(project.cwd)
    batch = Batch(project, [{**TASK, "id": f"t{n}"} for n in range(3)])
    ours, theirs = pty.openpty()
    with model(lambda _: {"text": "x", "delay": 0.2}) as server:
        environ = project.environ(server.url, TMPDIR=str(batch.temp), TERM="xterm")
        words = [
            sys.executable,
            "-m",
            "coder",
            "batch",
            str(batch.file),
            "--out",
            str(batch.out),
            "--jobs",
            "1",
        ]
        process = subprocess.Popen(
            words, env=environ, stdin=subprocess.DEVNULL, stdout=theirs, stderr=subprocess.PIPE
        )
        os.close(theirs)
        assert os.read(ours, 1)  # the table
        os.close(ours)
        _, errors = process.communicate(timeout=60)
    assert len(batch.rows()) == 3, errors
    assert process.returncode == 0, errors


def test_a_rate_for_a_provider_that_nobody_has_is_refused(project: Project) -> None:
    make_repository(project.cwd)
    batch = Batch(project, [TASK])
    with model(writes()) as server:
        done = batch.run(server.url, "--rpm", "opnai=1")
        assert done.returncode == 2
        name = done.stderr.strip().rstrip(".").rpartition(" ")[2]
        assert batch.run(server.url, "--rpm", f"{name}=100").returncode == 0


def test_the_status_of_a_cancelled_batch_says_how_to_go_on(project: Project) -> None:
    make_repository(project.cwd)
    batch = Batch(project, [TASK, {**TASK, "id": "two"}])
    with model(lambda _: {"text": "x", "delay": 600}) as server:
        process = batch.start(server.url)
        wait_for(lambda: server.requests)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    done = project.coder("batch", "status", str(batch.out))
    assert "2 tasks have no result yet" in done.stdout
    assert "--resume" in done.stdout


def test_tokens_are_counted_where_the_provider_does_not_say(project: Project) -> None:
    make_repository(project.cwd)
    batch = Batch(project, [TASK])
    with model(lambda _: {"text": "some words", "usage": None}) as server:
        batch.run(server.url)
    total = batch.rows()[0]["tokens"]["total"]
    assert total > 0
    assert json.loads((batch.out / "status.json").read_text(encoding="utf-8"))["tokens"] == total


def test_records_are_the_person_s_own(project: Project) -> None:
    make_repository(project.cwd)
    batch = Batch(project, [TASK])
    with model(writes()) as server:
        done = batch.run(server.url)
    for name in ("record.jsonl", "record.html"):
        assert stat.S_IMODE((batch.out / "one" / name).stat().st_mode) == 0o600
    assert f"coder apply {batch.out}/ID" in done.stdout


def test_the_last_summary_breaks_between_its_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in (("TERM", "xterm"), ("COLUMNS", "44")):
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    Display(tmp_path, Catalog("en")).finish(
        Progress(total=30, done=30, succeeded=29, tokens=123456, ended=True)
    )
    summary = capsys.readouterr().out.splitlines()[:3]
    assert all(len(line) < 44 for line in summary[:2])
    assert "123.5k tokens, 0/s" in " ".join(summary)
