"""Lines and messages: the same bytes give the same messages, however they arrive, and bounds hold."""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coder.base.rpc import METHOD_NOT_FOUND, LineSplitter, RpcError
from coder.extend.mcp import jsonrpc
from coder.extend.mcp.jsonrpc import MAX_MESSAGE, Waiting
from coder.extend.mcp.shapes import McpError

LIMIT = 20
LINES = st.lists(st.binary(max_size=40).map(lambda data: data.replace(b"\n", b"")), max_size=12)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


@given(LINES, st.lists(st.integers(0, 10_000), max_size=30))
def test_any_chunking_gives_the_same_lines(lines: list[bytes], places: list[int]) -> None:
    splitter = LineSplitter(LIMIT)
    data = b"".join(line + b"\n" for line in lines)
    found = [line for chunk in cut(data, places) for line in splitter.feed(chunk)]
    assert found == [line if len(line) <= LIMIT else None for line in lines]


def test_a_line_past_the_bound_is_not_kept_while_it_grows() -> None:
    splitter = LineSplitter(LIMIT)
    for _ in range(1000):
        assert splitter.feed(b"x" * 10) == []
    assert sum(map(len, splitter._held)) <= LIMIT
    assert splitter.feed(b"\nnext\n") == [None, b"next"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.thorough
@given(st.lists(st.dictionaries(st.text(max_size=5), JSON, max_size=3), max_size=5), st.data())
def test_messages_survive_the_wire(messages: list[dict[str, Any]], data: st.DataObject) -> None:
    wire = b"".join(jsonrpc.encode_message(message) + b"\n" for message in messages)
    places = data.draw(st.lists(st.integers(0, 10_000), max_size=10))
    splitter = LineSplitter(MAX_MESSAGE)
    lines = [line for chunk in cut(wire, places) for line in splitter.feed(chunk)]
    assert [message for line in lines if line is not None for message in jsonrpc.decode(line)] == messages


@given(st.binary(max_size=60))
def test_whatever_comes_is_messages_or_nothing(data: bytes) -> None:
    assert all(isinstance(message, dict) for message in jsonrpc.decode(data))


def test_a_batch_is_several_and_half_a_character_no_reason_to_drop_a_message() -> None:
    assert jsonrpc.decode(b'[{"id":1},3,{"id":2}]') == [{"id": 1}, {"id": 2}]
    assert jsonrpc.decode(b'{"text":"\\ud83d"}') == [{"text": "?"}]
    assert jsonrpc.decode(b'{"text":"' + b"[" * 5000) == []
    assert jsonrpc.decode(b"Server listening on stdio") == []


def test_an_answer_is_a_result_or_an_error_or_a_fault() -> None:
    assert jsonrpc.result_of("s", {"id": 1, "result": {"a": 1}}) == {"a": 1}
    for wrong in ({"id": 1}, {"id": 1, "result": [1]}, {"id": 1, "error": "text"}):
        with pytest.raises(McpError, match="MCP server s"):
            jsonrpc.result_of("s", wrong)
    with pytest.raises(RpcError) as caught:
        jsonrpc.result_of("s", {"error": {"code": -1, "message": "two\nlines \x1b[31m" + "x" * 9999}})
    message = str(caught.value.message)
    assert caught.value.code == -1
    assert message.startswith("two lines ")
    assert "\x1b" not in message
    assert len(message) <= 500


class Nobody:
    """Is told nothing."""

    root = Path("/")

    def __init__(self) -> None:
        self.on_list_changed = lambda kind: None


def test_answers_find_who_waits_by_number_or_by_its_text() -> None:
    async def scenario() -> None:
        def heard(message: dict[str, Any]) -> None:
            assert jsonrpc.hear(message, waiting, Nobody()) is None

        waiting = Waiting()
        one, first = waiting.open()
        two, second = waiting.open()
        heard({"id": str(two), "result": {}})
        assert second.done()
        heard({"id": 99, "result": {}})
        heard({"id": True, "result": {}})
        heard({"id": [one], "result": {}})
        assert not first.done()
        waiting.end(McpError("mcp.closed", name="s"))
        assert isinstance(first.exception(), McpError)
        waiting.close(one)
        waiting.close(two)

    asyncio.run(scenario())


def test_what_a_server_may_ask_and_what_not(tmp_path: Path) -> None:
    def ask(method: str) -> dict[str, Any]:
        return jsonrpc.reply_to({"id": "x", "method": method}, tmp_path)

    assert ask("ping") == {"jsonrpc": "2.0", "id": "x", "result": {}}
    assert ask("roots/list")["result"] == {"roots": [{"uri": tmp_path.as_uri(), "name": tmp_path.name}]}
    assert "not supported" in ask("sampling/createMessage")["error"]["message"]
    assert "not supported" in ask("elicitation/create")["error"]["message"]
    assert ask("files/delete")["error"]["code"] == METHOD_NOT_FOUND
    json.dumps(ask("x\ny"))


def test_progress_is_one_line_however_it_is_told() -> None:
    assert jsonrpc.progress_text({"progress": 3, "total": 10, "message": "a\nb"}) == "3/10 a b"
    assert jsonrpc.progress_text({"progress": 0.5}) == "0.5"
    assert jsonrpc.progress_text({"progress": "many", "message": 7}) == ""
    assert jsonrpc.progress_text({"progress": 10**400, "total": 10**400, "message": "a"}) == "a"
    assert jsonrpc.progress_text({"progress": 3, "total": 10**400}) == "3"
