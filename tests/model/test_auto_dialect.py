"""`dialect = "auto"`: what is found out of a model is remembered, per model and server."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from coder.config.models import ModelMemory, dialect_of, is_small
from coder.config.schema import Config, ModelSection, ProviderSection
from coder.engine.sdk import TurnResult, run_agent
from coder.protocol.events import Notice
from kit import ScriptedServer
from kit.driving import Project, of, play

EDIT = {"do": "edit", "path": "calc.py", "old": "a - b", "new": "a + b"}
GUIDED = [{"text": json.dumps(EDIT)}, {"text": json.dumps({"do": "done", "answer": "done"})}]
WRITTEN = {"text": '```json\n{"name": "read", "arguments": {"path": "calc.py"}}\n```'}
BROKEN = {"calls": [{"name": "read", "arguments": '{"path": '}]}
REFUSED = {"status": 400, "body": {"error": {"message": "small:1.5b does not support tools"}}}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    directory = tmp_path / "work"
    directory.mkdir()
    (directory / "calc.py").write_text("def add(a, b):\n    return a - b\n")
    return tmp_path


def turn(place: Path, server: ScriptedServer, model: str) -> TurnResult:
    environ = {"CODER_HOME": str(place / "home"), "PATH": "/usr/bin:/bin"}
    options: dict[str, Any] = {"cwd": place / "work", "mode": "yolo", "base_url": server.url, "model": model}
    return asyncio.run(run_agent("Fix add in calc.py.", **options, environ=environ))


def ways(server: ScriptedServer) -> list[str]:
    return ["native" if "tools" in chat else "guided" for chat in server.chats]


@pytest.mark.parametrize("first", [WRITTEN, BROKEN, REFUSED], ids=["written", "broken", "refused"])
def test_a_small_model_is_guided_after_its_first_failed_call(place: Path, first: dict[str, Any]) -> None:
    with ScriptedServer([first, *GUIDED]) as server:
        turn(place, server, "small:1.5b")
        assert ways(server) == ["native", "guided", "guided"]
        assert (place / "work" / "calc.py").read_text().endswith("a + b\n")
        assert ModelMemory(place / "home", server.url).dialect("small:1.5b") == "guided"


@pytest.mark.parametrize(("model", "dialect"), [("small:1.5b", "guided"), ("large:70b", "react-xml")])
def test_a_switch_of_the_dialect_is_told(project: Project, model: str, dialect: str) -> None:
    script = [REFUSED, {"text": '<final>{"do": "done", "answer": "so"}</final>'}]
    driver = play(project, script, ["what is this?"], model=model)
    told = [event.text for event in of(driver.seen, Notice)]
    assert any(f"{model} takes no native tools here" in text and dialect in text for text in told)


def test_what_was_found_out_holds_for_the_next_session(place: Path) -> None:
    with ScriptedServer([REFUSED, *GUIDED, *GUIDED]) as server:
        turn(place, server, "small:1.5b")
        (place / "work" / "calc.py").write_text("def add(a, b):\n    return a - b\n")
        turn(place, server, "small:1.5b")
        assert ways(server)[3:] == ["guided", "guided"]


def test_another_model_is_tried_for_itself(place: Path) -> None:
    with ScriptedServer([REFUSED, *GUIDED, {"text": "nothing to do"}]) as server:
        turn(place, server, "small:1.5b")
        turn(place, server, "other:3b")
        assert ways(server)[-1] == "native"


def test_a_large_model_keeps_native_calls_and_salvage(place: Path) -> None:
    with ScriptedServer([WRITTEN, {"text": "It subtracts."}]) as server:
        turn(place, server, "large:70b")
        assert ways(server) == ["native", "native"]


def test_an_example_in_an_answer_is_no_failed_call(place: Path) -> None:
    text = 'For example:\n```json\n{"name": "read", "arguments": {"path": "calc.py"}}\n```\nThat is how.'
    with ScriptedServer([{"text": text}]) as server:
        turn(place, server, "small:1.5b")
        assert ModelMemory(place / "home", server.url).dialect("small:1.5b") == ""


def test_settings_come_before_what_was_found_out(tmp_path: Path) -> None:
    url = "http://127.0.0.1:1/v1"
    ModelMemory(tmp_path, url).keep("m", "guided")
    own = {"m": ModelSection(dialect="native")}
    assert dialect_of(Config(), tmp_path, url, "m") == "guided"
    assert dialect_of(Config(), tmp_path, url, "other") == "auto"
    assert (
        dialect_of(Config(provider=ProviderSection(dialect="react-xml")), tmp_path, url, "m") == "react-xml"
    )
    assert (
        dialect_of(Config(provider=ProviderSection(dialect="guided", models=own)), tmp_path, url, "m")
        == "native"
    )
    assert ModelMemory(tmp_path, "http://127.0.0.1:2/v1").dialect("m") == "guided"  # one host, another port
    assert ModelMemory(tmp_path, "http://elsewhere/v1").dialect("m") == ""


def test_a_file_that_cannot_be_read_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "models.json").write_text("{nonsense")
    memory = ModelMemory(tmp_path, "http://127.0.0.1:1/v1")
    assert memory.dialect("m") == ""
    memory.keep("m", "guided")
    assert ModelMemory(tmp_path, "http://127.0.0.1:1/v1").dialect("m") == "guided"


@pytest.mark.parametrize(
    ("name", "small"),
    [
        ("qwen2.5-coder:1.5b", True),
        ("Qwen2.5-Coder-1.5B-Instruct-Q4_K_M", True),
        ("org/llama3.2:3b", True),
        ("qwen3-coder-30b-a3b", False),
        ("llama-3.3-70b", False),
        ("gpt-5.5", False),
        ("gemma-2-2b-it", True),
    ],
)
def test_small_models_by_name(name: str, small: bool) -> None:
    assert is_small(name) is small
