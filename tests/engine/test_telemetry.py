"""OpenTelemetry: what a real OTLP/HTTP receiver on the loopback gets of a session."""

from __future__ import annotations

import json
import socket
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from coder.addons.telemetry.spans import Telemetry, endpoint_of, telemetry_for
from coder.config.distribution import install_line
from kit import ScriptedServer
from kit.calls import call
from kit.driving import Project

proto = pytest.importorskip(
    "opentelemetry.proto.collector.trace.v1.trace_service_pb2", reason="the extra `otel` is not installed"
)
CAPTURE = {"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "true"}


class Receiver(ThreadingHTTPServer):
    """Keeps every span that it is sent."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.spans: list[Any] = []
        self.resources: list[dict[str, Any]] = []
        self.paths: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def named(self, name: str) -> list[Any]:
        return [span for span in self.spans if span.name == name]


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        request = proto.ExportTraceServiceRequest.FromString(body)
        self.server.paths.append(self.path)
        for group in request.resource_spans:
            self.server.resources.append(attributes(group.resource))
            self.server.spans += [span for scope in group.scope_spans for span in scope.spans]
        answer = proto.ExportTraceServiceResponse().SerializeToString()
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 # the name is the base class's
        pass


def attributes(holder: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for one in holder.attributes:
        value = getattr(one.value, one.value.WhichOneof("value"))
        found[one.key] = [v.string_value for v in value.values] if hasattr(value, "values") else value
    return found


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    server = Receiver()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


SCRIPT = [
    {"calls": [call("bash", command="cat secret-plan.txt"), call("read", path="nowhere.txt")]},
    {"text": "All done."},
]


def run_once(project: Project, endpoint: str, text: str = "", **more: str) -> Any:
    project.write("secret-plan.txt", f"the hidden word\n{text}")
    env = {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, **more}
    with ScriptedServer(SCRIPT) as server:
        return project.coder("--once", "look at it", "--mode", "yolo", url=server.url, env=env)


def test_turn_steps_calls_and_requests_are_spans(project: Project, receiver: Receiver) -> None:
    done = run_once(project, receiver.url)
    assert (done.returncode, done.stdout) == (0, "All done.\n"), done.stderr
    assert set(receiver.paths) == {"/v1/traces"}
    assert receiver.resources[0]["service.name"] == "coder"
    (turn,) = receiver.named("invoke_agent coder")
    steps = [*receiver.named("step 0"), *receiver.named("step 1")]
    chats = [span for span in receiver.spans if span.name.startswith("chat ")]
    (bash,), (read,) = receiver.named("execute_tool bash"), receiver.named("execute_tool read")
    assert len(steps) == 2
    assert [step.parent_span_id for step in steps] == [turn.span_id] * 2
    assert [chat.parent_span_id for chat in chats] == [step.span_id for step in steps]
    assert {bash.parent_span_id, read.parent_span_id} == {steps[0].span_id}
    assert len({span.trace_id for span in receiver.spans}) == 1
    about = attributes(chats[0])
    assert about["gen_ai.operation.name"] == "chat"
    assert about["gen_ai.response.finish_reasons"] == ["tool_calls"]
    assert about["gen_ai.usage.input_tokens"] > 0
    assert about["gen_ai.request.model"] in chats[0].name
    (session,) = project.logs()
    assert {attributes(span)["gen_ai.conversation.id"] for span in receiver.spans} == {session.stem}
    assert attributes(bash)["gen_ai.tool.name"] == "bash"
    assert attributes(read)["error.type"] == "error"
    assert read.status.code == 2
    assert attributes(turn)["coder.turn.status"] == "ok"
    assert all(0 < span.start_time_unix_nano <= span.end_time_unix_nano for span in receiver.spans)
    told = b"".join(span.SerializeToString() for span in receiver.spans)
    for content in (b"hidden word", b"secret-plan", b"look at it", b"All done"):
        assert content not in told


def test_contents_only_where_they_are_asked_for_and_without_secrets(
    project: Project, receiver: Receiver
) -> None:
    key = "sk-ant-api03-" + "a1B2c3D4e5" * 9
    run_once(project, receiver.url, f"key={key}\n", **CAPTURE)
    chats = [attributes(span) for span in receiver.spans if span.name.startswith("chat ")]
    asked = json.loads(chats[0]["gen_ai.input.messages"])
    assert "look at it" in asked[-1]["parts"][0]["content"]
    assert json.loads(chats[0]["gen_ai.system_instructions"])[0]["type"] == "text"
    (answer,) = json.loads(chats[1]["gen_ai.output.messages"])
    assert answer == {
        "role": "assistant",
        "parts": [{"type": "text", "content": "All done."}],
        "finish_reason": "stop",
    }
    (bash,) = receiver.named("execute_tool bash")
    assert "the hidden word" in attributes(bash)["gen_ai.tool.call.result"]
    assert json.loads(attributes(bash)["gen_ai.tool.call.arguments"]) == {"command": "cat secret-plan.txt"}
    assert "key=" in attributes(bash)["gen_ai.tool.call.result"]
    assert key.encode() not in b"".join(span.SerializeToString() for span in receiver.spans)


@pytest.mark.thorough
def test_a_receiver_that_is_away_or_never_answers_fails_nothing(project: Project) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()  # connections are made, and nothing is ever said
        port = taken.getsockname()[1]
        done = run_once(project, f"http://127.0.0.1:{port}")
        assert (done.returncode, done.stdout) == (0, "All done.\n")
        assert "opentelemetry" not in done.stderr.lower()
    done = run_once(project, f"http://127.0.0.1:{port}")
    assert (done.returncode, done.stdout) == (0, "All done.\n")
    assert "connection" not in done.stderr.lower()


def test_without_the_extra_or_with_another_protocol_it_is_said(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = run_once(project, "http://127.0.0.1:9", OTEL_EXPORTER_OTLP_PROTOCOL="grpc")
    assert (done.returncode, done.stdout) == (0, "All done.\n")
    assert "http/protobuf alone; nothing is sent" in done.stderr
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    told = telemetry_for({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"})
    assert not isinstance(told, Telemetry)
    assert install_line("otel") in str(told)


@pytest.mark.parametrize(
    ("environ", "endpoint"),
    [
        ({}, ""),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://h:4318/"}, "http://h:4318/v1/traces"),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://h/own"}, "http://h/own"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://h", "OTEL_SDK_DISABLED": "true"}, ""),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://h", "OTEL_TRACES_EXPORTER": "none"}, ""),
    ],
)
def test_where_spans_go(environ: dict[str, str], endpoint: str) -> None:
    assert endpoint_of(environ) == endpoint
