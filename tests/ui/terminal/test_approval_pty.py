"""Questions to the person: shown in full, answered in words, refused with a reason, never half heard."""

from __future__ import annotations

import re
from typing import Any

import pytest
from pty_kit import ESC, UP, Terminal
from repl_kit import SIZES, WRITE, Gate, cancelled_line, says, squeezed

from coder.ui.terminal.input.editing import approval_answer
from kit import ScriptedServer
from kit.calls import bash_step
from kit.driving import Project


@pytest.mark.thorough
@SIZES
def test_wrong_answers_say_what_is_allowed_and_right_ones_count(
    project: Project, columns: int, rows: int
) -> None:
    script = [
        bash_step("touch one"),
        bash_step("touch two"),
        bash_step("rm one"),
        bash_step("rm two"),
        {"text": "finished"},
    ]
    with (
        ScriptedServer(script) as server,
        Terminal(project, server.url, columns=columns, rows=rows) as terminal,
    ):
        terminal.until_idle()
        terminal.send("go")
        terminal.until(lambda: "Allow?" in terminal.screen)
        assert "touch one" in terminal.text
        assert "because: " not in terminal.text  # that the preset asks is no news
        terminal.send("maybe so")
        terminal.until(
            lambda: says(terminal, "That is no answer") and says(terminal, "a allows it from now on")
        )
        terminal.until(lambda: terminal.screen.endswith("Allow?"))  # a wrong answer clears itself
        assert not (project.cwd / "one").exists()
        terminal.send("  ALWAYS ")
        terminal.until(lambda: "rm one" in terminal.text)
        terminal.until(lambda: "Allow?" in terminal.screen)
        assert (project.cwd / "two").exists()  # covered by the `always` for `touch`
        assert says(terminal, "because: ")  # it deletes
        assert "lways" not in terminal.screen.split("rm one")[-1]
        terminal.send("always")
        terminal.until(lambda: terminal.text.count("no answer") == 1)  # what was wrong before has gone
        assert (project.cwd / "one").exists()
        terminal.until(lambda: terminal.screen.endswith("Allow?"))
        terminal.send("  Y")
        terminal.until(lambda: "rm two" in terminal.text)
        terminal.until(lambda: "Allow?" in terminal.screen)
        assert not (project.cwd / "one").exists()
        terminal.send(" N,  keep   the second ")
        terminal.until("finished")
        terminal.until_idle()
    assert (project.cwd / "two").exists()
    refusal = server.chats[-1]["messages"][-1]["content"]
    assert refusal.startswith("denied: ")
    assert "keep   the second" in refusal
    assert "→ refused: keep   the second" in terminal.text


@pytest.mark.thorough
@SIZES
def test_chinese_questions_take_chinese_answers(project: Project, columns: int, rows: int) -> None:
    script = [bash_step("touch one"), bash_step("touch two"), WRITE, {"text": "完成"}]
    with (
        ScriptedServer(script) as server,
        Terminal(project, server.url, "--lang", "zh", columns=columns, rows=rows) as terminal,
    ):
        terminal.until_idle()
        terminal.send("开始")
        terminal.until(lambda: says(terminal, "y 是 ·") and says(terminal, "n 否，因为…"))
        terminal.send("也许")
        terminal.until(lambda: says(terminal, "这不是有效的回答"))
        assert not (project.cwd / "one").exists()
        terminal.send("总是")
        terminal.until(lambda: says(terminal, "write 需要你的批准") and says(terminal, "h 逐处决定"))
        assert says(terminal, "+hello")
        assert (project.cwd / "two").exists()
        terminal.send("否，换个名字")
        terminal.until(lambda: says(terminal, "完成"))
        terminal.until_idle()
    assert "换个名字" in server.chats[-1]["messages"][-1]["content"]
    assert not (project.cwd / "new.txt").exists()


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("ｙ", ("yes", "")),
        ("是的。", ("yes", "")),
        ("\u3000否\u3000太危险", ("no", "太危险")),
        ("no: line one\nline two", ("no", "line one\nline two")),
        ("A", ("always", "")),
        ("总是 请", None),
        ("nope", None),
        ("否则", None),
        ("y n", None),
        ("n't", None),
    ],
    ids=[
        "full-width",
        "stop",
        "wide-space",
        "lines",
        "letter",
        "extra",
        "nope",
        "otherwise",
        "both",
        "quote",
    ],
)
def test_what_counts_as_an_answer(text: str, answer: Any) -> None:
    assert approval_answer(text, can_always=True) == answer


def test_everyday_chinese_answers() -> None:
    for word in ("可以", "好", "好的！", "行"):
        assert approval_answer(word, can_always=False) == ("yes", "")
    for word in ("不要", "不行，", "不可以。"):
        assert approval_answer(f"{word} 先备份", can_always=False) == ("no", "先备份")


LONG_COMMAND = "\n".join(f"echo part{at}" for at in range(300))
LONG_TEXT = "".join(f"line number {at}\n" for at in range(2000))


@pytest.mark.thorough
@SIZES
def test_long_questions_go_to_scrollback_in_full_and_stay_usable(
    project: Project, columns: int, rows: int
) -> None:
    project.write("new.txt", "")  # of a file that is new the beginning is shown
    script = [
        bash_step(f"{LONG_COMMAND}\ntouch made"),
        {"calls": [{"name": "write", "arguments": {"path": "new.txt", "content": LONG_TEXT}}]},
        {"text": "finished"},
    ]
    with (
        ScriptedServer(script) as server,
        Terminal(project, server.url, columns=columns, rows=rows) as terminal,
    ):
        terminal.until_idle()
        terminal.send("go")
        terminal.until(lambda: "Allow?" in terminal.screen)
        assert re.findall(r"\n│ echo part(\d+)", terminal.text) == [str(at) for at in range(300)]
        assert says(terminal, "touch made because: ")
        terminal.send("y")
        terminal.until("+ line number 1999")
        terminal.until(lambda: "Allow?" in terminal.screen)
        assert re.findall(r"\n│ +\d+ \+ line number (\d+)", terminal.text) == [str(at) for at in range(2000)]
        terminal.send("perhaps")
        terminal.until(lambda: says(terminal, "That is no answer"))
        terminal.send("y")
        terminal.until("finished")
        terminal.until_idle()
        assert terminal.text.count("+ line number 7\n") == 1  # what was agreed to is not shown again
        assert says(terminal, "✓ write new.txt")
    assert (project.cwd / "made").exists()
    assert (project.cwd / "new.txt").read_text(encoding="utf-8") == LONG_TEXT


@SIZES
def test_escape_at_a_question_cancels_the_whole_turn(project: Project, columns: int, rows: int) -> None:
    with (
        ScriptedServer([WRITE, {"text": "never"}]) as server,
        Terminal(project, server.url, columns=columns, rows=rows) as terminal,
    ):
        terminal.until_idle()
        terminal.send("go")
        terminal.until(lambda: "Allow?" in terminal.screen)
        terminal.type("n bec")
        terminal.until(lambda: "No, because …  bec" in terminal.screen)
        terminal.type(ESC)
        terminal.until_idle()
        assert squeezed("the question about write") in squeezed(cancelled_line(terminal))
        assert "write new.txt · cancelled" in terminal.text
        assert len(server.chats) == 1
    assert not (project.cwd / "new.txt").exists()


def test_a_queue_and_a_draft_outlive_a_question(project: Project) -> None:
    """Up at a question must not take the queue into an answer that is thrown away."""
    gate = Gate(WRITE)
    script = [gate, {"text": "first"}, {"text": "second"}]
    with ScriptedServer(script) as server, Terminal(project, server.url) as terminal:
        terminal.until_idle()
        terminal.send("go")
        terminal.until("esc stops")
        terminal.send("queued text")
        terminal.until("takes it back): queued text")
        terminal.type("my draft")
        terminal.until(lambda: terminal.screen.endswith("> my draft"))  # read before the question is asked
        gate.open()
        terminal.until(lambda: "Allow?" in terminal.screen)  # after a pause: the person was typing
        terminal.type(UP)
        terminal.type("y")
        terminal.until("second")
        terminal.until(lambda: terminal.screen.endswith("> my draft"))
    assert (project.cwd / "new.txt").exists()
    assert server.chats[-1]["messages"][-1]["content"] == "queued text"


def test_a_question_about_the_turn_is_put_as_a_question(project: Project) -> None:
    circles = {"text": "over and over " * 200}
    with ScriptedServer([circles] * 3) as server, Terminal(project, server.url, columns=60) as terminal:
        terminal.until_idle()
        terminal.send("go")
        terminal.until(lambda: "y yes · n no · a always\nAllow?" in terminal.screen)
        assert says(terminal, "over and over. Go on? (always: do not check again in this session)")
        assert "needs your approval" not in terminal.text
        terminal.send("n")
        terminal.until_idle()
