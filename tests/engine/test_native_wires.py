"""Whole sessions over each native wire: what is recorded, resumed and sent again."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from kit import Chaos
from kit.driving import Driver, Project, drive
from kit.fakes import WIRES
from kit.images import png
from kit.prefix import grows, split
from kit.validity import check_conversation
from kit.wire_exchange import MODELS, NATIVE

SIGNED = "U0lHTkVE"


def base64(data: bytes) -> str:
    return b64encode(data).decode("ascii")


def looks(path: str = "a.txt", **more: Any) -> dict[str, Any]:
    call = {"name": "read", "arguments": {"path": path}}
    return {"reasoning": "I look first.", "signature": SIGNED, "calls": [call], **more}


def run(project: Project, server: Chaos, inputs: Sequence[str], **options: Any) -> Driver:
    options = {"model": MODELS[server.wire], "preset": "auto-edit", **options}
    return drive(project, server.url, inputs, **options)


@pytest.fixture
def ready(project: Project) -> Project:
    project.write("a.txt", "alpha\n")
    return project


def use(project: Project, wire: str, **sections: Any) -> None:
    models = {"m": {"images": True}}  # the model of Chat Completions
    project.configure(
        provider={"wire": wire, "models": models}, workflow={"require_todo_for_complex": False}, **sections
    )


@pytest.mark.parametrize("wire", NATIVE)
def test_reasoning_outlives_the_process(ready: Project, wire: str) -> None:
    use(ready, wire)
    with Chaos([looks(), {"text": "It says alpha."}, {"text": "Still."}], wire=wire) as server:
        run(ready, server, ["what is in a.txt?"])
        (log,) = ready.logs()
        run(ready, server, ["and now?"], resume=log.stem)
        first, second, resumed = server.requests
    assert SIGNED not in json.dumps(first.json)
    for request in (second, resumed):
        assert json.dumps(request.json).count(SIGNED) == 1
    assert "alpha" in json.dumps(resumed.json)
    assert grows(wire, first, second)
    assert grows(wire, second, resumed)
    (answer, *_) = ready.of_type("assistant")
    assert answer["meta"]["opaque"]["wire"] == wire
    assert answer["meta"]["opaque"]["model"] == MODELS[wire]


@pytest.mark.parametrize("wire", NATIVE)
def test_the_snapshot_is_a_chat_request_all_the_same(ready: Project, wire: str) -> None:
    use(ready, wire)
    with Chaos([looks(), {"text": "It says alpha."}], wire=wire) as server:
        run(ready, server, ["what is in a.txt?"])
    snapshot = ready.snapshot()
    check_conversation(snapshot["messages"])
    ours = {"role", "content", "tool_calls", "tool_call_id", "name", "reasoning"}
    assert all(set(message) <= ours for message in snapshot["messages"])
    at = min(snapshot["meta"]["opaque"], key=int)
    assert snapshot["messages"][int(at)]["tool_calls"]


@pytest.mark.parametrize("wire", NATIVE)
def test_another_model_is_not_sent_what_the_first_one_signed(ready: Project, wire: str) -> None:
    use(ready, wire)
    with Chaos([looks(), {"text": "So."}, {"text": "Yes."}, {"text": "Again."}], wire=wire) as server:
        run(ready, server, ["look", f"/model {MODELS[wire]}-next", "and?", f"/model {MODELS[wire]}", "back?"])
        *_, other, back = [request for request in server.requests if request.method == "POST"]
    assert SIGNED not in json.dumps(other.json)
    assert "alpha" in json.dumps(other.json)
    assert SIGNED in json.dumps(back.json)


@pytest.mark.parametrize("wire", NATIVE)
def test_a_foreign_record_brings_no_signed_reasoning(ready: Project, wire: str) -> None:
    use(ready, wire)
    with Chaos([looks(), {"text": "So."}, {"text": "Yes."}], wire=wire) as server:
        run(ready, server, ["look"])
        (log,) = ready.logs()
        events = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
        events[0]["meta"].pop("seal", None)
        log.write_text("".join(json.dumps(event) + "\n" for event in events), encoding="utf-8")
        run(ready, server, ["and?"], resume=log.stem)
        last = server.requests[-1]
    assert SIGNED not in json.dumps(last.json)
    assert "alpha" in json.dumps(last.json)


@pytest.mark.parametrize("wire", WIRES)
def test_the_first_request_is_small(ready: Project, wire: str) -> None:
    use(ready, wire)
    with Chaos([{"text": "Hi."}], wire=wire) as server:
        run(ready, server, ["hello"])
        assert int(server.requests[0].headers["content-length"]) <= 12 * 1024


@pytest.mark.parametrize("wire", WIRES)
def test_every_request_begins_as_the_one_before(ready: Project, wire: str) -> None:
    """Across steps, mode switches, an undo, images, a resume and the end of a compaction."""
    use(ready, wire)
    ready.write("shot.png", png())
    ready.write("other.png", png(9, 9))
    write = {"name": "write", "arguments": {"path": "b.txt", "content": "beta\n"}}
    script = [
        looks(text="First I look."),
        {"reasoning": "Now.", "signature": SIGNED, "calls": [write]},
        {"text": "Written."},
        {"text": "Planned."},
        {"text": "Undone, I see."},
        {"text": "A square."},
        looks("shot.png"),
        {"text": "Resumed."},
        {"text": "A summary of all that."},
        looks(),
        {"text": "After it."},
        {"text": "And on."},
    ]
    with Chaos(script, wire=wire) as server:
        run(
            ready,
            server,
            ["write b.txt", "/mode plan", "plan on", "/mode default", "/undo", "what now?", "@other.png"],
        )
        (log,) = ready.logs()
        run(ready, server, ["look again", "/compact", "go on", "and on"], resume=log.stem)
        sent = list(server.requests)
    assert not Path(ready.cwd / "b.txt").exists()
    at = next(n for n, one in enumerate(sent) if "tools" not in one.json)  # the summary is asked for apart
    before, after = sent[:at], sent[at + 1 :]
    assert (len(before), len(after)) == (8, 3)
    assert all(data in json.dumps(before[-1].json) for data in map(base64, (png(), png(9, 9))))
    for earlier, later in [*pairwise(before), *pairwise(after)]:
        assert grows(wire, earlier, later)
    assert split(wire, before[-1].json)[0] == split(wire, after[0].json)[0]


@pytest.mark.parametrize(
    ("environ", "path", "header"),
    [
        ({"ANTHROPIC_BASE_URL": "URL", "ANTHROPIC_API_KEY": "k"}, "/v1/messages", "x-api-key"),
        (
            {"GOOGLE_GEMINI_BASE_URL": "URL", "GEMINI_API_KEY": "k"},
            "/v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse",
            "x-goog-api-key",
        ),
    ],
)
def test_the_vendors_own_variables(ready: Project, environ: dict[str, str], path: str, header: str) -> None:
    wire = "messages" if "messages" in path else "gemini"
    with Chaos([{"text": "Hi."}], wire=wire) as server:
        url = server.url.removesuffix("/v1")
        given = {name: value.replace("URL", url) for name, value in environ.items()}
        done = ready.coder("--once", "hello", "--model", MODELS[wire], env=given)
        sent = server.requests[0]
    assert (done.returncode, done.stdout) == (0, "Hi.\n")
    assert (sent.path, sent.headers[header]) == (path, "k")
