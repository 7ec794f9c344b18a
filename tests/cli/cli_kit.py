"""What the tests of wrong input share: the process with whatever the system can do to it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kit.driving import Project

CODER = [sys.executable, "-m", "coder"]
Done = subprocess.CompletedProcess[bytes]


def run(
    project: Project, *args: str | bytes, url: str = "", env: dict[str, str] | None = None, **popen: Any
) -> Done:
    """The process with whatever the system can do to it. `env` replaces variables, "" removes one."""
    environ = {k: v for k, v in project.environ(url, **(env or {})).items() if v or k not in (env or {})}
    options: dict[str, Any] = {"cwd": project.cwd, "env": environ, "timeout": 20, "capture_output": True}
    if "input" not in popen:
        options["stdin"] = subprocess.DEVNULL
    done = subprocess.run([*CODER, *args], check=False, **{**options, **popen})
    assert b"Traceback" not in (done.stderr or b""), done.stderr
    return done


def sentence(done: Done) -> str:
    """What was said on stderr: some words, and not many."""
    text = done.stderr.decode("utf-8")
    assert text.strip(), "nothing was said"
    assert len(text.splitlines()) <= 4, text
    return text


def observations(project: Project) -> list[str]:
    return [event["content"] for event in project.of_type("observation")]


def readable(path: Path) -> list[dict[str, Any]]:
    """Every line of a log is whole."""
    data = path.read_bytes()
    assert data.endswith(b"\n")
    return [json.loads(line) for line in data.splitlines()]


def wait_until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.02)


def closed(project: Project, number: int, *args: str, url: str) -> Done:
    """Run with one of the three standard streams closed, as `<&-` does."""
    redirection = {0: "<&-", 1: ">&-", 2: "2>&-"}[number]
    return run_line(project, f'"$@" {redirection}', *args, url=url)


def run_line(project: Project, line: str, *args: str, url: str) -> Done:
    done = subprocess.run(
        ["/bin/bash", "-c", line, "sh", *CODER, *args],
        cwd=project.cwd,
        env=project.environ(url),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert b"Traceback" not in done.stderr, done.stderr
    assert b"Exception" not in done.stderr, done.stderr
    return done
