"""How each Claude is asked to think, or not to, and what is done where it refuses that."""

from __future__ import annotations

import json

import msgspec
import pytest

from coder.protocol.messages import Message, tool_call
from kit.wire_exchange import TURN, conversation, exchange, exchange_at_origin, message_of, request_of


@pytest.mark.parametrize(
    ("model", "effort", "thinking"),
    [
        ("claude-opus-5", None, {"type": "adaptive", "display": "summarized"}),
        ("claude-opus-5", "none", {"type": "disabled"}),
        ("claude-opus-4-6", "none", None),
        ("claude-sonnet-4-5", "none", None),
        ("claude-sonnet-4-5", None, None),
        ("claude-sonnet-4-5", "low", {"type": "enabled", "budget_tokens": 4096}),
        ("claude-opus-4-20250514", "max", {"type": "enabled", "budget_tokens": 30_720}),
        ("claude-opus-4-6", "low", {"type": "adaptive", "display": "summarized"}),
        ("claude-3-5-haiku-latest", "high", None),
        ("glm-5", None, None),
    ],
)
def test_each_claude_thinks_in_its_way(model: str, effort: str | None, thinking: object) -> None:
    request = msgspec.structs.replace(request_of("messages"), model=model, reasoning_effort=effort)
    _, sent = exchange("messages", [{"text": "ok"}], request)
    assert sent[0].json.get("thinking") == thinking


ALWAYS = (
    '"thinking.type.disabled" is not supported for this model. Use "thinking.type.adaptive" and '
    '"output_config.effort" to control thinking behavior.'
)
BETWEEN = 'To turn thinking off on this model, send "thinking": {"type": "between_tools"}.'


@pytest.mark.parametrize(
    ("message", "thinking", "config"),
    [
        (BETWEEN, {"type": "between_tools"}, None),
        (ALWAYS, {"type": "adaptive", "display": "summarized"}, {"effort": "low"}),
    ],
)
def test_a_claude_that_cannot_be_told_not_to_think_thinks_little(
    message: str, thinking: dict[str, str], config: dict[str, str] | None
) -> None:
    refusal = {"status": 400, "body": {"error": {"type": "invalid_request_error", "message": message}}}
    none, high = (request_of("messages", reasoning_effort=effort) for effort in ("none", "high"))
    _, sent = exchange("messages", [refusal, *[{"text": "ok"}] * 3], none, none, high)
    said = [(one.json.get("thinking"), one.json.get("output_config")) for one in sent]
    adaptive = {"type": "adaptive", "display": "summarized"}
    assert said == [({"type": "disabled"}, None), *[(thinking, config)] * 2, (adaptive, {"effort": "high"})]


BOUND = (
    "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different "
    "conversation. Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to "
    '"drop_block". That setting requires the `thinking-binding-controls-2026-08-01` value in the '
    "`anthropic-beta` header."
)


@pytest.mark.parametrize("refused_again", [False, True])
def test_reasoning_is_kept_where_only_what_precedes_it_has_changed(refused_again: bool) -> None:
    """As after a compaction, or with the tools of a server that has come since."""
    (first,), _ = exchange("messages", [TURN])
    refusal = {"status": 400, "body": {"error": {"message": BOUND}}}
    script = [*[refusal] * (1 + refused_again), {"text": "a"}, {"text": "b"}]
    _, sent = exchange_at_origin("messages", message_of(first), script, times=2)
    drops = [one.json["thinking"].get("block_binding") for one in sent]
    betas = [one.headers.get("anthropic-beta") for one in sent]
    drop, beta = {"prefix_mismatch_behavior": "drop_block"}, "thinking-binding-controls-2026-08-01"
    if refused_again:
        assert (drops, betas) == ([None, drop, None, None], [None, beta, None, None])
    else:
        assert (drops, betas) == ([None, drop, drop], [None, beta, beta])
    own = ["U0lHTkVE" in json.dumps(one.json) for one in sent]
    assert own == [True, True, *[not refused_again] * (len(sent) - 2)]


def test_calls_of_another_model_are_answered_without_a_thinking_budget() -> None:
    answer = Message(role="assistant", content="", tool_calls=[tool_call("c1", "read", "{}")])
    request = msgspec.structs.replace(
        request_of("messages", *conversation(answer)),
        model="claude-sonnet-4-5",
        reasoning_effort="high",
    )
    _, sent = exchange("messages", [{"text": "ok"}], request)
    assert "thinking" not in sent[0].json
