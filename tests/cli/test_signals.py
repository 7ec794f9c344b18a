"""SIGTERM and SIGHUP end every front end with its record closed; under `nohup` SIGHUP is nothing to it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from kit import ScriptedServer
from kit.calls import bash
from kit.driving import Project, left_running

PATIENCE = 60  # seconds; a test that waits this long has failed
STOP = (signal.SIGTERM, signal.SIGHUP)
WORD = "37.125"
SLEEP = {"calls": [bash(f"sleep {WORD}")]}
ONCE = ("--mode", "yolo", "--once", "go")
DRIVEN = ("--mode", "yolo", "--input", "stream-json")
HELLO = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}
SERVERS = {
    "acp": HELLO,
    "serve-mcp": {**HELLO, "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {}}},
}


@contextlib.contextmanager
def started(
    project: Project, *args: str, url: str = "", nohup: bool = False, **options: Any
) -> Iterator[subprocess.Popen[str]]:
    line = [sys.executable, "-m", "coder", *args]
    if nohup:
        line = ["/bin/sh", "-c", 'trap "" HUP; exec "$@"', "sh", *line]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    process = subprocess.Popen(
        line, cwd=project.cwd, env=project.environ(url), text=True, **{**pipes, **options}
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()


def ended(process: subprocess.Popen[str]) -> int:
    """Its exit status. Its stdin stays open."""
    status = process.wait(PATIENCE)
    if process.stderr is not None:
        assert "Traceback" not in process.stderr.read()
    return status


def send(process: subprocess.Popen[str], message: dict[str, Any]) -> None:
    assert process.stdin is not None
    process.stdin.write(json.dumps(message) + "\n")
    process.stdin.flush()


def until(process: subprocess.Popen[str], **fields: Any) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        message = json.loads(line)
        if all(message.get(name) == value for name, value in fields.items()):
            return
    raise AssertionError(fields)


def closed(project: Project, last: str) -> None:
    events = project.events()
    assert [event["type"] for event in events][-2:] == [last, "session_end"]
    assert left_running(WORD) == []


@pytest.mark.parametrize("number", STOP)
def test_a_driven_session_that_waits_for_an_op(project: Project, number: int) -> None:
    with ScriptedServer([{"text": "hi"}]) as server, started(project, *DRIVEN, url=server.url) as process:
        send(process, {"op": "user_input", "text": "hello"})
        until(process, event="input_done")
        process.send_signal(number)
        assert ended(process) == 130
    closed(project, "turn_end")


@pytest.mark.parametrize("number", STOP)
def test_a_driven_session_in_a_turn_with_more_to_do(project: Project, number: int) -> None:
    """What was sent is worked through where stdin ends, and not where a supervisor wants it to stop."""
    with ScriptedServer([SLEEP, {"text": "x"}]) as server:
        with started(project, *DRIVEN, url=server.url) as process:
            for text in ("first", "second", "third"):
                send(process, {"op": "user_input", "text": text})
            until(process, event="tool_call_changed", state="executing", tool="bash")
            process.send_signal(number)
            assert ended(process) == 130
        assert len(server.chats) == 1
    closed(project, "turn_end")
    assert project.of_type("turn_end")[0]["meta"]["status"] == "cancelled"


@pytest.mark.parametrize("number", STOP)
@pytest.mark.parametrize("output", ["text", "json", "stream-json"])
def test_one_turn(project: Project, number: int, output: str) -> None:
    with (
        ScriptedServer([SLEEP, {"text": "never"}]) as server,
        started(project, *ONCE, "--output", output, url=server.url) as process,
    ):
        while not left_running(WORD):
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(number)
        assert ended(process) == 130
    closed(project, "turn_end")


@pytest.mark.parametrize("number", STOP)
@pytest.mark.parametrize("server", SERVERS)
def test_a_server_on_stdio_that_waits(project: Project, number: int, server: str) -> None:
    with started(project, server, url="http://127.0.0.1:9/v1") as process:
        send(process, SERVERS[server])
        until(process, id=1)
        process.send_signal(number)
        assert ended(process) == 130


@pytest.mark.parametrize("number", STOP)
def test_the_viewer_with_a_browser_that_stays_connected(project: Project, number: int) -> None:
    with started(project, "view", "--no-browser") as process:
        assert process.stdout is not None
        port = int(process.stdout.readline().rpartition("127.0.0.1:")[2].partition("/")[0])
        with socket.create_connection(("127.0.0.1", port)) as browser:
            browser.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % port)
            assert browser.recv(100).startswith(b"HTTP/1.1 200")
            process.send_signal(number)
            assert ended(process) == 0


def test_one_turn_under_nohup_goes_on(project: Project) -> None:
    flag = project.cwd / "flag"
    waiting = {"calls": [bash("until [ -e flag ]; do sleep 0.05; done")]}
    with (
        ScriptedServer([waiting, {"text": "done"}]) as server,
        started(project, *ONCE, url=server.url, nohup=True) as process,
    ):
        while not server.chats:
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(signal.SIGHUP)
        flag.touch()
        assert ended(process) == 0
    closed(project, "turn_end")


def test_a_driven_session_under_nohup_goes_on_and_ends_by_the_other_signal(project: Project) -> None:
    with (
        ScriptedServer([{"text": "hi"}] * 2) as server,
        started(project, *DRIVEN, url=server.url, nohup=True) as process,
    ):
        for _ in range(2):
            send(process, {"op": "user_input", "text": "hello"})
            until(process, event="input_done")
            process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGTERM)
        assert ended(process) == 130
    closed(project, "turn_end")


@pytest.mark.parametrize("server", SERVERS)
def test_a_server_under_nohup_goes_on(project: Project, server: str) -> None:
    with started(project, server, url="http://127.0.0.1:9/v1", nohup=True) as process:
        send(process, SERVERS[server])
        until(process, id=1)
        process.send_signal(signal.SIGHUP)
        send(process, {"jsonrpc": "2.0", "id": 2, "method": "no/such/method"})
        until(process, id=2)
        process.send_signal(signal.SIGTERM)
        assert ended(process) == 130


def test_the_viewer_under_nohup_goes_on(project: Project) -> None:
    with started(project, "view", "--no-browser", nohup=True) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline().rpartition("127.0.0.1:")[2].partition("/")[0])
        process.send_signal(signal.SIGHUP)
        with socket.create_connection(("127.0.0.1", port)) as browser:
            browser.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % port)
            assert browser.recv(100).startswith(b"HTTP/1.1 200")
        os.kill(process.pid, signal.SIGTERM)
        assert ended(process) == 0
