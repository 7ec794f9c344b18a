"""Calls that a model wrote into its text: which are taken as calls, which are not, and what is shown."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coder.models.model import CallReady, Completed, ReasoningDelta, Restarted, TextDelta
from coder.models.salvage.hold import CallSalvager
from coder.protocol.messages import tool_call
from kit import text_of
from kit.salvage import READ_A, TOOLS, calls_in, chunks_of, required_there

CALL = '{"name": "read", "arguments": {"path": "a"}}'
TAKEN = [
    CALL,
    f"```json\n{CALL}\n```",
    f"```\n{CALL}\n```\n",
    f"```json {CALL} ```",
    f"~~~json\n{CALL}\n~~~",
    f"```json\n{CALL}",
    f"```tool_call\n{CALL}\n```",
    f"```xml\n<tool_call>{CALL}</tool_call>\n```",
    f"<tool_call>\n{CALL}\n</tool_call>",
    f"<tool_call>\n{CALL}",
    f"<tool_call>\n{CALL}\n<tool_call>",
    f"<TOOL_CALL>{CALL}</TOOL_CALL>",
    f"<function_call>{CALL}</function_call>",
    f"<tools>\n{CALL}\n</tools>",
    f"<tool_calls>[{CALL}]</tool_calls>",
    '<function=read>{"path": "a"}</function>',
    "<function=read>\n<parameter=path>\na\n</parameter>\n</function>",
    "<tool_call>\n<function=read>\n<parameter=path>\na\n</parameter>\n</function>\n</tool_call>",
    '<function name="read">{"path": "a"}</function>',
    '<invoke name="read"><parameter name="path">a</parameter></invoke>',
    "<read><path>a</path></read>",
    "<read>\n<path>a</path>\n</read>",
    f"[TOOL_CALLS] [{CALL}]",
    '[TOOL_CALLS]read[ARGS]{"path": "a"}',
    '[TOOL_CALLS]read{"path": "a"}',
    '<|python_tag|>{"name": "read", "parameters": {"path": "a"}}',
    f"functools[{CALL}]",
    f"{CALL}<|im_end|>",
    f"<think>\nI could write {{x}} here.\n</think>\n\n{CALL}",
    '{"tool": "read", "tool_input": {"path": "a"}}',
    '{"tool": "read", "parameters": {"path": "a"}}',
    '{"tool": "read", "input": {"path": "a"}}',
    '{"tool": "read", "args": {"path": "a"}}',
    '{"tool": "read", "path": "a"}',
    '{"tool_name": "read", "arguments": "{\\"path\\": \\"a\\"}"}',
    '{"action": "read", "action_input": {"path": "a"}}',
    '{"thought": "look first", "action": "read", "action_input": {"path": "a"}}',
    '{"type": "function", "function": {"name": "read", "arguments": "{\\"path\\": \\"a\\"}"}}',
    '{"function": {"name": "read", "arguments": {"path": "a"}}}',
    '{"tool_calls": [{"id": "1", "function": {"name": "read", "arguments": {"path": "a"}}}]}',
    '{"function_call": {"name": "read", "arguments": {"path": "a"}}}',
    '{"arguments": {"path": "a"}, "name": "read"}',
    '{"name": "functions.read", "arguments": {"path": "a"}}',
    "{'name': 'read', 'arguments': {'path': 'a',}}",
    '{\n  "name": "read",\n  "arguments": {\n    "path": "a"\n  }\n}\n',
    f"I will read the file first.\n\n```json\n{CALL}\n```",
    f"To fix this I need to see it: {CALL}",
    f"我先看一下文件。\n\n```json\n{CALL}\n```",
    f"**Action:** {CALL}",
    f"<think>\nhm\n</think>{CALL}",
    f"so I look</think>{CALL}",
    f"I can't use grep here, so I will look into it:\n{CALL}",
    f"I ran the tests and they failed.\n{CALL}",
    f"Is it there? Let me look:\n{CALL}",
]


@pytest.mark.parametrize("size", [0, 1, 7])
@pytest.mark.parametrize("text", TAKEN)
def test_taken_as_a_call(text: str, size: int) -> None:
    chunks = chunks_of(text, size)
    name, arguments = calls_in(chunks)[0]
    assert (name.removeprefix("functions."), arguments) == READ_A
    end = chunks[-1]
    assert isinstance(end, Completed)
    assert (end.finish_reason, end.salvaged, end.raw) == ("tool_calls", True, text)


@pytest.mark.parametrize("size", [1, 2, 5, 16])
@pytest.mark.parametrize(
    "text", [text for text in TAKEN if not text.startswith(("To fix", "**Action", "so I", "<think>", "func"))]
)
def test_its_json_is_never_shown(text: str, size: int) -> None:
    assert "read" not in text_of(chunks_of(text, size)).replace("read the file", "")


SHOWN = [
    f"Here is an example:\n```json\n{CALL}\n```",
    f"A tool call looks like this:\n\n{CALL}",
    f"例如：\n```json\n{CALL}\n```",
    f"```json\n{CALL}\n```\nThat is how a file is read.",
    f"{CALL}\n\nThis reads `a`.",
    f"<tool_call>{CALL}</tool_call> is what it sends.",
    '{"name": "no_such_tool", "arguments": {"path": "a"}}',
    '{"name": "read", "arguments": {}}',
    '{"name": "read", "version": "1.0.0", "dependencies": {}}',
    '{"name": "list", "description": "lists", "parameters": {"type": "object", "properties": {}}}',
    '{"name": "list", "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}}',
    f"```python\ncall = {CALL}\n```",
    f"```python\n{CALL}\n```",
    f"{'A long answer about something else. ' * 30}\n\n```json\n{CALL}\n```",
    "The old form was `<read><path>a</path></read>`, which nobody uses.",
    '{"users": [{"name": "read"}]}',
    "[link](http://example.com) and [ ] a box",
    "<div>\n  <p>text</p>\n</div>",
    "{}",
    "[]",
    "`read` reads, `<b>` is bold, {x} is a set",
    '{"tool": "read"',
    "if (a < b) { return c; }",
    f"The tool is invoked with {CALL}",
    f"The log contains:\n> {CALL}",
    f"> The log contains: {CALL}",
    f"| call |\n|---|\n| {CALL}",
    f"- {CALL}",
    f"1. {CALL}",
    f"<!--\n{CALL}",
    f"Do not run this:\n```json\n{CALL}\n```",
    f"**Never run a.py like this:**\n{CALL}",
    f"I refuse to execute the following:\n```json\n{CALL}\n```",
    f"Earlier I already ran:\n{CALL}",
    f"Should I run this?\n{CALL}",
    f"Look:\n{CALL}\nDo not run this:\n{CALL}",
    f"不要运行：\n{CALL}",
    f"<think>maybe {CALL}",
    f"<think>maybe\n{CALL}",
]


@pytest.mark.parametrize("size", [0, 1, 7])
@pytest.mark.parametrize("text", SHOWN)
def test_not_taken_and_shown_as_it_is(text: str, size: int) -> None:
    chunks = chunks_of(text, size)
    assert text_of(chunks) == text
    assert calls_in(chunks) == []
    assert chunks[-1] == Completed("stop")


@pytest.mark.parametrize(
    "asked",
    [
        "show me what a tool call looks like",
        "Give me an example of a function call in JSON",
        "工具调用的格式是什么样的？",
    ],
)
def test_who_asks_to_see_a_call_is_shown_it(asked: str) -> None:
    assert text_of(chunks_of(CALL, 5, asked=asked)) == CALL


def test_who_works_on_tool_calls_is_served() -> None:
    assert calls_in(chunks_of(CALL, asked="fix the parser of tool calls in src/parse.py")) == [READ_A]


@pytest.mark.parametrize("size", [0, 1, 9])
@pytest.mark.parametrize(
    "text",
    [
        '[{"name": "read", "arguments": {"path": "a"}}, {"name": "list", "arguments": {}}]',
        '{"name": "read", "arguments": {"path": "a"}}\n{"name": "list", "arguments": {}}',
        '{"name": "read", "arguments": {"path": "a"}}; {"name": "list", "arguments": {}}',
        "<tool_call>" + CALL + '</tool_call>\n<tool_call>{"name": "list", "arguments": {}}</tool_call>',
        f'First:\n```json\n{CALL}\n```\nThen:\n```json\n{{"name": "list", "arguments": {{}}}}\n```',
    ],
)
def test_several_in_their_order(text: str, size: int) -> None:
    assert calls_in(chunks_of(text, size)) == [READ_A, ("list", {})]


def test_a_list_with_anything_else_in_it_is_none() -> None:
    text = f'[{CALL}, {{"name": "other", "arguments": {{}}}}]'
    assert calls_in(chunks_of(text)) == []


def test_triple_quoted_strings() -> None:
    code = 'def f():\n    """Say it."""\n    print("a\\n")\n'.replace('"""Say it."""', "'say it'")
    text = '```json\n{"name": "write", "arguments": {"path": "f.py", "content": """' + code + '"""}}\n```'
    assert calls_in(chunks_of(text, 4)) == [("write", {"path": "f.py", "content": code})]


def test_a_long_call_is_held_back_and_an_example_is_not_for_long() -> None:
    long = json.dumps({"name": "write", "arguments": {"path": "a", "content": "line\n" * 10_000}})
    assert text_of(chunks_of(long, 50)) == ""
    reading = CallSalvager(TOOLS, required_there(TOOLS))
    said = f"```json\n{CALL}\n```\n" + "Then the words that say what it was for. " * 4
    shown = "".join(text_of(list(reading.take(TextDelta(letter)))) for letter in said)
    assert len(shown) > len(said) - 80  # although the answer has not ended


def test_a_call_of_its_own_wins() -> None:
    reading = CallSalvager(TOOLS, required_there(TOOLS))
    own = CallReady(tool_call("c1", "list", "{}"))
    chunks = [*reading.take(TextDelta(CALL)), *reading.take(own), *reading.take(Completed("tool_calls"))]
    assert chunks == [TextDelta(CALL), own, Completed("tool_calls")]


def test_a_restart_forgets_what_was_held() -> None:
    reading = CallSalvager(TOOLS, required_there(TOOLS))
    chunks = [*reading.take(TextDelta(CALL)), *reading.take(Restarted()), *reading.take(TextDelta("words"))]
    assert [*chunks, *reading.take(Completed("stop"))] == [Restarted(), TextDelta("words"), Completed("stop")]


def test_reasoning_passes() -> None:
    reading = CallSalvager(TOOLS, required_there(TOOLS))
    assert list(reading.take(ReasoningDelta("{hm"))) == [ReasoningDelta("{hm")]


def test_a_call_that_the_output_limit_cut_is_told_and_not_run() -> None:
    cut = '```json\n{"name": "write", "arguments": {"path": "a", "content": "half of'
    chunks = chunks_of(cut, 6, reason="length")
    (ready,) = [chunk for chunk in chunks if isinstance(chunk, CallReady)]
    assert "output limit" in ready.fault
    assert text_of(chunks) == ""


def test_without_tools_nothing_is_read() -> None:
    reading = CallSalvager([], required_there([]))
    assert list(reading.take(TextDelta(CALL))) == [TextDelta(CALL)]


@given(st.text(alphabet="{}[]<>`\"':,\n abname/=tool_call|", max_size=80), st.integers(1, 9))
def test_nothing_is_lost_and_cuts_make_no_difference(text: str, size: int) -> None:
    whole, cut = chunks_of(text), chunks_of(text, size)
    assert calls_in(whole) == calls_in(cut)
    if not calls_in(whole):
        assert text_of(whole) == text_of(cut) == text
