"""`--input stream-json`: a program drives a whole session over pipes."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kit import ScriptedServer
from kit.calls import bash
from kit.driving import Project
from kit.npm import npm_program

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "drive.mjs"
WRITE = {"name": "write", "arguments": {"path": "made.txt", "content": "x\n"}}


class Driving:
    """The process, with ops in and lines out."""

    def __init__(self, project: Project, url: str, *args: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "coder", "--input", "stream-json", *args],
            cwd=project.cwd, env=project.environ(url),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8",
        )  # fmt: skip
        self.lines: list[dict[str, Any]] = []

    def send(self, line: str | dict[str, Any]) -> None:
        assert self.process.stdin
        self.process.stdin.write((line if isinstance(line, str) else json.dumps(line)) + "\n")
        self.process.stdin.flush()

    def until(self, **fields: str) -> dict[str, Any]:
        assert self.process.stdout
        for text in self.process.stdout:
            line = json.loads(text)
            self.lines.append(line)
            if all(line.get(name) == value for name, value in fields.items()):
                return line  # type: ignore[no-any-return]  # of JSON
        raise AssertionError((fields, self.lines[-3:]))

    def end(self) -> int:
        out, err = self.process.communicate(timeout=60)
        assert "Traceback" not in err, err
        self.lines += [json.loads(line) for line in out.splitlines()]
        return self.process.returncode


def test_turns_approvals_modes_and_a_cancel(project: Project) -> None:
    body = "---\nkind: persistent\nvariables: [tone]\n---\nBe {{tone}}.\n"
    project.write(".coder/modes/calm.md", body)
    script = [{"calls": [WRITE]}, {"text": "made it"}, {"calls": [bash("sleep 60")]}, {"text": "never"}]
    with ScriptedServer(script) as server:
        driving = Driving(project, server.url)
        driving.send({"op": "list_custom_modes"})
        assert driving.until(event="custom_modes_listed")["modes"][0]["mode_id"] == "/calm"
        target = {"mode_id": "/calm", "variables": {"tone": {"set": "calm"}}}
        driving.send({"op": "set_mode_state", "modes": [target], "client_rev": 4})
        assert driving.until(event="mode_state_changed")["server_rev"] == 4
        driving.send({"op": "user_input", "text": "make it"})
        asked = driving.until(event="approval_requested")
        assert asked["tool"] == "write"
        driving.send({"op": "approval_reply", "approval_id": asked["approval_id"], "answer": "yes"})
        assert driving.until(event="turn_ended")["text"] == "made it"
        driving.send("{not an op")
        assert "Line 5 is no op" in driving.until(type="error")["content"]
        driving.send({"op": "set_operating_mode", "mode": "yolo"})
        driving.send({"op": "user_input", "text": "sleep"})
        driving.until(event="tool_call_changed", state="executing", tool="bash")
        driving.send({"op": "cancel"})
        assert driving.until(event="turn_ended")["status"] == "cancelled"
        assert driving.end() == 130
        assert "Be calm." in json.dumps(server.chats[0])
    assert (project.cwd / "made.txt").exists()
    recorded = [line for line in driving.lines if "event" not in line and "turn" in line]
    assert recorded == project.events()


def test_the_end_of_stdin_ends_the_session_after_what_was_sent(project: Project) -> None:
    ops = "".join(json.dumps({"op": "user_input", "text": text}) + "\n" for text in ("one", "two"))
    script = [{"calls": [WRITE]}, {"text": "not allowed"}, {"text": "second"}]
    with ScriptedServer(script) as server:
        done = project.coder("--input", "stream-json", url=server.url, stdin=ops)
    assert done.returncode == 0, done.stderr
    assert [end["meta"]["status"] for end in project.of_type("turn_end")] == ["ok", "ok"]
    assert "has closed its end" in project.of_type("observation")[0]["content"]
    assert project.events()[-1]["type"] == "session_end"


def test_lines_that_cannot_be_taken_are_answered_and_skipped(project: Project) -> None:
    long = '{"op": "user_input", "text": "' + "x" * (17 << 20) + '"}'
    deep = '{"op": "user_input", "text": "a", "pasted": ' + "[" * 50_000 + "]" * 50_000 + "}"
    lines = [
        long,
        deep,
        "\ufeff",
        '{"op": "user_input", "text": "one"}',
        '{"op": "close"}',
        '{"op": "user_input", "text": "two"}',
    ]
    with ScriptedServer([{"text": "done"}] * 2) as server:
        done = project.coder("--input", "stream-json", url=server.url, stdin="\n".join(lines))
        assert len(server.chats) == 1
    assert done.returncode == 0, done.stderr
    told = [json.loads(line) for line in done.stdout.splitlines()]
    errors = [line["content"] for line in told if line.get("type") == "error"]
    assert errors[0] == "Line 1 is longer than 16 MiB and was not taken."
    assert "Line 2 is no op" in errors[1]
    assert "Line 3 is no op" in errors[2]
    assert errors[3:] == ["Line 6 came after `close` and was not taken."]
    assert [turn["content"] for turn in project.of_type("turn_start")] == ["one"]


def test_what_a_program_gets_wrong_is_told(project: Project) -> None:
    """A mistyped field, an answer to no question, half a character; then a turn that nothing of it harmed."""
    lines = [
        '{"op": "user_input", "text": "a", "atached": "b"}',
        '{"op": "set_mode_state", "modes": [{"mode_id": "/x", "variable": {}}]}',
        '{"op": "approval_reply", "approval_id": "none", "answer": "yes"}',
        '{"op": "user_input", "text": "half \\ud83d of it"}',
        '{"op": "user_input", "text": "cut o',
    ]
    with ScriptedServer([{"text": "done"}]) as server:
        done = project.coder("--input", "stream-json", url=server.url, stdin="\n".join(lines))
        (chat,) = server.chats
        assert chat["messages"][-1]["content"].startswith("half ? of it")
    assert done.returncode == 0, done.stderr
    told = [json.loads(line) for line in done.stdout.splitlines()]
    errors = [line["content"] for line in told if line.get("type") == "error"]
    assert "unknown field `atached`" in errors[0]
    assert "unknown field `variable`" in errors[1]
    assert errors[2] == "Line 3 answers no question that waits: there is no approval none."
    assert errors[3].startswith("Line 5 is no op")
    assert len(errors) == 4


def test_a_question_is_answered_once(project: Project) -> None:
    with ScriptedServer([{"calls": [WRITE]}, {"text": "made it"}]) as server:
        driving = Driving(project, server.url)
        driving.send({"op": "user_input", "text": "make it"})
        reply = {
            "op": "approval_reply",
            "approval_id": driving.until(event="approval_requested")["approval_id"],
        }
        driving.send({**reply, "answer": "no"})
        driving.until(event="approval_resolved")
        driving.send({**reply, "answer": "yes"})
        assert "answers no question" in driving.until(type="error")["content"]
        assert driving.end() == 0
    assert not (project.cwd / "made.txt").exists()


@pytest.mark.parametrize(
    ("inputs", "status"),
    [
        (["/nonsense", "/status"], 0),
        (["/status", "/nonsense"], 2),
        (["hi", "!false"], 1),
        (["!false", "hi"], 0),
    ],
)
def test_the_status_is_that_of_the_last_input(project: Project, inputs: list[str], status: int) -> None:
    ops = "".join(json.dumps({"op": "user_input", "text": text}) + "\n" for text in inputs)
    with ScriptedServer([{"text": "done"}]) as server:
        assert project.coder("--input", "stream-json", url=server.url, stdin=ops).returncode == status


def test_what_waits_behind_an_exit_is_not_begun(project: Project) -> None:
    ops = "".join(json.dumps({"op": "user_input", "text": text}) + "\n" for text in ("/exit", "one more"))
    with ScriptedServer([{"text": "done"}]) as server:
        done = project.coder("--input", "stream-json", url=server.url, stdin=ops)
        assert server.chats == []
    assert done.returncode == 0, done.stdout
    assert '"one more"' not in done.stdout


def test_what_does_not_go_together_is_said(project: Project) -> None:
    done = project.coder("--input", "stream-json", "--output", "json", url="http://127.0.0.1:9", stdin="")
    assert done.returncode == 2
    assert "--output stream-json" in done.stderr


def test_the_node_example(project: Project) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    with ScriptedServer([{"calls": [WRITE, bash("touch other.txt")]}, {"text": "all done"}]) as server:
        environ = project.environ(server.url, CODER_COMMAND=f"{sys.executable} -m coder")
        done = subprocess.run(
            [node, str(EXAMPLE), "make it"], cwd=project.cwd, env=environ,
            capture_output=True, encoding="utf-8", timeout=60, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[write: yes]\n[bash: no]\nall done\n[ok, 2 steps]\n"
    assert [(project.cwd / name).exists() for name in ("made.txt", "other.txt")] == [True, False]


@pytest.mark.thorough
def test_the_types_compile_strictly(project: Project) -> None:
    compiler = npm_program("tsc")
    types = project.coder("schema", "--ts").stdout
    project.write("protocol.ts", types)
    use = """import type { Op, Output } from "./protocol";
const reply: Op = { op: "approval_reply", approval_id: "x", answer: "yes" };
const ops: Op[] = [{ op: "user_input", text: "hi" }, reply];
export function told(line: Output): string {
  if ("event" in line && line.event === "turn_ended") return line.status;
  return "type" in line ? line.type : ops[0].op;
}
"""
    project.write("use.ts", use)
    done = subprocess.run(
        [*compiler, "--noEmit", "--strict", "--exactOptionalPropertyTypes", "--lib", "es2022", "use.ts"],
        cwd=project.cwd, capture_output=True, encoding="utf-8", timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(("answer", "tried"), [("yes", True), ("no", False)])
def test_a_host_is_asked_about_while_its_command_runs(project: Project, answer: str, tried: bool) -> None:
    project.configure(sandbox={"network": {"allow": []}})
    script = [{"calls": [bash("curl -sS http://wanted.invalid/")]}, {"text": "ok"}]
    with ScriptedServer(script) as server:
        driving = Driving(project, server.url, "--mode", "yolo")
        driving.send({"op": "user_input", "text": "go"})
        asked = driving.until(event="approval_requested")
        assert (asked["tool"], asked["subject"]) == ("network", "wanted.invalid:80")
        driving.send({"op": "approval_reply", "approval_id": asked["approval_id"], "answer": answer})
        driving.until(event="turn_ended")
        assert driving.end() == 0
    (said,) = project.of_type("observation")
    refused = "The person refused wanted.invalid:80 (sandbox.network)."
    assert ("cannot be reached" in said["content"]) == tried
    assert (refused in said["content"]) != tried
