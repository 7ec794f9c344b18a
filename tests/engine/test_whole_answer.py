"""An answer that the output limit cut is one answer everywhere; one that is not whole is told of."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coder import run_agent
from coder.engine.join_answers import Joiner
from coder.protocol.events import Content, Failed, Notice, Thought, TurnEnded
from kit import Chaos, ScriptedServer
from kit.calls import step
from kit.driving import Project, drive, of, play


def joined(before: str, after: str, size: int = 0) -> str:
    joiner = Joiner(before)
    pieces = [after[at : at + size] for at in range(0, len(after), size)] if size else [after]
    return before + "".join(map(joiner.feed, pieces)) + joiner.finish()


CODE = "Here it is:\n\n```python\ndef area(w, h):\n    retu"


@pytest.mark.parametrize("size", [0, 1, 4])
@pytest.mark.parametrize(
    ("before", "after", "whole"),
    [
        ("half of", " the answer", "half of the answer"),
        ("an ans", "wer", "an answer"),
        ("The parser is in src/par", "se.py.", "The parser is in src/parse.py."),
        ("One line.\n", "Two lines.", "One line.\nTwo lines."),
        # the last words again
        ("It fails because the cache is never", "because the cache is never cleared.", None),
        ("and so the second one is used", "the second one is used by mistake", None),
        # the unfinished line again
        ("text\nThe quick", "The quick brown fox", "text\nThe quick brown fox"),
        # too little to be sure
        ("ha", "ha ha", "haha ha"),
        ("}\n", "}\n", "}\n}\n"),
        ("----------------------\n", "----------------------\n", "----------------------\n" * 2),
        ("0,0,0,0,0,0,0,0,0,0,0\n" * 3, "0,0,0,0,0,0,0,0,0,0,0\n", "0,0,0,0,0,0,0,0,0,0,0\n" * 4),
        # code stays code
        (CODE, "rn w * h\n```\nDone.", CODE + "rn w * h\n```\nDone."),
        (CODE, "```python\nrn w * h\n```\n", CODE + "rn w * h\n```\n"),
        (CODE, "```python\n    return w * h\n```\n", CODE + "rn w * h\n```\n"),
        (CODE, "Continuing the code:\n\n```python\nrn w * h\n```", CODE + "rn w * h\n```"),
        (CODE + "rn w", "```python\n    print(w)\n```", CODE + "rn w\n    print(w)\n```"),
        (CODE + "rn w\n", "```\nThat is all.", CODE + "rn w\n```\nThat is all."),
        (CODE, "```json\n{}\n```", CODE + "```json\n{}\n```"),
    ],
)
def test_joined_as_text_should_be(before: str, after: str, whole: str | None, size: int) -> None:
    if whole is None:
        whole = before + after[after.index(before.split()[-1]) + len(before.split()[-1]) :]
    assert joined(before, after, size) == whole


@given(st.text(max_size=60), st.text(max_size=60), st.integers(1, 9))
def test_cuts_make_no_difference(before: str, after: str, size: int) -> None:
    if before:
        assert joined(before, after, size) == joined(before, after)


PARTS: list[dict[str, Any]] = [
    {"text": "It is a long ans", "finish": "length", "chunk": 3},
    {"text": "wer in three", "finish": "length", "chunk": 3},
    {"text": " parts.", "chunk": 3},
]
WHOLE = "It is a long answer in three parts."


def test_all_parts_are_the_answer(project: Project) -> None:
    driver = play(project, PARTS, ["go"])
    assert "".join(e.text for e in of(driver.seen, Content)) == WHOLE
    (end,) = of(driver.seen, TurnEnded)
    assert (end.text, end.status, end.finish_reason) == (WHOLE, "ok", "stop")
    assert project.of_type("final")[0]["content"] == WHOLE
    assert [e["content"] for e in project.of_type("assistant")] == [part["text"] for part in PARTS]


@pytest.mark.thorough
def test_stdout_json_and_sdk_hold_all_parts(project: Project) -> None:
    with ScriptedServer([*PARTS, *PARTS, *PARTS]) as server:
        plain = project.coder("--once", "go", url=server.url)
        as_json = project.coder("--once", "go", "--output", "json", url=server.url)
        environ = project.environ(server.url)
        result = asyncio.run(run_agent("go", cwd=project.cwd, environ=environ))
    assert plain.stdout == WHOLE + "\n"
    told = json.loads(as_json.stdout)
    assert (told["text"], told["finish_reason"]) == (WHOLE, "stop")
    assert (result.final_text, result.finish_reason) == (WHOLE, "stop")


def test_an_empty_part_between_loses_nothing(project: Project) -> None:
    driver = play(project, [PARTS[0], {"text": ""}, {"text": "wer."}], ["go"])
    assert of(driver.seen, TurnEnded)[0].text == "It is a long answer."


def test_what_was_said_before_a_call_is_no_part_of_the_answer(project: Project) -> None:
    calls = [{"name": "list", "arguments": {}}]
    script = [PARTS[0], {"text": "wer.", "calls": calls}, {"text": "Two files."}]
    assert of(play(project, script, ["go"]).seen, TurnEnded)[0].text == "Two files."


def test_thoughts_do_not_tear_a_word_in_two(project: Project) -> None:
    script = [PARTS[0], {"reasoning": "where was I", "text": "wer."}]
    driver = play(project, script, ["go"])
    assert of(driver.seen, Thought) == []
    assert project.of_type("assistant")[1]["meta"]["reasoning"] == "where was I"


def test_a_part_that_breaks_off_is_taken_up_in_place(project: Project) -> None:
    rest = {"text": "wer that is long enough to break.", "chunk": 4}
    with Chaos([PARTS[0], {**rest, "fault": "cut_text"}, rest]) as server:
        driver = drive(project, server.url, ["go"])
    whole = "It is a long answer that is long enough to break."
    assert "".join(e.text for e in of(driver.seen, Content)) == whole
    assert of(driver.seen, TurnEnded)[0].text == whole


# how it ended


def test_an_answer_cut_at_the_last_continuation_is_told(project: Project) -> None:
    project.configure(runtime={"max_continuations": 1})
    driver = play(project, PARTS, ["go"])
    (end,) = of(driver.seen, TurnEnded)
    assert (end.status, end.finish_reason, end.text) == ("ok", "length", "It is a long answer in three")
    assert any("not whole" in e.text for e in of(driver.seen, Notice) if e.level == "warning")
    assert project.of_type("turn_end")[0]["meta"]["finish_reason"] == "length"


def test_a_cut_answer_is_told_where_nothing_is_continued(project: Project) -> None:
    project.configure(runtime={"next_speaker": "off"})
    with ScriptedServer(PARTS) as server:
        done = project.coder("--once", "go", "--output", "json", url=server.url)
    told = json.loads(done.stdout)
    assert (done.returncode, told["finish_reason"]) == (0, "length")
    assert any("not whole" in line for line in told["warnings"])


@pytest.mark.parametrize("reason", ["content_filter", "SAFETY"])
def test_a_filtered_answer_is_told_and_not_asked_for_again(project: Project, reason: str) -> None:
    driver = play(project, [{"text": "Let me say", "finish": reason}, {"text": "no"}], ["go"])
    assert len(driver.chats) == 1
    assert of(driver.seen, TurnEnded)[0].finish_reason == reason
    assert any("content filter" in e.text for e in of(driver.seen, Notice) if e.level == "warning")


def test_calls_of_a_filtered_answer_are_not_run_and_that_is_told(project: Project) -> None:
    filtered = {**step("write", path="a.txt", content="x"), "finish": "content_filter"}
    driver = play(project, [filtered, {"text": "So be it."}], ["go"], mode="yolo")
    assert not (project.cwd / "a.txt").exists()
    assert any("its calls were not run" in e.text for e in of(driver.seen, Notice))
    assert "content filter" in driver.chats[1]["messages"][-1]["content"]


@pytest.mark.parametrize(("next_speaker", "asked"), [("auto", 2), ("off", 1)])
def test_a_call_that_the_server_could_not_read_is_asked_for_again_or_told(
    project: Project, next_speaker: str, asked: int
) -> None:
    project.configure(runtime={"next_speaker": next_speaker})
    bad = {"text": "I write the file.", "finish": "malformed_function_call"}
    driver = play(project, [bad, {"text": "Done."}], ["go"])
    assert len(driver.chats) == asked
    assert any("could not read" in e.text for e in of(driver.seen, Notice)) == (asked == 1)


def test_an_answer_filtered_at_its_start_fails(project: Project) -> None:
    driver = play(project, [{"text": "", "finish": "content_filter"}], ["go"])
    assert of(driver.seen, TurnEnded)[0].status == "error"
    assert "content filter" in of(driver.seen, Failed)[0].text


@pytest.mark.parametrize(("lang", "words"), [("en", "answered with nothing"), ("zh", "没有给出任何回答")])
def test_an_answer_of_nothing_fails_with_a_sentence(project: Project, lang: str, words: str) -> None:
    with ScriptedServer([{"text": ""}] * 9) as server:
        done = project.coder("--once", "go", "--lang", lang, url=server.url)
    assert done.returncode == 1
    assert done.stdout == ""
    assert words in done.stderr
    end = project.of_type("turn_end")[0]["meta"]
    assert end["status"] == "error"
    assert "nothing (3×)" in end["error_message"]
    assert project.of_type("final") == []
