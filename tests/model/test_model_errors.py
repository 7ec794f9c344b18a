"""What a person reads when a model cannot be asked: what happened, and what to do."""

from __future__ import annotations

import asyncio
import time
from email.utils import formatdate
from typing import Any

import pytest

from coder.base.http.errors import retry_after_seconds
from coder.models import errors
from coder.models.make import make_wire
from coder.models.model import ModelError
from coder.models.wires.chat_completions import ChatCompletions
from coder.protocol.events import Failed
from kit import Chaos, ask
from kit.driving import Project, drive, of

KEY = "sk-very-secret-0123456789"


def failure(url: str, timeout_ms: int = 5000) -> ModelError:
    async def run() -> None:
        model = ChatCompletions(url, KEY, timeout_ms=timeout_ms, environment={})
        try:
            async for _ in model.stream(ask(model="big-model")):
                pass
        finally:
            await model.close()

    with pytest.raises(ModelError) as caught:
        asyncio.run(run())
    assert KEY not in str(caught.value)
    assert "\n" not in str(caught.value)
    return caught.value


def refused(**turn: Any) -> ModelError:
    with Chaos([turn]) as server:
        return failure(server.url)


def error_body(message: str, **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, **more}}


def test_a_dead_address() -> None:
    error = failure("http://127.0.0.1:1/v1")
    assert str(error).startswith("Cannot reach http://127.0.0.1:1/v1: connection refused.")
    assert "CODER_BASE_URL" in str(error)
    assert (error.kind, error.retryable) == ("unreachable", True)


def test_a_server_without_a_list_of_models() -> None:
    told = str(errors.of_status(404, {}, b"not found", errors.RequestInfo("http://x/v2")))
    names = "CODER_MODEL, CODER_BASE_URL"
    assert told.startswith(
        f"http://x/v2 has no list of models (404). Name one, or check the address: {names}."
    )


def test_an_unknown_host() -> None:
    error = failure("http://no-such-host.invalid/v1")
    assert "could not be found" in str(error)
    assert error.kind == "unreachable"


def test_an_address_that_is_none() -> None:
    error = failure("localhost:8080/v1")
    assert "http://" in str(error)
    assert not error.retryable


def test_a_key_that_cannot_be_sent() -> None:
    async def run() -> None:
        async for _ in ChatCompletions("http://127.0.0.1:1/v1", "sk-“quoted”").stream(ask()):
            pass

    with pytest.raises(ModelError, match="CODER_API_KEY") as caught:
        asyncio.run(run())
    assert "quoted" not in str(caught.value)
    assert caught.value.kind == "auth"


@pytest.mark.parametrize("header", ["X-Api-Key", "api-key", "Authorization", "x_api_key"])
def test_keys_in_headers_are_not_shown_either(header: str) -> None:
    async def run(url: str) -> None:
        model = ChatCompletions(url, headers={header: "hush-hush-1", "X-Team": "core-team"})
        try:
            async for _ in model.stream(ask()):
                pass
        finally:
            await model.close()

    body = error_body("core-team: hush-hush-1 is wrong")
    with Chaos([{"status": 401, "body": body}]) as server, pytest.raises(ModelError) as caught:
        asyncio.run(run(server.url))
    assert "core-team: [key] is wrong" in str(caught.value)


@pytest.mark.parametrize(
    ("headers", "url"),
    [
        ({"Authorization": "Bearer hush-hush-1"}, "http://HOST/v1"),
        ({"x_api_key": "hush-hush-1"}, "http://HOST/v1"),
        ({}, "http://bob:hush-hush-1@HOST/v1"),
        ({}, "http://hush%2Dhush%2D1@HOST/v1"),
        ({}, "http://HOST/v1?key=hush-hush-1"),
    ],
)
def test_no_secret_is_told_or_recorded(project: Project, headers: dict[str, str], url: str) -> None:
    project.configure(provider={"headers": headers})
    with Chaos([{"status": 401, "body": error_body("bad key: hush-hush-1")}]) as server:
        host = server.url.partition("//")[2].removesuffix("/v1")
        driver = drive(project, url.replace("HOST", host), ["hi"])
    assert "bad key" in of(driver.seen, Failed)[0].text
    assert "hush" not in repr(driver.seen)
    assert "hush" not in project.logs()[0].read_text()


@pytest.mark.parametrize(
    ("names", "says"),
    [
        ([], "CODER_BASE_URL"),
        (["ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"], "ANTHROPIC_BASE_URL"),
        (["OPENAI_API_KEY"], "Check your network."),
    ],
)
@pytest.mark.parametrize("answer", [None, {"fault": "html"}, {"body": {"hello": 1}}])
def test_what_an_address_is_set_by_is_named(names: list[str], says: str, answer: Any) -> None:
    async def run(url: str) -> None:
        model = make_wire("chat", url, KEY, names=names)
        try:
            async for _ in model.stream(ask()):
                pass
        finally:
            await model.close()

    with Chaos([answer or {}]) as server, pytest.raises(ModelError) as caught:
        asyncio.run(run(server.url if answer else "http://127.0.0.1:1/v1"))
    assert says in str(caught.value)
    assert ("CODER_" in str(caught.value)) == (not names)


@pytest.mark.parametrize(
    ("status", "body", "kind", "retryable", "says"),
    [
        (401, error_body("bad key " + KEY), "auth", False, "CODER_API_KEY"),
        (403, error_body("not yours"), "auth", False, "not yours"),
        (404, error_body("no such model"), "bad_request", False, "CODER_MODEL"),
        (400, error_body("max 8 tokens", code="context_length_exceeded"), "context", False, "too long"),
        (400, error_body("the request exceeds the available context size"), "context", False, "too long"),
        (
            429,
            error_body("x", type="insufficient_quota", code="insufficient_quota"),
            "quota",
            False,
            "billing",
        ),
        (402, error_body("pay"), "quota", False, "quota"),
        (429, error_body("slow"), "quota", True, "429"),
        (408, "", "server", True, "408"),
        (409, "", "server", True, "409"),
        (500, "oops", "server", True, "oops"),
        (529, error_body("overloaded"), "server", True, "overloaded"),
        (400, error_body("bad temperature"), "bad_request", False, "bad temperature"),
        (422, {"detail": [{"msg": "wrong"}]}, "bad_request", False, "wrong"),
        (400, [{"error": {"message": "in a list"}}], "bad_request", False, "in a list"),
        (502, "<html><head><title>Bad Gateway</title></head>", "server", True, "Bad Gateway"),
    ],
)
def test_refusals(status: int, body: Any, kind: str, retryable: bool, says: str) -> None:
    error = refused(status=status, body=body)
    assert (error.kind, error.retryable) == (kind, retryable)
    assert says in str(error)


def test_the_providers_words_are_bounded_and_harmless() -> None:
    error = refused(status=400, body=error_body("\x1b[31mred\x1b[0m\r\n" + "x" * 5000))
    assert len(str(error)) < 700
    assert str(error).isprintable()


def test_a_web_page_instead_of_json() -> None:
    with Chaos([{"fault": "html"}]) as server:
        error = failure(server.url)
    assert "web page (Sign in)" in str(error)
    assert error.kind == "protocol"


def test_json_that_is_no_answer() -> None:
    assert "not a model's answer" in str(refused(body={"hello": 1}))


def test_an_error_inside_the_stream() -> None:
    with Chaos([{"fault": "error_midway", "text": "x" * 100}]) as server:
        error = failure(server.url)
    assert "the engine fell over" in str(error)
    assert error.retryable


@pytest.mark.parametrize(
    ("error", "kind", "retryable"),
    [
        ({"message": "slow", "code": 429}, "quota", True),
        ({"message": "slow", "type": "rate_limit_error"}, "quota", True),
        ({"message": "bad", "type": "invalid_request_error"}, "bad_request", False),
        ({"message": "long", "code": "context_length_exceeded"}, "context", False),
        ({"message": "pay", "type": "billing_error"}, "quota", False),
        ({"message": "busy", "type": "overloaded_error"}, "server", True),
        ("it broke", "server", True),
    ],
)
def test_kinds_of_errors_inside_the_stream(error: Any, kind: str, retryable: bool) -> None:
    found = refused(body={"error": error})
    assert (found.kind, found.retryable) == (kind, retryable)


def test_silence() -> None:
    with Chaos([{"fault": "silent"}]) as server:
        error = failure(server.url, timeout_ms=100)
    assert (error.kind, error.retryable) == ("timeout", True)
    assert "timeout_ms" in str(error)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"x-ratelimit-reset": "12"}, 12.0),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "1m2.5s"}, 62.5),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "20ms"}, 0.02),
        ({"x-ratelimit-remaining-tokens": "5", "x-ratelimit-reset-tokens": "1m"}, None),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "soon"}, None),
        ({"retry-after": "later"}, None),
        ({"retry-after": "-3"}, None),
        ({}, None),
    ],
)
def test_how_long_a_server_asks_to_wait(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_seconds(429, headers) == (pytest.approx(seconds) if seconds is not None else None)


def test_moments_become_waits() -> None:
    date = formatdate(time.time() + 30, usegmt=True)
    waits = [
        retry_after_seconds(503, {"retry-after": date}),
        retry_after_seconds(429, {"x-ratelimit-reset": str(time.time() + 30)}),
        retry_after_seconds(429, {"x-ratelimit-reset": str((time.time() + 30) * 1000)}),
    ]
    assert all(wait is not None and 20 < wait <= 31 for wait in waits)
    assert retry_after_seconds(503, {"x-ratelimit-reset": "5"}) is None


@pytest.mark.parametrize("body", ["[" * 50_000, '{"error": {"message": "no", "code": "²²²"}}'])
@pytest.mark.parametrize("status", [200, 400, 500])
def test_no_refusal_is_too_odd(body: str, status: int) -> None:
    error = refused(status=status, body=body)
    assert str(error)
