"""The key by which a service finds a conversation in its prompt cache."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from coder.models.make import Wire, make_wire
from coder.models.wires import chat_completions
from kit import Chaos, Recorded, collect
from kit.wire_exchange import exchange, request_of


def keys_of(sent: list[Recorded]) -> list[str | None]:
    return [one.json.get("prompt_cache_key") or one.headers.get("x-grok-conv-id") for one in sent]


@pytest.mark.parametrize(
    ("wire", "table"), [("responses", ""), ("chat", "_KEYED"), ("chat", "_KEYED_BY_HEADER")]
)
def test_the_requests_of_a_conversation_have_one_key(
    monkeypatch: pytest.MonkeyPatch, wire: str, table: str
) -> None:
    """By which the service finds it in its cache."""
    ids = ["20261118-a-1", "20261118-a-2", "20261118-b-1", ""]
    requests = [request_of(wire, prompt_id=one) for one in ids]

    async def run(server: Chaos) -> None:
        model = make_wire(cast(Wire, wire), server.url)
        if table:
            monkeypatch.setattr(chat_completions, table, [model.origin])
        for request in requests:
            await collect(model, request)
        await model.close()

    with Chaos([{"text": "ok"}] * 4, wire=wire) as server:
        asyncio.run(run(server))
        keys = keys_of(server.requests)
    assert keys[0] == keys[1]
    assert None not in keys[:3]
    assert keys[3] is None
    assert len(set(keys)) == 3
    if wire == "chat":  # a server of another make may refuse it
        _, sent = exchange("chat", [{"text": "ok"}], requests[0])
        assert keys_of(sent) == [None]


def test_a_server_that_does_not_know_the_key_is_not_sent_it_again() -> None:
    refusal = {"status": 400, "body": {"error": {"message": "Unknown parameter: 'prompt_cache_key'."}}}
    _, sent = exchange(
        "responses", [refusal, *[{"text": "ok"}] * 2], *[request_of("responses", prompt_id="a-1")] * 2
    )
    assert ["prompt_cache_key" in one.json for one in sent] == [True, False, False]
