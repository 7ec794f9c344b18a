"""`/model` names a model of another provider, or none at all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from coder.config.providers import other_provider, resolve_provider
from coder.config.schema import Config, ProviderSection
from coder.protocol.events import CommandDone
from kit import Chaos, Recorded, ScriptedServer
from kit.driving import Driver, Project, drive, of

KEYS = {"ANTHROPIC_API_KEY": "sk-ant-1234567", "OPENAI_API_KEY": "sk-openai-1234567"}


def said(driver: Driver) -> list[str]:
    return [event.text for event in of(driver.seen, CommandDone)]


@pytest.fixture
def both(project: Project, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Driver, Chaos, Chaos]]:
    """A session with a Claude model, where another provider is set up too."""
    plain = project.environ

    def run(*inputs: str, script: Sequence[Any] = ({"text": "ok"},) * 3) -> tuple[Driver, Chaos, Chaos]:
        with Chaos(script, wire="messages") as claude, Chaos(script) as other:
            urls = {"ANTHROPIC_BASE_URL": claude.url.removesuffix("/v1"), "OPENAI_BASE_URL": other.url}
            own = {**urls, **KEYS, "CODER_MODEL": "claude-opus-5"}
            monkeypatch.setattr(project, "environ", lambda url="", **more: plain("", **own, **more))
            return drive(project, "", inputs), claude, other

    return run


def models(server: Chaos) -> list[str]:
    return [request.json["model"] for request in server.requests if request.method == "POST"]


def test_a_model_is_reached_by_its_own_provider(both: Callable[..., tuple[Driver, Chaos, Chaos]]) -> None:
    driver, claude, other = both("hi", "/model gpt-5.5", "hi", "/model claude-opus-5", "hi")
    assert models(claude) == ["claude-opus-5", "claude-opus-5"]
    assert models(other) == ["gpt-5.5"]
    assert "reached by openai" in said(driver)[0]
    assert "reached by anthropic" in said(driver)[1]
    keys = {str(request.headers) for request in claude.requests}
    assert not any("sk-openai" in one for one in keys)
    assert not any("sk-ant" in str(request.headers) for request in other.requests)


@pytest.mark.parametrize(
    "provider", [{"wire": "messages"}, {"headers": {"Authorization": "Bearer abcdefgh"}}]
)
def test_settings_for_one_provider_go_to_no_other(
    project: Project, both: Callable[..., tuple[Driver, Chaos, Chaos]], provider: dict[str, Any]
) -> None:
    project.configure(provider=provider)
    driver, claude, other = both("/model gpt-5.5", "hi")
    assert "coder --model gpt-5.5 --resume" in said(driver)[0]
    assert (models(claude), models(other)) == (["claude-opus-5"], [])


@pytest.mark.parametrize(
    ("more", "model", "name"),
    [
        ({}, "gpt-5.5", "openai"),
        ({}, "claude-haiku-5", None),
        ({}, "unheard-of", None),
        ({}, "gemini-3-pro", None),
        ({"CODER_BASE_URL": "https://api.anthropic.com/v1"}, "gpt-5.5", None),
        ({"CODER_API_KEY": "sk-ant-1"}, "gpt-5.5", None),
    ],
)
def test_which_provider_a_name_belongs_to(more: dict[str, str], model: str, name: str | None) -> None:
    environ = {**KEYS, **more}
    config = Config(provider=ProviderSection(model="claude-opus-5"))
    current = resolve_provider(config, environ)
    assert current.name == "anthropic"
    found = other_provider(config, environ, current, model)
    assert (found.name if found else None) == name


class Lists(ScriptedServer):
    """A server with 30 models."""

    async def answer(self, request: Recorded, writer: asyncio.StreamWriter) -> None:
        if request.method == "GET":
            listed = [{"id": "scripted" if at == 25 else f"m{at}"} for at in range(30)]
            await self.play({"body": {"data": listed}}, request, writer)
        else:
            await super().answer(request, writer)


def test_alone_it_lists_some_models_and_marks_the_one_in_use(project: Project) -> None:
    with Lists([]) as server:
        lines = said(drive(project, server.url, ["/model"]))[0].splitlines()
    assert lines[:3] == ["Model: scripted", "  scripted *", "  m0"]
    assert len(lines) == 22
    assert "10 more" in lines[-1]


def test_without_a_list_it_names_the_model_alone(project: Project) -> None:
    assert said(drive(project, "http://127.0.0.1:1/v1", ["/model"])) == ["Model: scripted"]
