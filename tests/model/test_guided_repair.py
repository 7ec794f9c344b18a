"""The guided dialect where a check fails, or a small model only copies what it sees."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from coder.models.guided.repair import at_fault, defined_in, functions_in, with_function, without_body
from kit import ScriptedServer
from kit.guided import CALC, FIXED, TESTS, block, said, shown, small_project, turn


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return small_project(tmp_path)


def test_a_function_that_came_back_unchanged_is_asked_for_without_its_body(directory: Path) -> None:
    """A small model that sees the mistake copies it."""
    text = (
        'import os\n\n\nclass Path:\n    def up(self, by=1):\n        """Further up."""\n        return -by\n'
    )
    (directory / "calc.py").write_text(text + "\n\nLAST = os.sep\n")
    new = 'import math\n\ndef up(self, by=1):\n    """Further up."""\n    return math.floor(by)\n'
    with ScriptedServer(said(block(text + "LAST = os.sep\n"), block(new), "Up it is.")) as server:
        result = turn(directory, server, "Path.up in calc.py goes down. Fix it.")
        asked = server.chats[1]["messages"]
    tools = [action["tool"] for step in result.steps for action in step.actions]
    assert tools.count("write") == 1  # the copy is not written
    told = asked[-1]["content"]
    assert '        """Further up."""\n        ...\n\n\nLAST = os.sep' in told
    assert "return -by" not in told
    assert told.endswith("Write the whole function Path.up anew, as the task says, as one code block.")
    assert [message["role"] for message in asked] == ["system", "user"]
    assert server.chats[1]["temperature"] == 0
    assert (directory / "calc.py").read_text() == (
        "import math\n" + text.replace("return -by", "return math.floor(by)") + "\n\nLAST = os.sep\n"
    )


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        ("def add(a, b):\n    return a + b\n", "def add(a, b):\n    return a + b\n"),
        ("    def add(a, b):\n        return a + b\n", "def add(a, b):\n    return a + b\n"),
        ("return a + b\n", "def add(a, b):\n    return a + b\n"),
        ("class Sums:\n    def add(a, b):\n        return a + b\n", "def add(a, b):\n    return a + b\n"),
        ("@cache\ndef add(a, b):\n    return a + b\n", "@cache\ndef add(a, b):\n    return a + b\n"),
        ("def add(a, b) return", "def add(a, b) return\n"),  # told as wrong afterwards
    ],
)
def test_a_function_takes_the_old_ones_place(answer: str, body: str) -> None:
    assert with_function(f"A = 1\n{CALC}B = 2\n", "add", answer) == f"A = 1\n{body}B = 2\n"


def test_a_body_on_the_line_of_its_name_is_left_out() -> None:
    assert without_body("def one(): return 2\nA = 1\n", "one") == "def one():\n    ...\nA = 1\n"


@pytest.mark.parametrize(
    ("output", "name"),
    [
        (
            '  File "/w/test_a.py", line 9, in test\n    self.assertEqual(second(1), 2)\nAssertionError',
            "second",
        ),
        ("E       assert 1 == 2\nE        +  where 1 = second(1)", "second"),
        ('  File "/w/a.py", line 2, in first\n    return 1 / 0\nZeroDivisionError', "first"),
        ("a.py:6: ZeroDivisionError", "second"),
        ("FAILED", ""),
    ],
)
def test_the_function_that_a_check_points_at(output: str, name: str) -> None:
    text = "def first(n):\n    return 1 / 0\n\n\ndef second(n):\n    return n\n"
    assert at_fault("a.py", text, output) == name


def test_odd_code_prints_no_warning() -> None:
    """Nor is it taken for broken; the screen is not the interpreter's."""
    code = 'x = "\\d"\ndef f():\n    return 1 is 1\n'
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert defined_in(code) == ["f"]
        assert list(functions_in(code)) == ["f"]


def test_a_failing_check_is_told_in_two_lines_and_repaired(directory: Path) -> None:
    (directory / "test_calc.py").write_text(TESTS)
    check = "python3 -m unittest"
    config = {"workflow": {"verify_commands": [check], "verify_allow": [check]}}
    # Of another length than the repair: Python knows its byte code by the second and the size.
    wrong = CALC.replace("a - b", "a * b * 1")
    with ScriptedServer(said(block(wrong), "It adds.", block(FIXED), "It adds now.")) as server:
        result = turn(directory, server, "Fix add in calc.py.", config=config)
        messages = server.chats[2]["messages"]
    assert messages[-1]["content"].split("\n")[-9:] == [
        "calc.py:",
        "```python",
        "def add(a, b):",
        "    ...",
        "```",
        "The check fails.",
        "expected: add(1, 2) == 3",
        "got: 2",
        "What add did was wrong and is left out. "
        "Write the whole function add anew, so that the check passes, as one code block.",
    ]
    assert [message["role"] for message in messages] == ["system", "user"]  # not what it wrote before
    assert result.verification.status == "passed"


def test_a_task_about_failing_tests_begins_with_their_result(directory: Path) -> None:
    (directory / "test_calc.py").write_text(TESTS)
    check = "python3 -m unittest"
    config = {"workflow": {"verify_commands": [check], "verify_allow": [check]}}
    with ScriptedServer(said(block(FIXED), "done")) as server:
        turn(directory, server, "The tests fail. Fix it.", config=config)
        told = shown(server.chats[0]).split("\n")
    assert told[-3:-1] == ["expected: add(1, 2) == 3", "got: -1"]  # next to what is asked


def test_a_repair_is_checked_and_tried_again_before_the_answer(directory: Path) -> None:
    (directory / "test_calc.py").write_text(TESTS)
    check = "python3 -m unittest"
    config = {"workflow": {"verify_commands": [check], "verify_allow": [check]}}
    wrong = [block(CALC.replace("a - b", f"a * b * {10**n}")) for n in range(3)]
    with ScriptedServer(said(*wrong, block(FIXED), "It adds now.")) as server:
        result = turn(directory, server, "The tests fail. Fix it.", config=config)
        heat = [chat["temperature"] for chat in server.chats]
        assert "got: 200" in shown(server.chats[3])
        assert "The check passes now." in shown(server.chats[4])
    assert (result.verification.status, result.verification.command) == ("passed", check)
    assert heat[:4] == [0, 0, 0.3, 0.6]
    assert (directory / "calc.py").read_text() == FIXED


@pytest.mark.thorough
def test_a_repair_that_fails_is_said_to(directory: Path) -> None:
    (directory / "test_calc.py").write_text(TESTS)
    check = "python3 -m unittest"
    config = {"workflow": {"verify_commands": [check], "verify_allow": [check]}}
    wrong = [block(CALC.replace("a - b", f"a * b * {10**n}")) for n in range(6)]
    with ScriptedServer(said(*wrong, "Nothing is right.")) as server:
        result = turn(directory, server, "The tests fail. Fix it.", config=config)
        assert shown(server.chats[-1]).endswith("Now say in one sentence what still fails.")
        assert len(server.chats) == 7
    assert result.verification.status == "failed"


def test_what_failed_before_is_not_mended_unasked(directory: Path) -> None:
    (directory / "test_calc.py").write_text(TESTS)
    check = "python3 -m unittest"
    config = {"workflow": {"verify_commands": [check], "verify_allow": [check]}}
    ran = [{"do": "run", "command": check}, {"do": "write", "path": "calc.py"}]
    other = CALC + "\n\nONE = 1\n"
    with ScriptedServer(said(*ran, block(other), "ONE is there.", "The test of add fails.")) as server:
        result = turn(directory, server, f"Run {check}, then add ONE = 1 to calc.py.", config=config)
        assert shown(server.chats[-1]).endswith("Now say in one sentence what still fails.")
    assert (directory / "calc.py").read_text() == other
    assert result.verification.status == "failed"


def test_tests_that_fail_are_not_what_is_changed(directory: Path) -> None:
    (directory / "test_calc.py").write_text(TESTS)
    (directory / "README.md").write_text("Sums.\n")
    with ScriptedServer(said(block(FIXED), "done")) as server:
        turn(directory, server, "The tests fail. Fix it.")
        assert shown(server.chats[0]).endswith("Now write the whole new text of calc.py as one code block.")
    assert (directory / "calc.py").read_text() == FIXED
