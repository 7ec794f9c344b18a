"""`--model local:PATH`: a GGUF file served by a child process, which ends with coder, however that ends."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from coder.config.distribution import install_line
from coder.config.models import LOCAL_FILE, dialect_of, tokenizer_of, window_for
from coder.config.providers import Provider, resolve_provider, wire_of
from coder.config.schema import Config, ProviderSection
from coder.engine.sdk import create_agent_session
from coder.protocol.events import AnyEvent, ModelProgress
from kit.driving import Project
from kit.local_model import FakeLibrary, gguf

ANSWER = {"text": "It is a shop."}


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def wait_for(what: str, true: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def test_a_file_answers_with_no_key_and_no_server(project: Project, tmp_path: Path) -> None:
    library = FakeLibrary(tmp_path / "library", [ANSWER])
    model = gguf(tmp_path / "big-7b.gguf")
    done = project.coder("--once", "what is this?", "--model", f"local:{model}", env=library.environ)
    assert done.returncode == 0, done.stderr
    assert "It is a shop." in done.stdout
    assert library.params["path"] == str(model)
    assert library.params["hostnames"] == ["127.0.0.1"]
    assert library.params["n_parallel"] == 1
    assert is_gone(library.pid)
    (request,) = library.requests
    (key,) = library.params["api_keys"]
    assert len(key) == 32
    assert request["headers"]["authorization"] == f"Bearer {key}"
    names = {tool["function"]["name"] for tool in request["body"]["tools"]}
    assert names == {"read", "glob", "grep", "write", "edit", "bash", "todowrite"}, "its window is small"


def test_the_fetched_model_is_spoken_to_in_its_dialect(project: Project, tmp_path: Path) -> None:
    library = FakeLibrary(tmp_path / "library", [{"text": json.dumps({"do": "done", "answer": "A shop."})}])
    gguf(project.home / ".coder" / "models" / LOCAL_FILE)
    done = project.coder("--once", "what is this?", "--model", "local", env=library.environ)
    assert (done.returncode, done.stdout.strip()) == (0, "A shop.")
    assert "response_format" in library.requests[0]["body"]


def test_loading_is_shown_as_progress(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = FakeLibrary(tmp_path / "library", [ANSWER], loading=0.5)
    monkeypatch.setenv("PYTHONPATH", library.environ["PYTHONPATH"])
    seen: list[AnyEvent] = []
    model = f"local:{gguf(tmp_path / 'model-7b.gguf')}"

    async def ask() -> str:
        session = create_agent_session(
            cwd=project.cwd, environ={**project.environ(), "CODER_MODEL": model}, on_event=seen.append
        )
        async with session:
            return (await session.run_turn("hello")).final_text

    assert asyncio.run(ask()) == "It is a shop."
    assert next(event.stage for event in seen if isinstance(event, ModelProgress)) == "loading"
    assert is_gone(library.pid)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks into /proc")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("loading", [False, True])
def test_the_child_ends_with_coder(
    project: Project, tmp_path: Path, number: signal.Signals, loading: bool
) -> None:
    slow = {"text": "never said " * 50, "delay": 5.0, "chunk": 1}
    library = FakeLibrary(tmp_path / "library", [slow], loading=600 if loading else 0)
    model = f"local:{gguf(tmp_path / 'model-7b.gguf')}"
    coder = project.started("--once", "hello", "--model", model, url="", env=library.environ)
    try:
        ready = (lambda: library.pid) if loading else (lambda: library.requests)
        wait_for("the child", ready)
        os.kill(coder.pid, number)
        coder.wait(60)
        wait_for("the end of the child", lambda: is_gone(library.pid))
    finally:
        coder.kill()
        coder.communicate()


@pytest.mark.parametrize(
    ("told", "sentence"),
    [
        ({"missing": True}, install_line("local")),
        ({"fails": "unknown architecture"}, "could not be loaded: unknown architecture"),
    ],
)
def test_what_cannot_be_served_is_said_in_a_sentence(
    project: Project, tmp_path: Path, told: dict[str, object], sentence: str
) -> None:
    library = FakeLibrary(tmp_path / "library", [], **told)
    model = f"local:{gguf(tmp_path / 'model-7b.gguf')}"
    done = project.coder("--once", "hello", "--model", model, env=library.environ)
    assert done.returncode == 1
    assert sentence in done.stdout + done.stderr


def test_what_is_no_model_is_said_in_a_sentence(project: Project, tmp_path: Path) -> None:
    text = project.write("notes.gguf", "not a model")
    for model, sentence in (
        ("local", "`coder local` fetches one"),
        (f"local:{tmp_path}/none.gguf", "There is no file"),
        (f"local:{text}", "is not a GGUF file"),
    ):
        done = project.coder("--once", "hello", "--model", model)
        assert done.returncode == 1
        assert sentence in done.stdout + done.stderr, model


def test_a_child_that_died_is_started_again(project: Project, tmp_path: Path) -> None:
    library = FakeLibrary(tmp_path / "library", [{"text": "Again."}], dies=1)
    model = f"local:{gguf(tmp_path / 'model-7b.gguf')}"
    done = project.coder("--once", "hello", "--model", model, env=library.environ)
    assert "Again." in done.stdout, done.stderr
    assert len(library.requests) == 2


def of(model: str, **environ: str) -> Provider:
    return resolve_provider(Config(provider=ProviderSection(model=model)), environ)


def test_whose_model_a_name_is() -> None:
    """`local` is ours, unless an address is set: a server may have a model of that name."""
    keyed = of("gpt-5.5", OPENAI_API_KEY="sk-x")
    served = of("local", CODER_BASE_URL="http://127.0.0.1:1/v1")
    assert of("local", OPENAI_API_KEY="sk-x").name == "local"
    assert of("local", OPENAI_API_KEY="sk-x").api_key == ""
    assert wire_of(of("local"), "local") == "local"
    assert wire_of(keyed, "local") == "local"
    assert wire_of(keyed, "local:/m.gguf") == "local"
    assert wire_of(served, "local") == "chat"
    assert wire_of(served, "local:/m.gguf") == "local"


def test_what_is_known_of_a_local_model(tmp_path: Path) -> None:
    config = Config()
    assert window_for(config, "local") == 16_384
    assert tokenizer_of("local") == tokenizer_of("qwen2.5")
    assert tokenizer_of("local:/models/Llama-3.1-8B.gguf") == "llama3"
    assert dialect_of(config, tmp_path, "", "local") == "guided"
    assert dialect_of(config, tmp_path, "", "local:/m/qwen2.5-0.5b.gguf") == "guided"
    assert dialect_of(config, tmp_path, "", "local:/m/qwen2.5-7b.gguf") == "auto"
