"""Small things that a person stumbles over: ids by their beginnings, statuses, headings, titles."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from typing import Any

import pytest

from coder.protocol.events import CommandDone
from kit import ScriptedServer
from kit.driving import Project, drive, of

BASH = {"name": "bash", "arguments": {"command": "true"}}


@pytest.fixture
def two(project: Project) -> Project:
    """Two sessions whose ids begin alike."""
    folder = project.cwd / ".coder" / "history"
    folder.mkdir(parents=True)
    for name, said in (
        ("20260101-120000-aaaaaa", "first <b>thing</b>"),
        ("20260101-120500-bbbbbb", "second"),
    ):
        line: dict[str, Any] = {"ts": "2026-01-01T12:00:00.000Z", "session_id": name, "turn": 1, "step": 0}
        events = [
            {**line, "type": "session_start", "content": "", "role": None, "meta": {}},
            {**line, "type": "turn_start", "content": said, "role": "user", "meta": {}},
            {**line, "type": "final", "content": "yes", "role": "assistant", "meta": {}},
            {**line, "type": "turn_end", "content": "", "role": None, "meta": {"status": "ok"}},
        ]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(e) + "\n" for e in events), encoding="utf-8")
    return project


def test_the_beginning_of_an_id_will_do(two: Project) -> None:
    assert "> second" in two.coder("show", "20260101-1205").stdout
    assert two.coder("export", "20260101-1200", "--html", "page.html").returncode == 0
    with ScriptedServer([{"text": "again"}]) as server:
        done = two.coder("--resume", "20260101-1205", "--once", "go on", url=server.url)
        assert done.stdout == "again\n"
        assert "second" in json.dumps(server.chats[0]["messages"])


def test_an_ambiguous_beginning_names_those_it_may_mean(two: Project) -> None:
    for line in (["show", "2026"], ["export", "2026", "--html", "x"], ["--resume", "2026", "--once", "x"]):
        done = two.coder(*line, url="http://127.0.0.1:9/v1")
        assert done.returncode == 2
        assert "2 sessions begin with 2026" in done.stderr
        assert "20260101-120000-aaaaaa" in done.stderr
    assert not (two.cwd / "x").exists()


@pytest.mark.parametrize(
    "name", ["", "zzz", "../20260101-120000-aaaaaa", "20260101-120000-aaaaaa.jsonl", "*"]
)
def test_what_is_no_beginning_of_an_id(two: Project, name: str) -> None:
    done = two.coder("show", name)
    assert done.returncode == 2
    assert "There is no session" in done.stderr


def test_slash_resume_takes_a_beginning_too(two: Project) -> None:
    with ScriptedServer([]) as server:
        driver = drive(two, server.url, ["/resume 2026", "/resume 20260101-1200"])
    ambiguous, resumed = of(driver.seen, CommandDone)
    assert not ambiguous.ok
    assert "20260101-120500-bbbbbb" in ambiguous.text
    assert resumed.ok
    assert resumed.data["session_id"] == "20260101-120000-aaaaaa"


def test_a_page_has_the_session_s_title(two: Project) -> None:
    two.coder("export", "20260101-1200", "--html", "page.html")
    page = (two.cwd / "page.html").read_text(encoding="utf-8")
    assert "<title>first &lt;b&gt;thing&lt;/b&gt;</title>" in page
    assert "<h1>first &lt;b&gt;thing&lt;/b&gt;</h1>" in page
    assert "20260101-120000-aaaaaa" in page


def on_terminal(project: Project, *args: str) -> str:
    """What a command prints where its output is a terminal; little enough for the terminal to hold."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "coder", *args]
    environ = project.environ(TERM="xterm")
    try:
        subprocess.run(
            command, cwd=project.cwd, env=environ, stdin=theirs, stdout=theirs, timeout=60, check=True
        )
        return os.read(ours, 65536).decode("utf-8").replace("\r\n", "\n")
    finally:
        os.close(theirs)
        os.close(ours)


def test_sessions_have_a_heading_on_a_terminal_and_none_in_a_pipe(two: Project) -> None:
    rows = two.coder("sessions").stdout.splitlines()
    assert [row.split()[0] for row in rows] == ["20260101-120500-bbbbbb", "20260101-120000-aaaaaa"]
    heading, *rows = on_terminal(two, "sessions").splitlines()
    assert heading.split("  ")[0] == "session"
    assert len(rows) == 2
    assert heading.index("began with") == rows[0].index("second")


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("!true", 0),
        ("!false", 1),
        ("!exit 7", 1),
        ("!", 2),
        ("/status", 0),
        ("/frobnicate", 2),
        ("/mode no", 1),
    ],
)
def test_once_says_by_its_status_how_it_went(project: Project, line: str, status: int) -> None:
    with ScriptedServer([]) as server:
        done = project.coder("--once", line, url=server.url)
        as_json = project.coder("--once", line, "--output", "json", url=server.url)
    assert done.returncode == status, (done.stdout, done.stderr)
    told = json.loads(as_json.stdout)
    assert (as_json.returncode, told["exit_code"]) == (status, status)
    assert told["status"] == ("ok" if status == 0 else "error")
