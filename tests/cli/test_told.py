"""What programs and records are told: tokens, how a session ended, which variable held a refused key."""

from __future__ import annotations

import json

import pytest

from coder.context.conversation import TokenCounter
from kit import ScriptedServer
from kit.driving import Project

REFUSED = {"status": 401, "body": {"error": {"message": "no"}}}
TEXT = "Antidisestablishmentarianism, 反对者, and so on."


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize("variable", ["CODER_API_KEY", "OPENAI_API_KEY", "MISTRAL_API_KEY"])
def test_a_refused_key_is_named_by_its_variable(project: Project, variable: str, status: int) -> None:
    base = variable.replace("API_KEY", "BASE_URL")
    with ScriptedServer([{**REFUSED, "status": status}]) as server:
        env = {variable: "sk-a-key-of-mine", base: server.url, "CODER_MODEL": "m"}
        done = project.coder("--once", "hi", env=env)
    assert done.returncode == 1
    assert f"Check {variable}, {base}." in done.stderr
    assert "sk-a-key" not in done.stderr


def test_a_refused_key_of_the_settings_is_named_with_its_file(project: Project) -> None:
    with ScriptedServer([REFUSED]) as server:
        project.configure(provider={"api_key": "sk-a-key-of-mine", "base_url": server.url, "model": "m"})
        done = project.coder("--once", "hi")
    assert "provider.api_key (" in done.stderr
    assert "config.json" in done.stderr
    assert "CODER_API_KEY" not in done.stderr


def test_a_missing_key_is_said_to_be_missing(project: Project) -> None:
    with ScriptedServer([REFUSED]) as server:
        done = project.coder("--once", "hi", url=server.url)
    assert "wants an API key (401)" in done.stderr
    assert "CODER_API_KEY" in done.stderr


@pytest.mark.parametrize(
    ("name", "vocabulary"),
    [
        ("gpt-4o", "o200k_base"),
        ("gpt-4o-mini-2024-07-18", "o200k_base"),
        ("gpt-4", "cl100k_base"),
        ("gpt-3.5-turbo", "cl100k_base"),
        ("cl100k_base", "cl100k_base"),
        ("Qwen/Qwen2.5-Coder-7B-Instruct", "qwen3"),
    ],
)
def test_the_name_of_a_model_is_a_vocabulary(name: str, vocabulary: str) -> None:
    assert TokenCounter(name).count(TEXT) == TokenCounter(vocabulary).count(TEXT)


def test_the_message_is_counted_by_the_chosen_vocabulary(project: Project) -> None:
    usage = {"prompt_tokens": 777, "completion_tokens": 5, "total_tokens": 782}
    with ScriptedServer([{"text": TEXT, "usage": usage}]) as server:
        done = project.coder("--once", TEXT, "--tokenizer-model", "gpt-4", url=server.url)
    assert done.returncode == 0, done.stderr
    count = TokenCounter("cl100k_base").count(TEXT)
    assert project.of_type("turn_start")[0]["meta"]["tokens"] == {"prompt": count}
    tokens = project.of_type("assistant")[-1]["meta"]["tokens"]
    assert (tokens["prompt"], tokens["completion"], tokens["source"]) == (777, 5, "provider")
    assert tokens["local"]["completion"] == count
    assert tokens["local"]["prompt"] > 500  # system prompt and tools are in it
    assert "estimated" not in tokens["local"]


def test_without_one_the_local_count_is_an_estimate_and_says_so(project: Project) -> None:
    with ScriptedServer([{"text": TEXT}]) as server:
        project.coder("--once", "hi", url=server.url)
    assert project.of_type("assistant")[0]["meta"]["tokens"]["local"]["estimated"] is True


def test_the_end_of_a_session_tells_what_it_was(project: Project) -> None:
    with ScriptedServer([{"text": "hello"}]) as server:
        project.coder("--once", "hi", "--mode", "plan", url=server.url)
    start, end = project.of_type("session_start")[0]["meta"], project.of_type("session_end")[0]["meta"]
    assert (end["mode"], end["operating_mode"], end["turns"]) == ("once", "plan", 1)
    assert end["config"] == start["config"]
    assert end["config"]["model"] == "scripted"
    assert end["config"]["cwd"] == str(project.cwd.resolve())
    assert "read" in end["config"]["tools"]
    assert end["tokens"]["total"] > 0


def test_chunks_of_stream_json_have_a_time(project: Project) -> None:
    with ScriptedServer([{"reasoning": "hm", "text": "hello"}]) as server:
        lines = project.coder("--once", "hi", "--output", "stream-json", url=server.url).stdout.splitlines()
    events = [json.loads(line) for line in lines]
    chunks = [event for event in events if event["type"] in ("assistant_chunk", "thought_chunk")]
    assert {event["type"] for event in chunks} == {"assistant_chunk", "thought_chunk"}
    session = project.of_type("session_start")[0]["session_id"]
    for event in chunks:
        assert event["ts"].endswith("Z")
        assert event["session_id"] == session
