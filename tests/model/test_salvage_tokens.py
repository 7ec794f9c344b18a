"""Calls between the special tokens of open models, which a server passed on as text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coder.models.model import CallReady, Completed, TextDelta
from coder.models.salvage.hold import CallSalvager
from kit import text_of
from kit.salvage import READ_A, TOOLS, calls_in, chunks_of, required_there

PATH = '{"path": "a"}'
HARMONY = f"<|channel|>commentary to=functions.read <|constrain|>json<|message|>{PATH}<|call|>"
KIMI = (
    "<|tool_calls_section_begin|><|tool_call_begin|>functions.read:0<|tool_call_argument_begin|>"
    f"{PATH}<|tool_call_end|><|tool_calls_section_end|>"
)
DEEPSEEK = (
    f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>read<｜tool▁sep｜>{PATH}<｜tool▁call▁end｜>"
    "<｜tool▁calls▁end｜>"
)
DEEPSEEK_V3 = (
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>read\n"
    f"```json\n{PATH}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
)
DSML = (
    '<｜DSML｜tool_calls>\n<｜DSML｜invoke name="read">\n<｜DSML｜parameter name="path" string="true">a'
    "</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>"
)
GLM = "<tool_call>read\n<arg_key>path</arg_key>\n<arg_value>a</arg_value>\n</tool_call>"
MINIMAX = (
    '<minimax:tool_call>\n<invoke name="read">\n<parameter name="path">a</parameter>\n</invoke>\n'
    "</minimax:tool_call>"
)
# What open models write where a server does not parse it.
SPECIAL = [
    *(HARMONY, KIMI, DEEPSEEK, DEEPSEEK_V3, DSML, GLM, MINIMAX),
    f"<|start|>assistant{HARMONY}",
    f"<|channel|>analysis to=functions.read code<|message|>{PATH}<|call|>",
    f"<|start|>assistant to=functions.read<|channel|>commentary json<|message|>{PATH}<|call|>",
    f"<|channel|>analysis<|message|>{'Where is it? ' * 100}<|end|><|start|>assistant{HARMONY}",
    f"<|channel|>commentary<|message|>I look at it.<|end|><|start|>assistant{HARMONY}",
    KIMI.replace("<|tool_calls_section_begin|>", "").replace("<|tool_calls_section_end|>", ""),
    KIMI.replace("tool_calls_section", "tool_call_section"),
    KIMI.replace("functions.read:0", "read:12"),
    f"I look at it.{KIMI}",
    f"我先看一下。{KIMI}<|im_end|>",
    DEEPSEEK.replace("▁", "_").replace("｜", "|"),
    f"{DEEPSEEK}<｜end▁of▁sentence｜>",
    f"<think>\n{'It may be there. ' * 80}\n</think>\n\n{DEEPSEEK_V3}",
    DSML.replace("tool_calls", "function_calls"),
    DSML.replace("｜DSML｜", ""),
    f"I look.\n\n{DSML}",
    GLM.replace("\n", ""),
    f"\n{GLM}<|observation|>",
    GLM.replace("<arg_key>", "<arg_key>limit</arg_key>\n<arg_value>3</arg_value>\n<arg_key>"),
    GLM.replace("</tool_call>", "<arg_key>limit</arg_key>\n<arg_value>3</arg_value></tool_call>"),
    DSML.replace(
        "</｜DSML｜invoke>",
        '<｜DSML｜parameter name="limit" string="true">3</｜DSML｜parameter></｜DSML｜invoke>',
    ),
    f"{MINIMAX}[e~[",
    f"[TOOL_CALLS]read[CALL_ID]a1b2c3d4e[ARGS]{PATH}",
]


@pytest.mark.parametrize("size", [0, 1, 2, 5, 7, 16])
@pytest.mark.parametrize("text", SPECIAL)
def test_taken_as_a_call_and_never_shown(text: str, size: int) -> None:
    chunks = chunks_of(text, size)
    ((name, arguments),) = calls_in(chunks)
    assert (name, arguments["path"], arguments.get("limit", "3")) == ("read", "a", "3")
    end = chunks[-1]
    assert isinstance(end, Completed)
    assert (end.finish_reason, end.salvaged, end.raw) == ("tool_calls", True, text)
    shown = text_of(chunks)
    assert not any(part in shown for part in ("read", "path", "tool", "DSML", "commentary to", "[TOOL"))


@pytest.mark.parametrize("text", SPECIAL)
def test_special_tokens_may_be_cut_anywhere(text: str) -> None:
    whole = text_of(chunks_of(text))
    for at in range(1, len(text)):
        reading = CallSalvager(TOOLS, required_there(TOOLS))
        chunks = [out for part in (text[:at], text[at:]) for out in reading.take(TextDelta(part))]
        chunks += reading.take(Completed("stop"))
        ((name, arguments),) = calls_in(chunks)
        assert (name, arguments["path"]) == ("read", "a")
        assert text_of(chunks).rstrip() == whole.rstrip()


@pytest.mark.parametrize("size", [0, 1, 7])
@pytest.mark.parametrize("call", [HARMONY, KIMI, DEEPSEEK, DEEPSEEK_V3, DSML, GLM, MINIMAX])
@pytest.mark.parametrize(
    "around",
    [
        "Do not run this:\n{}",
        "For example:\n{}",
        "The server sends `{}` then.",
        "It is written as {}",
        "> {}",
        "- {}",
        "Should I run this? {}",
        "{}\nThat is how it is written.",
        "```python\n{}\n```",
        "<|channel|>analysis<|message|>Maybe {}",
    ],
)
def test_special_tokens_that_are_quoted_or_declined_are_shown(around: str, call: str, size: int) -> None:
    text = around.replace("{}", call)
    chunks = chunks_of(text, size)
    assert calls_in(chunks) == []
    assert text_of(chunks) == text


@pytest.mark.parametrize("call", [HARMONY, KIMI, DEEPSEEK, DEEPSEEK_V3, DSML, GLM, MINIMAX])
def test_special_tokens_with_another_name_or_no_arguments_are_no_call(call: str) -> None:
    for text in (call.replace("read", "fetch"), call.replace("path", "file")):
        chunks = chunks_of(text, 3)
        assert calls_in(chunks) == []
        assert text_of(chunks) == text


@pytest.mark.parametrize("size", [0, 1, 9])
@pytest.mark.parametrize(
    "text",
    [
        f"{HARMONY}<|start|>assistant{HARMONY.replace('read', 'list')}",
        KIMI.replace(
            "<|tool_calls_section_end|>",
            f"<|tool_call_begin|>functions.list:1<|tool_call_argument_begin|>{PATH}<|tool_call_end|>",
        ),
        DEEPSEEK.replace(
            "<｜tool▁calls▁end｜>", f"\n<｜tool▁call▁begin｜>list<｜tool▁sep｜>{PATH}<｜tool▁call▁end｜>"
        ),
        DSML.replace(
            "</｜DSML｜tool_calls>",
            '<｜DSML｜invoke name="list">\n<｜DSML｜parameter name="path" string="true">a'
            "</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>",
        ),
        f"{GLM}\n{GLM.replace('read', 'list')}",
        MINIMAX.replace(
            "</minimax:tool_call>",
            '<invoke name="list"><parameter name="path">a</parameter></invoke></minimax:tool_call>',
        ),
        f"[TOOL_CALLS]read[ARGS]{PATH}[TOOL_CALLS]list[ARGS]{PATH}",
    ],
)
def test_several_between_special_tokens(text: str, size: int) -> None:
    chunks = chunks_of(text, size)
    assert calls_in(chunks) == [READ_A, ("list", {"path": "a"})]
    assert text_of(chunks).strip() == ""


def test_values_that_say_what_they_are() -> None:
    text = (
        '<｜DSML｜invoke name="read"><｜DSML｜parameter name="path" string="true">\n 7 </｜DSML｜parameter>'
        '<｜DSML｜parameter name="limit" string="false">[1, {"a": null}]</｜DSML｜parameter></｜DSML｜invoke>'
    )
    assert calls_in(chunks_of(text, 5)) == [("read", {"path": "\n 7 ", "limit": [1, {"a": None}]})]


@pytest.mark.parametrize(
    ("call", "names"),
    [
        ("<tool_call>list</tool_call>", []),
        (
            "<tool_call>write\n<arg_key>path</arg_key>\n<arg_value>a</arg_value>\n"
            "<arg_key>content</arg_key>\n<arg_value>x = '</arg_value>'\n</arg_value>\n</tool_call>",
            ["path", "content"],
        ),
    ],
)
def test_what_glm_writes(call: str, names: list[str]) -> None:
    ((_, arguments),) = calls_in(chunks_of(call, 4))
    assert list(arguments) == names
    assert "content" not in names or arguments["content"] == "x = '</arg_value>'\n"


@pytest.mark.parametrize("call", [HARMONY, KIMI, DEEPSEEK, DEEPSEEK_V3, DSML, GLM, MINIMAX])
def test_special_tokens_that_the_output_limit_cut_are_told(call: str) -> None:
    text = call.replace("read", "bash").replace("path", "command")
    cut = text[: max(text.rfind('"a"') + 2, text.rfind(">a") + 2)]
    chunks = chunks_of(cut, 6, reason="length")
    (ready,) = [chunk for chunk in chunks if isinstance(chunk, CallReady)]
    assert ready.call.name == "bash"
    assert "output limit" in ready.fault
    assert text_of(chunks) == ""


def test_a_sentence_about_special_tokens_is_not_held_back() -> None:
    reading = CallSalvager(TOOLS, required_there(TOOLS))
    for said in (
        "a <|im_start|> b",
        "x < y",
        "the token <｜begin▁of▁sentence｜> is",
        "<|channel|>final<|message|>Yes",
    ):
        shown = "".join(text_of(list(reading.take(TextDelta(letter)))) for letter in said + ".")
        assert shown == said + "."


PARTS = [
    "<|channel|>",
    "commentary",
    "analysis",
    " to=functions.",
    "read",
    "<|message|>",
    PATH,
    "<|call|>",
    "<|end|>",
]
PARTS += [
    "<|start|>assistant",
    "<|tool_calls_section_begin|>",
    "<|tool_call_begin|>",
    ":0",
    "<|tool_call_end|>",
]
PARTS += [
    "<|tool_call_argument_begin|>",
    "<｜tool▁call▁begin｜>",
    "<｜tool▁sep｜>",
    "```json\n",
    "\n```",
    "</think>",
]
PARTS += ["<tool_call>", "<arg_key>path</arg_key>", "<arg_value>", "</arg_value>", "</tool_call>", "<think>"]
PARTS += [
    '<｜DSML｜invoke name="read">',
    "</｜DSML｜invoke>",
    "<minimax:tool_call>",
    "\n",
    "I look.",
    "<",
    "｜",
    "|",
]


@given(st.lists(st.sampled_from(PARTS), max_size=12).map("".join), st.integers(1, 9))
def test_parts_of_special_forms_in_any_order(text: str, size: int) -> None:
    whole, cut = chunks_of(text), chunks_of(text, size)
    assert calls_in(whole) == calls_in(cut)
    if not calls_in(whole):
        assert text_of(whole) == text_of(cut) == text
