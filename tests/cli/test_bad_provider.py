"""A provider that is missing, dead, wrong or unwilling: a sentence, and a turn that ended."""

from __future__ import annotations

import socket

import pytest
from cli_kit import run, sentence

from kit import Chaos, ScriptedServer
from kit.driving import Project


def test_no_provider_names_the_variables_and_the_demo(project: Project) -> None:
    done = run(project, "--once", "hi")
    assert done.returncode == 2
    text = done.stderr.decode()
    assert all(name in text for name in ("CODER_API_KEY", "CODER_BASE_URL", "coder demo"))
    assert project.logs() == []


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def test_a_dead_address(project: Project) -> None:
    port = free_port()
    done = run(project, "--once", "hi", url=f"http://127.0.0.1:{port}/v1")
    assert done.returncode == 1
    assert str(port) in done.stderr.decode()
    assert project.of_type("turn_end")[0]["meta"]["status"] == "error"


def test_a_host_that_has_no_address(project: Project) -> None:
    done = run(project, "--once", "hi", url="http://no-such-host.invalid/v1")
    assert done.returncode == 1
    assert "no-such-host.invalid" in done.stderr.decode()


WRONG_ADDRESSES = ["ftp://127.0.0.1/v1", "127.0.0.1", "http://", "http://127.0.0.1:99999/v1", "http://a b/v1"]


@pytest.mark.parametrize("url", WRONG_ADDRESSES)
def test_an_address_that_is_none(project: Project, url: str) -> None:
    done = run(project, "--once", "hi", url=url)
    assert done.returncode == 2
    assert "CODER_BASE_URL" in sentence(done)


def test_a_web_page_instead_of_an_answer(project: Project) -> None:
    with Chaos([{"fault": "html"}] * 20) as server:
        done = run(project, "--once", "hi", url=server.url)
    assert done.returncode == 1
    assert "web page" in done.stderr.decode()
    assert "<body" not in done.stderr.decode()


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_refused_key_or_model(project: Project, status: int) -> None:
    body = {"error": {"message": "you shall not pass"}}
    with ScriptedServer([{"status": status, "body": body}] * 3) as server:
        done = run(project, "--once", "hi", url=server.url)
        assert len(server.chats) == 1  # nothing that a second attempt would mend
    assert done.returncode == 1
    text = done.stderr.decode()
    assert "you shall not pass" in text
    assert str(status) in text
