"""How much the model is asked to reason and to write, and what share of its input was cached."""

from __future__ import annotations

import json
from typing import Any

import pytest

from coder.protocol.events import CommandDone
from kit import Chaos
from kit.driving import Driver, Project, drive, of
from kit.fakes import WIRES
from kit.wire_exchange import MODELS

# Where each API has the effort and the limit of the output.
PLACES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "chat": (("reasoning_effort",), ("max_completion_tokens",)),
    "responses": (("reasoning", "effort"), ("max_output_tokens",)),
    "messages": (("output_config", "effort"), ("max_tokens",)),
    "gemini": (
        ("generationConfig", "thinkingConfig", "thinkingLevel"),
        ("generationConfig", "maxOutputTokens"),
    ),
}


def at(body: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        body = body.get(name, {})
    return body or None


def said(driver: Driver) -> list[str]:
    return [str(event.text) for event in of(driver.seen, CommandDone)]


@pytest.mark.parametrize("wire", WIRES)
def test_effort_and_output_limit_reach_every_wire(project: Project, wire: str) -> None:
    project.configure(provider={"wire": wire, "effort": "low", "max_output_tokens": 1234})
    with Chaos([{"text": "a"}, {"text": "b"}, {"text": "c"}], wire=wire) as server:
        inputs = ["one", "/effort high", "two", "/effort default", "three"]
        drive(project, server.url, inputs, model=MODELS[wire])
        sent = [request.json for request in server.requests]
    effort, limit = PLACES[wire]
    assert [at(body, effort) for body in sent] == ["low", "high", None]
    assert [at(body, limit) for body in sent] == [1234] * 3


def test_the_flag_wins_and_the_choice_outlives_the_process(project: Project) -> None:
    with Chaos([{"text": "a"}, {"text": "b"}, {"text": "c"}]) as server:
        done = project.coder("--once", "hi", "--effort", "minimal", url=server.url)
        assert done.returncode == 0
        drive(project, server.url, ["/effort max", "hi"])
        newest = max(project.logs(), key=lambda path: path.stat().st_mtime_ns)
        drive(project, server.url, ["again"], resume=newest.stem)
        assert [chat.get("reasoning_effort") for chat in server.chats] == ["minimal", "max", "max"]


def test_what_is_no_effort_is_said(project: Project) -> None:
    with Chaos([]) as server:
        driver = drive(project, server.url, ["/effort", "/effort much", "/effort low", "/effort"])
    default, unknown, *rest = said(driver)
    assert "the model's own" in default
    assert unknown.startswith("There is no effort much; there are none|minimal|low")
    assert rest == ["Effort: low", "Effort: low"]
    done = project.coder("--once", "hi", "--effort", "much", url="http://127.0.0.1:1/v1")
    assert done.returncode == 2


def test_the_cached_share_is_told(project: Project) -> None:
    def usage(cached: int) -> dict[str, Any]:
        return {
            "prompt_tokens": 200,
            "completion_tokens": 1,
            "prompt_tokens_details": {"cached_tokens": cached},
        }

    script = [{"text": "a", "usage": usage(0)}, {"text": "b", "usage": usage(150)}]
    with Chaos(script) as server:
        driver = drive(project, server.url, ["/status", "one", "two", "/status", "/context"])
    before, status, context = said(driver)
    line = "75% of the newest turn's input was cached, 38% of the session's"
    assert "cached," not in before.replace("were cached", "")
    assert f"cache: {line}" in status
    assert context.endswith(line)
    with Chaos([{"text": "a", "usage": usage(50)}]) as server:
        done = project.coder("--once", "hi", "--output", "json", url=server.url)
    assert json.loads(done.stdout)["tokens"]["cached_share"] == 0.25
