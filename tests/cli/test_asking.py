"""`--once` on a terminal: somebody is there, so they are asked."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import subprocess
import sys
import time
from typing import Any

import pytest

from kit import ScriptedServer
from kit.driving import Project

WRITE = {"name": "write", "arguments": {"path": "new.txt", "content": "hello\n"}}


def on_terminal(project: Project, url: str, answer: bytes) -> tuple[int, str]:
    """Run it in a pseudo-terminal and type `answer` once the question is there."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "coder", "--once", "go"],
        cwd=project.cwd,
        env=project.environ(url, TERM="xterm"),
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
    )
    os.close(slave)
    seen, answered, deadline = b"", False, time.monotonic() + 40
    try:
        while time.monotonic() < deadline:
            if select.select([master], [], [], 0.1)[0]:
                try:
                    seen += os.read(master, 65536)
                except OSError:
                    break
            if not answered and b"Allow?" in seen:
                os.write(master, answer)
                answered = True
        return process.wait(timeout=60), seen.decode("utf-8", errors="replace")
    finally:
        process.kill()
        process.wait()
        os.close(master)


@pytest.mark.parametrize(
    ("answer", "made"), [(b"y\n", True), (b"n not this\n", False), (b"maybe\ny\n", True)]
)
def test_the_person_is_asked(project: Project, answer: bytes, made: bool) -> None:
    with ScriptedServer([{"calls": [WRITE]}, {"text": "done"}]) as server:
        status, seen = on_terminal(project, server.url, answer)
    assert status == 0
    assert "+ hello" in re.sub(r"\x1b\[[\d;]*m", "", seen)
    assert (project.cwd / "new.txt").exists() == made
    if not made:
        assert "not this" in project.of_type("observation")[0]["content"]


def test_the_end_of_input_cancels(project: Project) -> None:
    with ScriptedServer([{"calls": [WRITE]}, {"text": "done"}]) as server:
        status, _seen = on_terminal(project, server.url, b"\x04")
    assert status == 130
    assert not (project.cwd / "new.txt").exists()


def test_the_question_is_the_true_text_and_the_record_is_not(project: Project) -> None:
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2
    project.write(".env", f"GITHUB_TOKEN={token}\n")

    def use(request: Any) -> dict[str, Any]:
        name = re.findall(r"__coder_secret_\w+?__", repr(request))[-1]
        return {"calls": [{"name": "bash", "arguments": {"command": f"touch x; : {name}\u2066 evil"}}]}

    script = [{"calls": [{"name": "read", "arguments": {"path": ".env"}}]}, use, {"text": "done"}]
    with ScriptedServer(script) as server:
        _status, seen = on_terminal(project, server.url, b"n\n")
    assert f"{token}" in "".join(re.sub(r"(?m)^[│┊] |\x1b\[[0-9;]*m|[\r\n]", "", seen).split())
    assert "⟨U+2066⟩" in seen
    record = project.logs()[0].read_text(encoding="utf-8")
    assert token not in record
    assert '"approval"' in record


def test_a_stream_for_programs_carries_no_secret(project: Project) -> None:
    """`stream-json` is what the record gets; nobody decides there."""
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2
    project.write(".env", f"GITHUB_TOKEN={token}\n")

    def use(request: Any) -> dict[str, Any]:
        name = re.findall(r"__coder_secret_\w+?__", repr(request))[-1]
        return {"calls": [{"name": "bash", "arguments": {"command": f"touch {name}"}}]}

    script = [{"calls": [{"name": "read", "arguments": {"path": ".env"}}]}, use, {"text": "done"}]
    with ScriptedServer(script) as server:
        done = project.coder("--once", "go", "--output", "stream-json", url=server.url)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    (asked,) = [event for event in events if event["type"] == "approval"]
    assert asked["meta"]["subject"].startswith("touch __coder_secret_")
    assert token not in done.stdout + done.stderr
