"""Foreign, damaged and partial records are read without a traceback; nothing private leaves by the command
line.
"""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from kit import ScriptedServer
from kit.calls import bash
from kit.driving import Project, left_running

KEY = "sk-very-secret-0123456789"
HEAD = {"ts": "2026-01-01T00:00:00.000Z", "session_id": "s", "turn": 1, "step": 0}
START = [
    {**HEAD, "turn": 0, "type": "session_start", "content": "SYSTEM", "role": "system", "meta": {}},
    {**HEAD, "type": "turn_start", "content": "first", "role": "user", "meta": {}},
]


def log_with(project: Project, *lines: object, name: str = "s") -> None:
    directory = project.cwd / ".coder" / "history"
    directory.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (directory / f"{name}.jsonl").write_text(text, encoding="utf-8")


@pytest.mark.parametrize(
    "strange",
    [
        pytest.param({"type": "assistant", "meta": {"tool_calls": [{"id": "a"}]}}, id="half a call"),
        pytest.param({"type": "assistant", "meta": {"tool_calls": None}}, id="no calls"),
        pytest.param(
            {"type": "assistant", "meta": {"tool_calls": [{"id": "a", "name": "read", "arguments": {}}]}},
            id="arguments that are no text",
        ),
        pytest.param({"type": "turn_end", "meta": {"tokens": [1]}}, id="tokens that are a list"),
        pytest.param({"type": "turn_end", "meta": {"tokens": {"prompt": "x"}}}, id="tokens that are text"),
        pytest.param({"type": "compaction", "meta": {"kept": "many"}}, id="kept that is no number"),
        pytest.param({"type": "compaction", "meta": {"kind": "shorten", "replaced": [1]}}, id="no pairs"),
    ],
)
def test_a_line_of_another_make_does_not_stop_a_resume(project: Project, strange: dict[str, Any]) -> None:
    """Readers skip what they do not know: a malformed `meta` neither raises nor keeps the log's lock."""
    log_with(project, *START, {**HEAD, "content": "x", **strange})
    with ScriptedServer([{"text": "ok"}]) as server:
        done = project.coder("--once", "hi", "--resume", "s", url=server.url)
        assert done.returncode == 0
        assert "first" in str(server.chats[0]["messages"])


def test_a_compaction_that_kept_more_than_is_there_repeats_nothing(project: Project) -> None:
    """A compaction whose `kept` exceeds the messages (a lost line) does not duplicate the system message."""
    log_with(project, *START, {**HEAD, "type": "compaction", "content": "summary", "meta": {"kept": 5}})
    with ScriptedServer([{"text": "ok"}]) as server:
        project.coder("--once", "hi", "--resume", "s", url=server.url)
        roles = [message["role"] for message in server.chats[0]["messages"]]
    assert roles.count("system") == 1


def test_the_seed_s_own_lines_can_be_read(project: Project) -> None:
    """`session_start` without a turn and `turn_start` without a step are read."""
    head = {"ts": "2024-05-10T12:00:00Z", "session_id": "s"}
    log_with(
        project,
        {**head, "type": "session_start", "meta": {"mode": "interactive", "model": "deepseek-chat"}},
        {**head, "turn": 1, "type": "turn_start", "content": "read the README", "meta": {}},
        {**head, "turn": 1, "step": 0, "type": "assistant", "content": "It is about trains.", "meta": {}},
        {**head, "turn": 1, "type": "turn_end", "meta": {"status": "ok"}},
    )
    with ScriptedServer([{"text": "ok"}]) as server:
        project.coder("--once", "hi", "--resume", "s", url=server.url)
        assert "read the README" in str(server.chats[0]["messages"])


@pytest.mark.parametrize("kind", ["folder", "dangling link"])
def test_one_odd_entry_does_not_hide_the_sessions(project: Project, kind: str) -> None:
    """`coder sessions` lists the others beside an unreadable entry."""
    log_with(project, *START)
    odd = project.cwd / ".coder" / "history" / "odd.jsonl"
    if kind == "folder":
        odd.mkdir()
    else:
        odd.symlink_to("nowhere")
    done = project.coder("sessions")
    assert done.returncode == 0
    assert "first" in done.stdout


def test_a_line_nested_too_deep_is_skipped_by_every_reader(project: Project, tmp_path: Path) -> None:
    nested: list[Any] = []
    log_with(project, *START, {**HEAD, "type": "action", "meta": {"tool": "x", "input": nested}})
    log = project.cwd / ".coder" / "history" / "s.jsonl"
    log.write_bytes(log.read_bytes().replace(b"[]", b"[" * 5000 + b"]" * 5000))
    for command in (["show", "s"], ["sessions"], ["sessions", "--search", "first"]):
        done = project.coder(*command)
        assert done.returncode == 0, done.stderr
        assert "first" in done.stdout
    for kind in ("--html", "--md"):
        assert project.coder("export", "s", kind, str(tmp_path / "out")).returncode == 0
        assert "first" in (tmp_path / "out").read_text(encoding="utf-8")
    with ScriptedServer([{"text": "ok"}]) as server:
        assert project.coder("--once", "hi", "--resume", "s", url=server.url).returncode == 0
        assert "first" in str(server.chats[0]["messages"])


def test_a_long_first_input_still_gives_the_session_its_title(project: Project) -> None:
    log_with(project, START[0], {**START[1], "content": "look at this log\n" + "x" * 300_000})
    assert "look at this log" in project.coder("sessions").stdout


def test_snapshots_stay_out_of_commits_with_another_log_directory(project: Project, tmp_path: Path) -> None:
    """`.coder/.gitignore` is written with `--log-dir` too, as the snapshot still goes there."""
    with ScriptedServer([{"text": "ok"}]) as server:
        project.coder("--once", "hi", "--log-dir", str(tmp_path / "logs"), url=server.url)
    assert list((project.cwd / ".coder" / "sessions").glob("*.json"))
    assert (project.cwd / ".coder" / ".gitignore").exists()


@pytest.mark.parametrize("line", ["cat /proc/$PPID/environ", "head -c 9999 /proc/$PPID/environ"])
def test_the_api_key_cannot_be_read_by_a_command(project: Project, line: str) -> None:
    """The provider's key cannot be read from `/proc/$PPID/environ`, which a read-only command could print."""
    with ScriptedServer([{"calls": [bash(line)]}, {"text": "ok"}]) as server:
        project.coder("--once", "hi", url=server.url, env={"CODER_API_KEY": KEY})
        sent = json.dumps(server.chats[-1])
    assert KEY not in sent
    assert KEY not in project.logs()[0].read_text(encoding="utf-8")


def test_doctor_shows_no_password_of_the_address(project: Project) -> None:
    """`coder doctor`, whose output is pasted into reports, shows no password of `provider.base_url`."""
    done = project.coder("doctor", url="http://user:hunter2@127.0.0.1:9/v1")
    assert "hunter2" not in done.stdout + done.stderr


def test_a_command_s_name_ends_at_any_white_space(project: Project) -> None:
    """A tab or line break after a slash command's name (pasted text) ends it as a space does."""
    with ScriptedServer([]) as server:
        done = project.coder("--once", "/mode\tplan", url=server.url)
    assert done.returncode == 0, done.stdout


def test_closing_the_terminal_ends_the_command_and_the_turn(project: Project) -> None:
    """SIGHUP cancels the turn and kills the command's process group."""
    script = [{"calls": [bash("exec sleep 3004.5")]}, {"text": "x"}]
    with ScriptedServer(script) as server:
        process = project.started("--once", "go", "--mode", "yolo", url=server.url)
        while not left_running("3004.5") and process.poll() is None:
            time.sleep(0.02)
        process.send_signal(signal.SIGHUP)
        process.communicate(timeout=60)
    assert left_running("3004.5") == []
    assert project.of_type("turn_end")


def test_a_cancelled_command_says_cancelled_in_json(project: Project) -> None:
    """A cancelled `!` command has the status `cancelled` and a session id in JSON output."""
    with ScriptedServer([]) as server:
        line = "!touch begun; sleep 30"
        process = project.started("--once", line, "--output", "json", url=server.url)
        while not (project.cwd / "begun").exists() and process.poll() is None:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    answer = json.loads(out)
    assert (process.returncode, answer["status"]) == (130, "cancelled")
