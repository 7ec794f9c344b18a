"""Lists of tools, as servers of all kinds give them: pages, names, descriptions and schemas within bounds."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coder.extend.mcp.client import McpError, RemoteTool
from coder.extend.mcp.listing import clean_schema
from kit.mcp_client import connected, kit

Json = dict[str, Any]
KEYS = st.sampled_from(
    ["type", "properties", "required", "$ref", "anyOf", "oneOf", "allOf", "items", "$defs", "a", "b"]
)
REFERENCES = st.sampled_from(["#", "#/$defs/a", "#/properties/a", "#/$defs/none", "https://elsewhere/x"])
ANYTHING = st.recursive(
    st.none() | st.integers() | st.sampled_from(["object", "string", "a", "b"]) | REFERENCES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=30,
)


def listed(root: Path, tools: Any, **told: Any) -> list[RemoteTool]:
    async def scenario() -> list[RemoteTool]:
        async with connected(root, tools=tools, **told) as client:
            return client.connection.tools

    return asyncio.run(scenario())


def fault(root: Path, **told: Any) -> str:
    with pytest.raises(McpError) as caught:
        listed(root, told.pop("tools", []), **told)
    return str(caught.value)


@pytest.mark.parametrize("page", [1000, 50])
def test_a_thousand_tools_on_any_number_of_pages(tmp_path: Path, page: int) -> None:
    tools = listed(tmp_path, 1000, page=page)
    assert [tool.name for tool in tools] == [f"tool{n}" for n in range(1000)]


def test_pages_that_never_end_are_a_fault(tmp_path: Path) -> None:
    assert "without an end" in fault(tmp_path, cursor="again")


def test_a_list_that_is_none_is_a_fault(tmp_path: Path) -> None:
    assert "list of tools that is none" in fault(tmp_path, hello={}, tools={})


def test_tools_that_cannot_be_named_are_left_out_and_counted(tmp_path: Path) -> None:
    good: Json = {"name": "good", "description": "first", "inputSchema": {"type": "object"}}
    odd = ["", "  ", "two\nlines", "x" * 129, "\x1b[31m", None, 3]
    raw = [good, {**good, "description": "second"}, *({**good, "name": name} for name in odd), "text", None]

    async def scenario() -> None:
        async with connected(tmp_path, tools=raw) as client:
            assert [(tool.name, tool.description) for tool in client.connection.tools] == [("good", "first")]
            assert client.connection.left_out == len(raw) - 1

    asyncio.run(scenario())


def test_what_a_tool_says_of_itself_is_bounded(tmp_path: Path) -> None:
    (tool,) = listed(
        tmp_path,
        [
            {
                "name": "任意 name",
                "title": "A\nTitle",
                "description": "d" * 1_000_000,
                "annotations": {"readOnlyHint": True, "title": "other"},
            }
        ],
    )
    assert tool.name == "任意 name"
    assert tool.title == "A Title"
    assert tool.read_only_hint
    assert len(tool.description) < 7_000
    assert tool.description.endswith("[… 994,000 more characters left out]")
    assert tool.parameters == {"type": "object", "properties": {}}


def test_a_server_without_tools_is_no_fault(tmp_path: Path) -> None:
    hello: Json = {"capabilities": {"resources": {}}}
    assert listed(tmp_path, [], hello=hello, on={"tools/list": "error"}) == []
    assert "told to fail" in fault(tmp_path, on={"tools/list": "error"})


# schemas


def test_an_ordinary_schema_stays_as_it_is() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"$ref": "#/$defs/B"}},
        "required": ["a"],
        "additionalProperties": False,
        "$defs": {"B": {"type": "object", "properties": {"c": {"type": "integer"}}}},
    }
    assert clean_schema(schema) == schema


@pytest.mark.parametrize("schema", [None, [], "object", 3, True])
def test_what_is_no_schema_takes_anything(schema: object) -> None:
    assert clean_schema(schema) == {"type": "object", "properties": {}}


def test_a_choice_at_the_top_becomes_one_object() -> None:
    one = {"type": "object", "properties": {"a": {}, "b": {}}, "required": ["a", "b"]}
    two = {"type": "object", "properties": {"a": {}, "c": {}}, "required": ["a", "c"]}
    either = clean_schema({"anyOf": [one, two]})
    assert set(either) == {"type", "properties", "required"}
    assert set(either["properties"]) == {"a", "b", "c"}
    assert either["required"] == ["a"]
    assert set(clean_schema({"allOf": [one, two]})["required"]) == {"a", "b", "c"}


def test_a_reference_at_the_top_is_followed_and_one_elsewhere_dropped() -> None:
    schema = {"$ref": "#/$defs/In", "$defs": {"In": {"properties": {"x": {"$ref": "https://evil/x"}}}}}
    cleaned = clean_schema(schema)
    assert cleaned["properties"] == {"x": {}}
    assert "$ref" not in json.dumps(cleaned)


def test_a_huge_schema_becomes_an_outline() -> None:
    field = {"type": "string", "description": "d" * 2000, "enum": ["v" * 50] * 100}
    schema = {"type": "object", "properties": {f"f{n}": field for n in range(100)}, "required": ["f1"]}
    cleaned = clean_schema(schema)
    assert len(json.dumps(cleaned)) < 40_000
    assert set(cleaned["properties"]) == set(schema["properties"])
    assert cleaned["properties"]["f1"]["type"] == "string"
    assert cleaned["required"] == ["f1"]
    vast = {"type": "object", "properties": {f"{n}" * 100: {} for n in range(2000)}}
    assert clean_schema(vast) == {"type": "object", "properties": {}}


def test_a_schema_that_goes_round_or_deep_ends() -> None:
    loop: Json = {"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#"}] * 20}}}
    assert clean_schema(loop)["type"] == "object"
    deep: Json = {"type": "object"}
    for _ in range(300):
        deep = {"type": "object", "properties": {"x": deep}}
    assert len(json.dumps(clean_schema(deep))) < 5_000
    choice: Json = {"type": "object"}
    for _ in range(400):
        choice = {"anyOf": [choice]}
    assert clean_schema(choice) == {"type": "object", "properties": {}}


@given(ANYTHING)
def test_whatever_comes_out_is_the_schema_of_an_object(schema: object) -> None:
    cleaned = clean_schema(schema)
    assert cleaned["type"] == "object"
    assert isinstance(cleaned["properties"], dict)
    assert not {"anyOf", "oneOf", "allOf", "$ref", "not", "enum"} & set(cleaned)
    assert set(cleaned.get("required", [])) <= set(cleaned["properties"])
    assert "elsewhere" not in json.dumps(references(cleaned))


def references(node: object) -> list[str]:
    if isinstance(node, list):
        return [found for one in node for found in references(one)]
    if not isinstance(node, dict):
        return []
    own = [node["$ref"]] if isinstance(node.get("$ref"), str) else []
    return own + [found for one in node.values() for found in references(one)]


def test_the_kit_server_is_stdlib_only() -> None:
    """It must start in an instant: `-I -S` has no packages."""
    assert kit(Path(), protocol="legacy").argv[1:3] == ["-I", "-S"]
