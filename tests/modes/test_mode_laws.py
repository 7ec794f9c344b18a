"""Laws of reading, binding and rendering: no text makes them fail, and what is quoted comes back."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from modeshop import Shop, switch, target

from coder.base.text import double_quoted as quote
from coder.extend.modes.discover import Found
from coder.extend.modes.parse import parse_mode
from coder.extend.modes.render import command_line
from coder.extend.modes.template import ModeFault, filled, parse_template
from coder.extend.modes.values import bind, words_of
from coder.protocol.modes import ModeDefinition, ModeScope, ModeVariable

SCOPE = ModeScope("global", "(global)", "/")
MODE = ModeDefinition(
    mode_id="/m",
    display_name="m",
    scope=SCOPE,
    path="",
    variables=[
        ModeVariable("a"),
        ModeVariable("b", shortcuts=["-b", "b="]),
        ModeVariable("c", type="boolean", shortcuts=["-c"]),
    ],
)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
SHELLISH = st.text(st.sampled_from("ab -='\"\\$`(){};&|<>#*~!\t"), max_size=12)
YAMLISH = st.text(st.sampled_from("ab: -#\"'[]{},|>&*!?~\n0\\%@"), max_size=40)
HEADER_LINES = [
    r"",
    r"kind: persistent",
    r"variables:",
    r"  - name: a",
    r"- name: a",
    r"    default: x",
    r"""    enum: [a, 'b', "c"]""",
    r"    shortcuts:",
    r"      - -t",
    r"    - x",
    r"description: it's: odd",
    r'description: "a # b" # c',
    r"x: 'it''s'",
    r"# comment",
    r"  # comment",
    r"a: b #c",
    r"a: b#c",
    r"k:",
    r"k: ''",
    r"   - deep: 1",
    r"z: [a, b,]",
    r"t: a:b",
    r'p: "^\d+$"',
    r'p: "\n"',
    r"n: -1",
    r"m: - x",
    r"q: ?a",
    r"u: 日本",
    r"  key: value",
    r"e: [ ]",
    r"f: [a b, c-d]",
    r"",
]
LINES = st.lists(st.sampled_from(HEADER_LINES), max_size=10)


@given(TEXT)
@example('"')
@example("\\")
def test_no_line_breaks_the_parser(line: str) -> None:
    with contextlib.suppress(ModeFault):
        assert set(bind(MODE, line).values) <= {"a", "b", "c"}


@given(st.lists(TEXT, max_size=6))
def test_quoted_values_come_back_as_they_were(values: list[str]) -> None:
    words, rest = words_of(" ".join(quote(value) for value in values))
    assert ([word.text for word in words], rest) == (values, "")


@given(st.one_of(TEXT, st.sampled_from(["-b", "b=", "b=x", "-c"])), TEXT)
def test_a_quoted_value_is_never_a_shortcut(first: str, second: str) -> None:
    assert bind(MODE, f"{quote(first)} {quote(second)}").values == {"a": first, "b": second}
    assert bind(MODE, f"-b {quote(second)} {quote(first)}").values == {"a": first, "b": second}
    assert bind(MODE, f"b={quote(second)} {quote(first)}").values == {"a": first, "b": second}


@given(TEXT)
def test_no_body_breaks_the_template(body: str) -> None:
    with contextlib.suppress(ModeFault):
        assert parse_template(body) == parse_template(body)


@given(st.one_of(TEXT, YAMLISH), TEXT)
def test_no_file_breaks_the_reader(header: str, body: str) -> None:
    mode = parse_mode(Found("/m", "m.md", SCOPE), f"---\n{header}\n---\n{body}")
    assert mode.definition.mode_id == "/m"


@settings(max_examples=60)
@given(
    SHELLISH,
    st.sampled_from(["printf %s {{v}}", 'printf %s "{{v}}"', "printf %s '{{v}}'", 'printf %s x"{{v}}"y']),
)
def test_the_shell_gets_exactly_the_value(value: str, command: str) -> None:
    if value.startswith("-") and 'x"' not in command:
        with pytest.raises(ModeFault):
            command_line(filled(command, 1), {"v": value}, "/m")
        return
    line = command_line(filled(command, 1), {"v": value}, "/m")
    ran = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True)
    assert ran.stdout == (f"x{value}y" if command.endswith("y") else value)


VALUES = st.dictionaries(st.sampled_from(["x", "y"]), TEXT.filter(lambda text: "\0" not in text))
STEPS = st.lists(st.dictionaries(st.sampled_from(["/p", "/q"]), VALUES, max_size=2), max_size=4)


@pytest.mark.thorough
@settings(max_examples=60)
@given(STEPS, VALUES, VALUES)
def test_rendering_depends_on_the_state_alone(
    history: list[dict[str, dict[str, str]]], p: dict[str, str], q: dict[str, str]
) -> None:
    """However a state was reached, its block is the same bytes."""
    with tempfile.TemporaryDirectory() as directory:
        shop = Shop(Path(directory))
        for name in "pq":
            shop.persistent(name, "{{x}} and {{y}}", "variables:\n  - name: x\n  - name: y\n    default: d\n")
        wandered, straight = shop.keeper("Base."), shop.keeper("Base.")
        for step in history:
            assert switch(wandered, *(target(name, **values) for name, values in step.items())).errors == []
        switch(wandered)
        for keeper in (wandered, straight):
            assert switch(keeper, target("/p", **p), target("/q", **q)).errors == []
        assert wandered.user_instructions == straight.user_instructions
        assert wandered.record().modes == straight.record().modes
