"""Tool arguments as models write them: repaired where one reading is possible, refused where not."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coder.models.arguments import call_ready, read_arguments


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("", {}),
        ("  \n", {}),
        ("null", {}),
        ('```json\n{"path": "a"}\n```', {"path": "a"}),
        ('```\n{"path": "a",}\n```', {"path": "a"}),
        ('{"a": [1, 2,], }', {"a": [1, 2]}),
        ("{'path': 'a \"b\" c'}", {"path": 'a "b" c'}),
        ('{"text": "one\ntwo\tthree\x01"}', {"text": "one\ntwo\tthree\x01"}),
        ('{"a": {"b": [true', {"a": {"b": [True]}}),
        ('{"path": "a"', {"path": "a"}),
        ('{"a": True, "b": False, "c": None}', {"a": True, "b": False, "c": None}),
        ('"{\\"path\\": \\"a\\"}"', {"path": "a"}),
        ('{}{"path": "a"}', {"path": "a"}),
        ('{"path": "a"}{"path": "a"}', {"path": "a"}),
        ('{path: "a"}', {"path": "a"}),
        (r'{"pattern": "\d+\.py",}', {"pattern": r"\d+\.py"}),
        ('{"e": "\\ud83d\\ude00",}', {"e": "😀"}),
    ],
)
def test_repairs(text: str, meant: dict[str, object]) -> None:
    arguments, fault = read_arguments(text, "read")
    assert fault == ""
    assert json.loads(arguments) == meant


@pytest.mark.parametrize("name", ["read", "read_file", "Grep", "todoread"])
def test_a_number_at_the_end_is_taken_where_the_tool_only_looks(name: str) -> None:
    arguments, fault = read_arguments('{"path": "a", "limit": 12', name)
    assert (json.loads(arguments), fault) == ({"path": "a", "limit": 12}, "")
    assert "cut off" in read_arguments('{"path": "a", "limit": 12', name, "length")[1]


def test_a_number_at_the_end_may_be_half_of_one() -> None:
    arguments, fault = read_arguments('{"command": "make", "timeout": 12', "bash")
    assert arguments == ""
    assert "not usable: a closing bracket is missing; the text ends after 33 characters. The" in fault


def test_good_json_is_left_as_it_was_written() -> None:
    assert read_arguments('{ "a":1 }', "read") == ('{ "a":1 }', "")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"content": "say "hi" there"}', "character 19"),
        ('{"path": "a", "content": "unfini', "no end"),
        ('{"path": "a", ', "ends after"),
        ('{"path": ', "missing"),
        ('[{"path": "a"}]', "a list"),
        ("17", "a number"),
        ('"just words"', "a text"),
        ("true", "a single word"),
        ('{"path": "a"}{"path": "b"}', "something follows"),
        ('{"path": "a"} and so on', "character 15"),
        ("{'a': 'it's'}", "not escaped"),
        ('{"a": NaN}', "value expected"),
        ('{"e": "\\ud83d"}', "surrogate"),
        ("[" * 500, "too deep"),
    ],
)
def test_what_is_ambiguous_is_a_fault_that_says_where(text: str, says: str) -> None:
    arguments, fault = read_arguments(text, "read")
    assert arguments == ""
    assert says in fault
    assert "`read`" in fault
    assert "JSON object" in fault


def test_a_cut_off_call_is_told_so_and_never_completed() -> None:
    _, fault = read_arguments('{"path": "a"', "write", "length")
    assert "cut off" in fault
    assert read_arguments('{"path": "a"}', "write", "length")[1] == ""


def test_a_faulty_call_keeps_the_text_of_the_model() -> None:
    ready = call_ready("c1", "read", "{oops", "stop")
    assert ready.fault
    assert ready.call.function.arguments == "{oops"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(st.text(max_size=5), json_values, max_size=4)


@given(st.text(alphabet="{}[]\"',:\\untrfle0123.-+ \n\tabc`", max_size=60))
def test_reading_never_raises_and_gives_an_object_or_a_fault(text: str) -> None:
    arguments, fault = read_arguments(text, "t")
    assert bool(fault) != isinstance(json.loads(arguments or "null"), dict)


@pytest.mark.thorough
@given(objects.filter(lambda value: "\\\\" not in json.dumps(value)))
def test_raw_control_characters_and_trailing_commas_change_nothing(value: dict[str, object]) -> None:
    text = json.dumps(value, ensure_ascii=False)
    assert json.loads(read_arguments(text, "t")[0]) == value
    spoiled = text.replace("\\n", "\n").replace("\\t", "\t")
    spoiled = spoiled[:-1] + (",}" if value else "}")
    arguments, fault = read_arguments(spoiled, "t")
    assert fault == ""
    assert json.loads(arguments) == value


@pytest.mark.thorough
@given(objects, st.data())
def test_a_cut_never_becomes_something_else(value: dict[str, object], choose: st.DataObject) -> None:
    """What a repair of a cut text gives is a part of what was meant: no value in it is altered."""
    text = json.dumps(value, ensure_ascii=False)
    arguments, fault = read_arguments(text[: choose.draw(st.integers(1, len(text)))], "t")
    assert fault or _part_of(json.loads(arguments), value)


def _part_of(part: object, whole: object) -> bool:
    if isinstance(part, dict) and isinstance(whole, dict):
        return all(key in whole and _part_of(value, whole[key]) for key, value in part.items())
    if isinstance(part, list) and isinstance(whole, list):
        return len(part) <= len(whole) and all(map(_part_of, part, whole))
    return type(part) is type(whole) and part == whole
