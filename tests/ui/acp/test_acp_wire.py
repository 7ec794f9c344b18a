"""The line itself: nothing that comes over it ends the server, and nothing but the protocol goes out."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from acp_kit import PATIENCE, Line, bare
from hypothesis import given, settings
from hypothesis import strategies as st

from coder.ui.acp.acp_server import AcpChoices, AcpServer
from coder.ui.stdio import LONGEST_LINE, EditorOutbox
from kit import ScriptedServer
from kit.calls import call
from kit.driving import Project


def test_half_a_character_in_a_message(project: Project) -> None:
    """Editors that cut text by UTF-16 send it; the request has an id, and whoever sent it waits."""
    with ScriptedServer([{"text": "fine"}]) as server, bare(project, server.url) as line:
        session = line.ask("session/new", cwd=str(project.cwd), mcpServers=[])["result"]["sessionId"]
        line.send(
            b'{"jsonrpc": "2.0", "id": "p", "method": "session/prompt", "params": {"sessionId": "%s", '
            b'"prompt": [{"type": "text", "text": "cut \\ud83d here, whole \\ud83d\\ude00"}]}}'
            % session.encode()
        )
        assert line.message()["method"] == "session/update"
        assert line.answer("p")["result"]["stopReason"] == "end_turn"
    assert "cut \\ud83d here, whole \U0001f600" in server.chats[0]["messages"][-1]["content"]


@pytest.mark.thorough
def test_nobody_reads_the_log(project: Project) -> None:
    """More than a pipe holds; the sessions go on."""
    with bare(project, "http://127.0.0.1:9/v1") as line:
        for _ in range(2000):
            line.send({"method": "no/such/method" * 5})
        assert "result" in line.ask("session/list")
        assert line.end() == 0


def test_directories_by_several_names_are_listed_once(project: Project) -> None:
    link = project.home / "link"
    link.symlink_to(project.cwd)
    with ScriptedServer([{"text": "fine"}]) as server, bare(project, server.url) as line:
        for name in (str(link), f"{project.cwd}/", str(project.cwd)):
            opened = line.ask("session/new", cwd=name, mcpServers=[])
        session = opened["result"]["sessionId"]
        line.ask("session/prompt", sessionId=session, prompt=[{"type": "text", "text": "go"}])
        listed = line.ask("session/list")["result"]["sessions"]
    assert [(one["sessionId"], one["cwd"]) for one in listed] == [(session, str(link))]


@pytest.mark.parametrize(
    ("sent", "code", "number"),
    [
        (b"{", -32700, None),
        (b"\xff\xfe", -32700, None),
        (b'{"error": ' + b"[" * 100_000, -32700, None),
        (b"[1, 2]", -32600, None),
        (b'"text"', -32600, None),
        (b'{"jsonrpc": "2.0", "id": 5}', -32600, 5),
        (b'{"jsonrpc": "1.0", "id": 5, "method": "initialize"}', -32600, 5),
        (b'{"jsonrpc": "2.0", "id": 5, "method": 7}', -32600, 5),
        (b'{"jsonrpc": "2.0", "id": "a", "method": "session/nonsense", "params": {}}', -32601, "a"),
        (b'{"jsonrpc": "2.0", "id": 5, "method": "session/new", "params": {}}', -32602, 5),
        (b'{"jsonrpc": "2.0", "id": 5, "method": "session/new", "params": [1]}', -32602, 5),
        (b'{"jsonrpc": "2.0", "id": 5, "method": "session/new", "params": {"cwd": "x"}}', -32602, 5),
        (b'{"jsonrpc": "2.0", "id": 5, "method": "session/new", "params": {"cwd": "/no/where"}}', -32602, 5),
        (
            b'{"jsonrpc": "2.0", "id": 5, "method": "session/prompt", "params": {"sessionId": "x", "prompt": '
            b'[{"type": "video"}]}}',
            -32602,
            5,
        ),
        (
            b'{"jsonrpc": "2.0", "id": 5, "method": "session/prompt", "params": {"sessionId": "x", "prompt": '
            b'[{"type": "text", "text": "hi"}]}}',
            -32002,
            5,
        ),
    ],
)
def test_what_is_wrong_is_answered(shared: Line, sent: bytes, code: int, number: Any) -> None:
    shared.send(sent)
    answer = shared.message()
    assert (answer["error"]["code"], answer["id"]) == (code, number)
    assert "Traceback" not in answer["error"]["message"]
    assert len(answer["error"]["message"]) < 300


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """One process for all of it: whatever came before has not ended it."""
    with bare(Project(tmp_path_factory.mktemp("wire"))) as line:
        yield line
        assert line.ask("initialize", protocolVersion=1)["result"]["protocolVersion"] == 1
        assert line.end() == 0


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"   ",
        b'{"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "x"}}',
        b'{"jsonrpc": "2.0", "method": "nonsense"}',
        b'{"jsonrpc": "2.0", "id": 99, "result": {}}',
        b'{"jsonrpc": "2.0", "id": 99, "error": {"code": 1, "message": "late"}}',
    ],
)
def test_what_wants_no_answer_gets_none(shared: Line, sent: bytes) -> None:
    shared.send(sent)
    shared.send({"id": "next", "method": "session/list", "params": {}})
    assert shared.message()["id"] == "next"


@pytest.mark.parametrize("version", [1, 2, 65535, "2024-11-05", None])
def test_version_negotiation(shared: Line, version: Any) -> None:
    """We speak one version, whatever is asked for; the client decides whether that will do."""
    assert shared.ask("initialize", protocolVersion=version)["result"]["protocolVersion"] == 1


_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)
_METHODS = st.sampled_from(
    ["initialize", *AcpServer(AcpChoices(environ={}), EditorOutbox(-1, lambda _: None))._methods()]
)
_PARAMS = st.fixed_dictionaries(
    {},
    optional={
        "sessionId": _JSON,
        "cwd": st.sampled_from(["/proc/nowhere", "relative", "\0"]) | _JSON,
        "mcpServers": _JSON,
        "prompt": st.lists(st.fixed_dictionaries({"type": st.sampled_from(["text", "resource"])}), max_size=3)
        | _JSON,
        "modeId": _JSON,
        "configId": _JSON,
        "value": _JSON,
        "cursor": _JSON,
        "protocolVersion": _JSON,
    },
)
_CALLS = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0"), "method": _METHODS | st.text(max_size=10)},
    optional={"id": _JSON, "params": _PARAMS | _JSON},
)
_LINES = st.binary(max_size=60) | (_JSON | _CALLS).map(lambda value: json.dumps(value).encode())


@pytest.mark.thorough
def test_whatever_comes_the_server_goes_on(project: Project) -> None:
    with bare(project) as line:
        count = 0

        @settings(max_examples=120)
        @given(st.lists(_LINES, max_size=4))
        def fuzz(sent: list[bytes]) -> None:
            nonlocal count
            count += 1
            for data in sent:
                line.send(data)
            line.send({"id": f"ping-{count}", "method": "ping"})
            while (message := line.message()).get("id") != f"ping-{count}":
                assert "Traceback" not in str(message)
                assert message.get("error", {}).get("code") != -32603, message
            assert message["error"]["code"] == -32601

        fuzz()
        assert line.end() == 0
        assert line.process.stderr is not None
        assert b"Traceback" not in line.process.stderr.read()


def opened(line: Line, project: Project) -> str:
    return str(line.ask("session/new", cwd=str(project.cwd), mcpServers=[])["result"]["sessionId"])


@pytest.mark.thorough
def test_a_message_of_ten_megabytes_and_one_that_is_too_long(project: Project) -> None:
    project.configure(workflow={"require_todo_for_complex": False})
    with ScriptedServer([{"text": "read"}]) as server, bare(project, server.url) as line:
        session = opened(line, project)
        resource = {"type": "resource", "resource": {"uri": "file:///big.txt", "text": "x" * 10_000_000}}
        number = line.begin(
            "session/prompt", sessionId=session, prompt=[{"type": "text", "text": "read"}, resource]
        )
        told = []
        while (message := line.message()).get("id") != number:
            told.append(message)
        assert message["result"]["stopReason"] == "end_turn"
        assert "too long to be sent whole" in str(told)
        assert len(str(server.chats[0]["messages"][-1])) < 200_000
        line.send(b"[" + b" " * LONGEST_LINE + b"]")
        assert "longer than" in line.answer(None)["error"]["message"]
        assert line.ask("session/list")["result"]["sessions"]
        assert line.end() == 0


def until_recorded(project: Project, kind: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not (project.logs() and f'"type":"{kind}"' in project.logs()[0].read_text(encoding="utf-8")):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def peak_memory(line: Line) -> int:
    """Bytes that the process had at most."""
    status = Path(f"/proc/{line.process.pid}/status").read_text(encoding="utf-8")
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def test_a_reader_that_falls_behind_gets_longer_pieces(project: Project) -> None:
    text = " ".join(f"word{n}" for n in range(20_000))
    script = [{"text": text, "chunk": 20}]
    with ScriptedServer(script) as server, bare(project, server.url) as line:
        session = opened(line, project)
        number = line.begin("session/prompt", sessionId=session, prompt=[{"type": "text", "text": "go"}])
        until_recorded(project, "turn_end")  # all of it is there, and nothing was read
        pieces = []
        while (message := line.message()).get("id") != number:
            update = message["params"]["update"]
            if update["sessionUpdate"] == "agent_message_chunk":
                pieces.append(update["content"]["text"])
        assert "".join(pieces) == text
        assert len(pieces) < len(text) / 20 / 5
        assert max(map(len, pieces)) <= 8_000
        assert line.end() == 0


@pytest.mark.thorough
def test_a_flood_of_output_and_nobody_reading_stays_bounded(project: Project) -> None:
    command = "head -c 80000000 /dev/zero | tr '\\0' x | fold -w 100; echo the end"
    script = [{"calls": [call("bash", command=command)]}, {"text": "done"}]
    with ScriptedServer(script) as server, bare(project, server.url, "--mode", "yolo") as line:
        session = opened(line, project)
        before = peak_memory(line)
        number = line.begin("session/prompt", sessionId=session, prompt=[{"type": "text", "text": "go"}])
        until_recorded(project, "turn_end")
        assert peak_memory(line) - before < 40_000_000
        size = 0
        while (message := line.message()).get("id") != number:
            size += len(json.dumps(message))
            last = message
        assert size < 2_000_000
        assert last is not None
        assert line.end() == 0


def test_nobody_else_reads_or_writes_the_line() -> None:
    code = (
        "import os, sys\n"
        "from coder.ui.stdio import take_over_streams\n"
        "given, taken = take_over_streams()\n"
        "print('stray'); os.system('echo child; cat'); os.write(1, b'bytes')\n"
        "os.write(taken, b'protocol ' + os.read(given, 100))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], input=b"message", capture_output=True, check=True, timeout=PATIENCE
    )
    assert done.stdout == b"protocol message"
    assert all(word in done.stderr for word in (b"stray", b"child", b"bytes"))


# Tells which modules are there when the first byte goes out.
PROBE = """
import os, sys
before, file, write = set(sys.modules), sys.argv[1], os.write

def telling(fd, data):
    if not os.path.exists(file):
        with open(file, "w") as out:
            out.write("\\n".join(sorted(set(sys.modules) - before)))
    return write(fd, data)

os.write = telling
sys.argv = ["coder", "acp"]
from coder.cli import main
main()
"""


def test_little_is_loaded_before_initialize_is_answered(project: Project) -> None:
    file = project.home / "modules"
    done = subprocess.run(
        [sys.executable, "-c", PROBE, str(file)],
        cwd=project.cwd,
        env=project.environ("http://127.0.0.1:9/v1"),
        input=b'{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}\n',
        capture_output=True,
        check=True,
        timeout=PATIENCE,
    )
    assert json.loads(done.stdout)["result"]["protocolVersion"] == 1
    modules = file.read_text(encoding="utf-8").split("\n")
    heavy = (
        "acp",
        "pydantic",
        "mcp",
        "json",
        "http",
        "yaml",
        "tree_sitter",
        "splintr",
        "prompt_toolkit",
    )
    rooms = tuple(f"coder.{room}" for room in ("engine", "terminal", "model", "tools", "context", "modes"))
    found = [m for m in modules if any(m == name or m.startswith(f"{name}.") for name in (*heavy, *rooms))]
    assert found == []
    assert "coder.ui.acp.acp_server" in modules
    assert len([m for m in modules if m.startswith("coder")]) <= 32


def test_a_file_as_stdin_is_answered_to_its_end(project: Project) -> None:
    lines = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}},
        {
            "jsonrpc": "2.0",
            "id": 2,
            "method": "session/new",
            "params": {"cwd": str(project.cwd), "mcpServers": []},
        },
    ]
    asked = project.write("asked", "\n".join(map(json.dumps, lines)))  # the last line without its end
    with asked.open("rb") as file, ScriptedServer([]) as server:
        done = subprocess.run(
            [sys.executable, "-m", "coder", "acp"],
            cwd=project.cwd,
            env=project.environ(server.url),
            stdin=file,
            capture_output=True,
            check=True,
            timeout=PATIENCE,
        )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [a["id"] for a in answers if "id" in a] == [1, 2]


def test_wrong_usage(project: Project) -> None:
    done = project.coder("acp", "--mode", "nonsense")
    assert done.returncode == 2
    assert "--mode" in done.stderr
    done = project.coder("acp", "--help")
    assert done.returncode == 0
    assert "Agent Client Protocol" in done.stdout


@pytest.mark.thorough
def test_a_load_that_is_cancelled_leaves_no_session(project: Project) -> None:
    """Nobody would read the events of one that is half open: its prompts would never be answered."""
    prompt = [{"type": "text", "text": "hi"}]
    with ScriptedServer([{"text": "ok"}] * 2) as server, bare(project, server.url) as line:
        session = line.ask("session/new", cwd=str(project.cwd), mcpServers=[])["result"]["sessionId"]
        line.ask("session/prompt", sessionId=session, prompt=prompt)
        line.ask("session/close", sessionId=session)
        (log,) = project.logs()
        *lines, _ = log.read_text(encoding="utf-8").splitlines()
        log.write_text("\n".join([*lines, *lines[1:] * 2000]) + "\n", encoding="utf-8")
        number = line.begin("session/load", cwd=str(project.cwd), sessionId=session, mcpServers=[])
        while line.message().get("method") != "session/update":
            pass
        line.send({"method": "$/cancel_request", "params": {"requestId": number}})
        assert line.answer(number)["error"]["code"] == -32800
        refused = line.ask("session/prompt", sessionId=session, prompt=prompt)
        assert "is not open here" in refused["error"]["message"]


def test_a_permission_that_nobody_waits_for_is_withdrawn(project: Project) -> None:
    script = [{"calls": [call("bash", command="touch x")]}, {"text": "never"}]
    with ScriptedServer(script) as server, bare(project, server.url) as line:
        session = line.ask("session/new", cwd=str(project.cwd), mcpServers=[])["result"]["sessionId"]
        prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "go"}]}
        line.send({"id": "p", "method": "session/prompt", "params": prompt})
        while (asked := line.message()).get("method") != "session/request_permission":
            pass
        line.send({"method": "session/cancel", "params": {"sessionId": session}})
        while (told := line.message()).get("method") != "$/cancel_request":
            assert told.get("id") != "p"
        assert told["params"] == {"requestId": asked["id"]}
        assert line.answer("p")["result"]["stopReason"] == "cancelled"
        assert line.end() == 0


def test_a_cancelled_option_leaves_the_session_usable(project: Project) -> None:
    with ScriptedServer([{"text": "hello"}]) as server, bare(project, server.url) as line:
        session = line.ask("session/new", cwd=str(project.cwd), mcpServers=[])["result"]["sessionId"]
        number = line.begin("session/set_config_option", sessionId=session, configId="model", value="other")
        while (asked := line.message()).get("method") != "session/request_permission":
            pass  # whether to take a model that the server does not list
        line.send({"method": "$/cancel_request", "params": {"requestId": number}})
        assert line.answer(number)["error"]["code"] == -32800
        while (told := line.message()).get("method") != "$/cancel_request":
            pass
        assert told["params"] == {"requestId": asked["id"]}
        prompt = [{"type": "text", "text": "go"}]
        answer = line.ask("session/prompt", sessionId=session, prompt=prompt)
        assert answer["result"]["stopReason"] == "end_turn"
        assert line.end() == 0


def test_a_request_can_be_cancelled_by_its_id(project: Project) -> None:
    """A prompt is answered as after `session/cancel`."""
    script = [{"calls": [call("bash", command="sleep 60")]}, {"text": "never"}]
    with ScriptedServer(script) as server, bare(project, server.url, "--mode", "yolo") as line:
        session = line.ask("session/new", cwd=str(project.cwd), mcpServers=[])["result"]["sessionId"]
        prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "sleep"}]}
        line.send({"id": "p", "method": "session/prompt", "params": prompt})
        while line.message().get("params", {}).get("update", {}).get("status") != "in_progress":
            pass
        line.send({"method": "$/cancel_request", "params": {"requestId": "p"}})
        assert line.answer("p")["result"]["stopReason"] == "cancelled"


def test_a_host_is_asked_about_with_the_call_that_wants_it(project: Project) -> None:
    project.configure(sandbox={"network": {"allow": []}})
    script = [{"calls": [call("bash", command="curl -sS http://wanted.invalid/")]}, {"text": "ok"}]
    with ScriptedServer(script) as server, bare(project, server.url, "--mode", "yolo") as line:
        session = line.ask("session/new", cwd=str(project.cwd), mcpServers=[])["result"]["sessionId"]
        prompt = line.begin("session/prompt", sessionId=session, prompt=[{"type": "text", "text": "go"}])
        while (asked := line.message()).get("method") != "session/request_permission":
            pass
        shown = json.dumps(asked["params"]["toolCall"])
        assert "wanted.invalid:80" in shown
        assert "curl -sS http://wanted.invalid/" in shown
        options = {option["optionId"]: option["name"] for option in asked["params"]["options"]}
        assert "network=wanted.invalid:80" in options["always"]
        outcome = {"outcome": {"outcome": "selected", "optionId": "reject"}}
        line.send({"id": asked["id"], "result": outcome})
        assert line.answer(prompt)["result"]["stopReason"] == "end_turn"
        assert line.end() == 0
    (said,) = project.of_type("observation")
    assert "The person refused wanted.invalid:80" in said["content"]
