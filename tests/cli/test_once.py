"""`coder --once` and piped input against a scripted model: streams, statuses, record."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import signal
import time
from typing import Any

import pytest

from kit import ScriptedServer
from kit.driving import Project, left_running

LS = {"name": "list", "arguments": {}}


def test_answer_alone_is_on_stdout_and_progress_on_stderr(project: Project) -> None:
    project.write("a.txt", "hello\n")
    script = [
        {
            "reasoning": "thinking",
            "text": "looking",
            "calls": [{"name": "read", "arguments": {"path": "a.txt"}}],
        },
        {"text": "The file says hello."},
    ]
    with ScriptedServer(script) as server:
        done = project.coder("--once", "what is in a.txt?", url=server.url)
    assert (done.returncode, done.stdout) == (0, "The file says hello.\n")
    assert "thinking" in done.stderr
    assert "read a.txt" in done.stderr
    tool = server.chats[1]["messages"][-1]
    assert tool["role"] == "tool"
    assert "hello" in tool["content"]


def test_record_has_every_event_with_its_fields(project: Project) -> None:
    project.write("a.txt", "hello\n")
    script = [{"calls": [{"name": "read", "arguments": {"path": "a.txt"}, "id": "c1"}]}, {"text": "Done."}]
    with ScriptedServer(script) as server:
        project.coder("--once", "read a.txt", url=server.url)
    events = project.events()
    assert [e["type"] for e in events] == [
        "session_start",
        "turn_start",
        "assistant",
        "action",
        "observation",
        "assistant",
        "final",
        "turn_end",
        "session_end",
    ]
    for event in events:
        assert {"ts", "session_id", "turn", "step", "type", "content", "role", "meta"} <= set(event)
        assert event["ts"].endswith("Z")
    assert [e["turn"] for e in events] == [0, 1, 1, 1, 1, 1, 1, 1, 1]
    assert [e["step"] for e in events][2:6] == [0, 0, 0, 1]
    start, turn, first, action, observation = events[:5]
    assert start["meta"]["model"] == "scripted"
    assert start["meta"]["mode"] == "once"
    assert (turn["content"], turn["role"]) == ("read a.txt", "user")
    assert turn["meta"]["tokens"]["prompt"] > 0
    tokens = first["meta"]["tokens"]
    assert set(tokens.pop("local")) == {"prompt", "completion", "estimated"}
    assert tokens == {"prompt": 10, "completion": 1, "total": 11, "source": "provider"}
    assert action["meta"] == {"tool": "read", "input": {"path": "a.txt"}, "call_id": "c1"}
    assert observation["meta"]["tool"] == "read"
    assert observation["meta"]["ok"] is True
    assert observation["meta"]["denied"] is False
    final, end = events[6:8]
    assert final["content"] == "Done."
    assert end["meta"]["status"] == "ok"
    assert end["meta"]["step_count"] == 2
    assert end["meta"]["tokens"]["total"] == 23
    assert end["meta"]["duration_ms"] >= 0


def test_snapshot_replays_as_a_request(project: Project) -> None:
    project.write("a.txt", "hello\n")
    script = [{"calls": [{"name": "read", "arguments": {"path": "a.txt"}}]}, {"text": "Done."}]
    with ScriptedServer(script) as server:
        project.coder("--once", "read a.txt", url=server.url)
        last = server.chats[-1]
    snapshot = project.snapshot()
    assert set(snapshot) == {"session_id", "created_at", "updated_at", "meta", "tools", "messages"}
    assert snapshot["tools"] == last["tools"]
    assert snapshot["messages"][:-1] == last["messages"]
    assert snapshot["messages"][-1] == {"role": "assistant", "content": "Done."}
    assert snapshot["meta"]["title"] == "read a.txt"
    call = snapshot["messages"][2]["tool_calls"][0]
    assert call["type"] == "function"
    assert json.loads(call["function"]["arguments"]) == {"path": "a.txt"}
    assert snapshot["messages"][3]["name"] == "read"


def test_coder_directory_keeps_only_the_record_out_of_commits(project: Project) -> None:
    with ScriptedServer([{"text": "hi"}]) as server:
        project.coder("--once", "hi", url=server.url)
    ignore = (project.cwd / ".coder" / ".gitignore").read_text(encoding="utf-8")
    assert sorted(ignore.split()) == ["/.gitignore", "/history/", "/sessions/"]
    assert all(p.stat().st_mode & 0o777 == 0o600 for p in project.logs())


def test_stdin_to_its_end_is_one_message(project: Project) -> None:
    with ScriptedServer([{"text": "ok"}]) as server:
        done = project.coder(url=server.url, stdin="first line\nsecond line\n")
    assert done.stdout == "ok\n"
    assert server.chats[0]["messages"][1]["content"].startswith("first line\nsecond line")


def test_bang_runs_a_command_without_the_model(project: Project) -> None:
    with ScriptedServer([]) as server:
        done = project.coder("--once", "!echo out; echo err >&2; exit 3", url=server.url)
    assert done.returncode == 1
    assert done.stdout == (
        "command: echo out; echo err >&2; exit 3\nexit_code: 3\nstdout:\nout\nstderr:\nerr\n"
    )
    assert server.requests == []
    (command,) = project.of_type("command")
    assert command["meta"]["exit_code"] == 3
    assert command["content"] == done.stdout.rstrip("\n")


def test_bang_alone_is_an_error(project: Project) -> None:
    with ScriptedServer([]) as server:
        done = project.coder("--once", "!", url=server.url)
    assert done.returncode == 2
    assert "command mode error: empty command after '!'" in done.stdout + done.stderr


def test_a_slash_command_answers_on_stdout(project: Project) -> None:
    with ScriptedServer([]) as server:
        done = project.coder("--once", "/status", url=server.url)
    assert done.returncode == 0
    assert "scripted" in done.stdout


def test_an_unknown_command_names_the_nearest(project: Project) -> None:
    with ScriptedServer([]) as server:
        done = project.coder("--once", "/stats", url=server.url)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Unknown command: /stats" in done.stderr
    assert "/status" in done.stderr


def test_json_output_is_one_object(project: Project) -> None:
    with ScriptedServer([{"text": "hi there"}]) as server:
        done = project.coder("--once", "hi", "--output", "json", url=server.url)
    result = json.loads(done.stdout)
    assert (result["status"], result["text"], result["exit_code"]) == ("ok", "hi there", 0)
    assert result["session_id"] == project.events()[0]["session_id"]
    assert result["tokens"]["total"] == 13
    assert result["verification"]["status"] == "not_run"


@pytest.mark.parametrize("piped", [False, True])
def test_a_failed_verification_is_status_5_and_told_in_the_object(project: Project, piped: bool) -> None:
    project.write("gradlew", "#!/bin/sh\nexit 1\n").chmod(0o755)
    write = {"name": "write", "arguments": {"path": "app.py", "content": "x = 1\n"}}
    given = (["set x"], None) if piped is False else ([], "set x")
    with ScriptedServer([{"calls": [write]}, {"text": "done"}, {"text": "it fails"}]) as server:
        arguments = ["--mode", "auto-edit", "--output", "json"]
        once = ["--once"] if given[0] else []
        done = project.coder(*once, *given[0], *arguments, url=server.url, stdin=given[1])
    result = json.loads(done.stdout)
    assert done.returncode == result["exit_code"] == 5
    assert (result["status"], result["text"]) == ("ok", "done\n\nit fails")
    assert result["verification"] == {
        "status": "failed",
        "command": "./gradlew test",
        "attempts": 1,
        "changed_since": ["app.py"],
        "reason": "",
    }
    (ended,) = project.of_type("turn_end")
    assert ended["meta"]["status"] == "ok"
    assert ended["meta"]["verification"] == result["verification"]


def test_stream_json_is_the_record_with_chunks(project: Project) -> None:
    script = [{"reasoning": "hmm", "text": "hello world, this is long", "chunk": 8, "delay": 0.01}]
    with ScriptedServer(script) as server:
        done = project.coder("--once", "hi", "--output", "stream-json", url=server.url)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    chunks = [e["content"] for e in lines if e["type"] == "assistant_chunk"]
    assert len(chunks) > 1
    assert "".join(chunks) == "hello world, this is long"
    assert [e["content"] for e in lines if e["type"] == "thought_chunk"] == ["hmm"]
    recorded = [e for e in lines if not e["type"].endswith("_chunk")]
    assert recorded == project.events()


def test_the_step_limit_is_status_3(project: Project) -> None:
    with ScriptedServer([{"calls": [LS]}] * 5) as server:
        done = project.coder("--once", "go", "--max-steps", "2", url=server.url)
    assert done.returncode == 3
    assert "step limit reached" in done.stderr
    assert len(server.chats) == 2
    assert project.of_type("turn_end")[0]["meta"]["status"] == "max_steps"


def test_the_prompt_limit_is_status_4_and_sends_nothing(project: Project) -> None:
    with ScriptedServer([{"text": "no"}]) as server:
        done = project.coder("--once", "hi", "--max-prompt-tokens", "20", url=server.url)
    assert done.returncode == 4
    assert server.requests == []
    assert "20" in done.stderr
    assert project.of_type("turn_end")[0]["meta"]["status"] == "prompt_limit"


def test_the_prompt_warning_warns_and_goes_on(project: Project) -> None:
    with ScriptedServer([{"text": "yes"}]) as server:
        done = project.coder("--once", "hi", "--warn-prompt-tokens", "20", url=server.url)
    assert (done.returncode, done.stdout) == (0, "yes\n")
    assert "20" in done.stderr


def test_the_tokenizer_can_be_chosen_and_a_wrong_one_is_named(project: Project) -> None:
    with ScriptedServer([{"text": "yes"}]) as server:
        good = project.coder("--once", "hi", "--tokenizer-model", "cl100k_base", url=server.url)
        bad = project.coder("--once", "hi", "--tokenizer-model", "nonsense", url=server.url)
    assert good.returncode == 0
    assert bad.returncode == 2
    assert "nonsense" in bad.stderr


@pytest.mark.thorough
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_cancels_with_status_130(project: Project, number: signal.Signals) -> None:
    call = {"name": "bash", "arguments": {"command": "exec sleep 3009.5"}}
    script: list[dict[str, Any]] = [{"calls": [call]}]
    with ScriptedServer(script) as server:
        process = project.started("--mode", "yolo", "--once", "sleep", url=server.url)
        try:
            while not left_running("3009.5") and process.poll() is None:
                time.sleep(0.02)
            process.send_signal(number)
            _out, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 130
    assert b"Cancelled" in err
    end = project.of_type("turn_end")[0]
    assert end["meta"]["status"] == "cancelled"
    (observation,) = project.of_type("observation")
    assert "cancelled" in observation["content"]


def test_resume_goes_on_with_the_conversation(project: Project) -> None:
    with ScriptedServer([{"text": "one"}, {"text": "two"}, {"text": "three"}]) as server:
        project.coder("--once", "first", url=server.url)
        session = project.events()[0]["session_id"]
        resumed = project.coder("--resume", session, "--once", "second", url=server.url)
        project.coder("--continue", "--once", "third", url=server.url)
    assert resumed.stdout == "two\n"
    assert len(project.logs()) == 1
    contents = [m["content"] for m in server.chats[2]["messages"] if m["role"] == "assistant"]
    assert contents == ["one", "two"]
    assert [e["turn"] for e in project.of_type("turn_start")] == [1, 2, 3]
    # what was sent before is sent again to the byte, so that the provider's cache holds
    first, second = server.chats[0]["messages"], server.chats[1]["messages"]
    assert second[: len(first)] == first


def test_an_unknown_session_is_status_2(project: Project) -> None:
    with ScriptedServer([]) as server:
        done = project.coder("--resume", "nope", "--once", "x", url=server.url)
        none = project.coder("--continue", "--once", "x", url=server.url)
    assert (done.returncode, none.returncode) == (2, 2)
    assert "nope" in done.stderr
    assert project.logs() == []


def test_log_dir_moves_the_record(project: Project) -> None:
    with ScriptedServer([{"text": "hi"}, {"text": "again"}]) as server:
        project.coder("--once", "hi", "--log-dir", "elsewhere", url=server.url)
        (log,) = (project.cwd / "elsewhere").glob("*.jsonl")
        again = project.coder("--resume", log.stem, "--log-dir", "elsewhere", "--once", "x", url=server.url)
    assert again.stdout == "again\n"
    assert not (project.cwd / ".coder" / "history").exists()


def test_sessions_and_show_read_what_was_recorded(project: Project) -> None:
    with ScriptedServer([{"calls": [LS]}, {"text": "All \x1b[31mred\x1b[0m."}]) as server:
        project.coder("--once", "what is here?", url=server.url)
    listed = project.coder("sessions")
    session = project.events()[0]["session_id"]
    assert listed.stdout.split()[0] == session
    assert "what is here?" in listed.stdout
    shown = project.coder("show", session)
    assert "> what is here?" in shown.stdout
    assert "· list .\n" in shown.stdout
    assert "␛[31mred" in shown.stdout  # an escape sequence is shown, not obeyed
    assert "\x1b" not in shown.stdout
    as_json = project.coder("show", session, "--json")
    assert [json.loads(x) for x in as_json.stdout.splitlines()] == project.events()


def test_show_names_calls_as_the_terminal_does(project: Project) -> None:
    project.configure(approval={"auto_approve_ask": True})
    patch = "*** Begin Patch\n*** Add File: a.py\n+x = 1\n*** End Patch"
    step = {"calls": [{"name": "patch", "arguments": {"patch": patch}}]}
    with ScriptedServer([step, {"text": "ok"}]) as server:
        project.coder("--once", "go", url=server.url)
    shown = project.coder("show", project.events()[0]["session_id"]).stdout
    assert "· patch a.py\n" in shown
    assert "  approval of patch a.py: auto\n" in shown
    assert "    +x = 1\n" in shown
    assert "Begin Patch" not in shown


def test_a_session_in_which_nothing_was_said_leaves_no_file(project: Project) -> None:
    with ScriptedServer([]) as server:
        project.coder("--once", "/exit", url=server.url)
    assert project.logs() == []


def test_export_is_one_page_with_nothing_of_the_session_live_in_it(project: Project) -> None:
    answer = "<script>alert(1)</script> & \x1b[31mred"
    with ScriptedServer([{"reasoning": "hmm", "calls": [LS]}, {"text": answer}]) as server:
        project.coder("--once", "what is <b>here</b>?", url=server.url)
    session = project.events()[0]["session_id"]
    done = project.coder("export", session, "--html", "out.html")
    page = (project.cwd / "out.html").read_text(encoding="utf-8")
    assert done.returncode == 0
    assert "&lt;script&gt;alert(1)" in page
    (own,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)  # the page's, which its policy names
    digest = base64.b64encode(hashlib.sha256(own.encode("utf-8")).digest()).decode("ascii")
    assert f"script-src 'sha256-{digest}'" in html.unescape(page)
    assert "&lt;b&gt;here" in page
    assert "hmm" in page
    assert "\x1b" not in page
    assert project.coder("export", "nope", "--html", "x.html").returncode == 2
    assert project.coder("export", session, "--html", "no/such/folder.html").returncode == 2
