"""What a call gives: text for the model, kinds and sizes for the record, a fault for what is no result."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coder.extend.mcp.offers import read_result
from coder.extend.mcp.shapes import CallOutcome, McpError

Json = dict[str, Any]
PIXEL = "A" * 16_460  # Base64 of 12,345 bytes


def read(*content: Any, **more: Any) -> CallOutcome:
    return read_result("s", "t", {"content": list(content), **more})


def text(words: str) -> Json:
    return {"type": "text", "text": words}


def test_text_is_the_answer() -> None:
    outcome = read(text("one"), text("第二"))
    assert outcome == CallOutcome(
        "one\n第二", True, [{"type": "text", "bytes": 3}, {"type": "text", "bytes": 6}]
    )


def test_an_error_of_the_tool_is_an_outcome() -> None:
    assert not read(text("no such file"), isError=True).ok


def test_images_and_sounds_are_told_of_and_not_shown() -> None:
    outcome = read(
        {"type": "image", "data": PIXEL, "mimeType": "image/png"},
        {"type": "audio", "data": "AAA=", "mimeType": ""},
    )
    assert outcome.text == "[image/png, 12,345 bytes, not shown]\n[audio, 2 bytes, not shown]"
    assert outcome.parts[0] == {"type": "image", "mime": "image/png", "bytes": 12_345}


def test_resources_and_links() -> None:
    outcome = read(
        {"type": "resource", "resource": {"uri": "file:///a", "text": "inside"}},
        {"type": "resource", "resource": {"uri": "file:///b", "blob": "AAAA", "mimeType": "image/gif"}},
        {"type": "resource_link", "uri": "file:///c", "name": "c", "description": "the\nthird"},
    )
    assert outcome.text.splitlines() == [
        "[resource file:///a]",
        "inside",
        "[resource file:///b, image/gif, 3 bytes, not shown]",
        "[resource link: c file:///c the third]",
    ]


def test_structure_is_shown_only_where_there_is_no_text() -> None:
    assert read(text("said"), structuredContent={"a": 1}).text == "said"
    assert read(structuredContent={"a": 1}).text == '{\n  "a": 1\n}'
    assert read_result("s", "t", {"structuredContent": [1]}).text == "[\n  1\n]"


def test_a_structure_nested_without_end_is_no_trouble() -> None:
    nested: Any = []
    for _ in range(100_000):
        nested = [nested]
    assert "nested too deeply" in read(structuredContent=nested).text


def test_nothing_is_said_to_be_nothing() -> None:
    assert read().text == "(no content)"


def test_a_kind_of_content_to_come_is_named() -> None:
    assert "hologram" in read({"type": "hologram", "data": "x"}).text


def test_results_are_bounded() -> None:
    outcome = read(text("a" * 3_000_000), text("the end"))
    assert len(outcome.text) < 1_000_100
    assert outcome.text.endswith("the end")
    assert "characters left out" in outcome.text
    many = read(*[text("x")] * 600)
    assert len(many.parts) == 500
    assert many.text.endswith("[… 100 more parts left out]")


@pytest.mark.parametrize(
    "result",
    [
        {},
        {"content": "text"},
        {"content": ["text"]},
        {"content": [{"text": "no type"}]},
        {"content": [{"type": "text", "text": 3}]},
        {"content": [{"type": "image", "mimeType": "image/png"}]},
        {"content": [{"type": "resource", "resource": {"uri": "x"}}]},
        {"content": [], "resultType": "something else"},
    ],
    ids=str,
)
def test_what_is_no_result_is_a_fault(result: Json) -> None:
    with pytest.raises(McpError, match=r"does not follow|result"):
        read_result("s", "t", result)


def test_a_tool_that_wants_an_answer_cannot_have_one() -> None:
    with pytest.raises(McpError) as caught:
        read_result("s", "t", {"resultType": "input_required", "inputRequests": {"a": {}}})
    assert "wants an answer" in str(caught.value)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.text(max_size=9) | st.sampled_from(["text", "image", "complete"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "text", "data", "resource", "uri"]), inner, max_size=4)
    ),
)
FIELDS = st.sampled_from(["content", "isError", "resultType", "structuredContent"])


@given(st.dictionaries(FIELDS, ANYTHING))
def test_whatever_comes_is_an_outcome_or_a_fault(result: Json) -> None:
    try:
        outcome = read_result("s", "t", result)
    except McpError:
        return
    assert isinstance(outcome.text, str)
