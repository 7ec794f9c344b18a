"""Going in circles, on the wire: each pattern that is noticed, each honest one that is not, what follows."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from coder.engine.limits import LOOP_NOTE
from coder.engine.turn_state import LoopWatch
from coder.protocol.events import ApprovalRequested, CommandDone, Failed, LoopDetected, TurnEnded
from coder.protocol.ops import ApprovalReply
from kit import ScriptedServer
from kit.calls import step
from kit.driving import Driver, Project, of, play
from kit.wire import by_place, words

NOTE = LOOP_NOTE.partition(":")[0]


READ_A, READ_B = step("read", path="a.txt"), step("read", path="b.txt")
MISSING = step("read", path="missing.txt")


def cycle(length: int, rounds: int) -> list[dict[str, Any]]:
    return [step("read", path=f"f{n}.txt") for n in range(length)] * rounds


def told_at(driver: Driver) -> list[int]:
    """The requests, by number, that a note about circles was first sent with."""
    counts = [sum(NOTE in m["content"] for m in chat["messages"]) for chat in driver.chats]
    return [at for at in range(1, len(counts)) if counts[at] > counts[at - 1]]


@pytest.fixture
def filled(project: Project) -> Project:
    for name in ("a", "b", *(f"f{n}" for n in range(12))):
        project.write(f"{name}.txt", f"this is {name}\n")
    return project


TRIGGERS = {
    "identical_calls": ([READ_A] * 5, 5),
    "identical_calls_in_one_answer": ([{"calls": READ_A["calls"] * 5}], 1),
    "identical_failing_calls": ([MISSING] * 5, 5),
    "cycle_of_two": (cycle(2, 3), 6),
    "cycle_of_three": (cycle(3, 3), 9),
    "cycle_of_four": (cycle(4, 3), 12),
    "cycle_of_five": (cycle(5, 3), 15),
    "cycle_after_honest_work": ([*cycle(7, 1), READ_A, READ_B, READ_A, READ_B, READ_A, READ_B], 13),
    "the_same_failure_between_other_calls": (
        [
            one
            for n in range(6)
            for one in (
                step("edit", path="a.txt", old_string=f"nowhere {n}", new_string="x"),
                step("read", path=f"f{n}.txt"),
            )
        ],
        11,
    ),
}


@pytest.mark.parametrize(("steps", "at"), TRIGGERS.values(), ids=TRIGGERS)
def test_a_circle_is_noticed_and_the_model_told(filled: Project, steps: list[Any], at: int) -> None:
    driver = play(
        filled,
        by_place([*steps, {"text": "I stop."}, {"text": "I stop."}]),
        ["go"],
        mode="yolo",
        preset="yolo",
    )
    assert told_at(driver) == [at]
    assert len(of(driver.seen, LoopDetected)) == 1
    assert filled.of_type("loop")[0]["meta"]["strike"] == 1
    assert of(driver.seen, TurnEnded)[0].status == "ok"


HONEST = {
    "four_identical_calls": [READ_A] * 4,
    "two_rounds_of_a_cycle": cycle(5, 2),
    "a_batch_of_one_tool": cycle(12, 1),
    "a_batch_in_one_answer": [{"calls": [one["calls"][0] for one in cycle(12, 1)]}],
    "a_cycle_of_six": cycle(6, 3),
    "polling_whose_result_changes": [step("bash", command="echo x >> log; wc -c < log")] * 12,
    "polling_what_fails_with_other_words": [step("bash", command="echo x >> log; cat log; exit 1")] * 12,
    "tests_that_fail_otherwise_after_each_edit": [
        one
        for n in range(8)
        for one in (
            step("edit", path="a.txt", old_string="this is", new_string=f"this is {n}"),
            step("bash", command="cat a.txt; exit 1"),
        )
    ],
    "failures_on_different_things": [step("read", path=f"no{n}") for n in range(12)],
    "a_failure_then_a_success_each_time": [
        one
        for n in range(8)
        for one in (
            step("edit", path="a.txt", old_string="nowhere", new_string=f"{n}"),
            step("edit", path="a.txt", old_string="this is", new_string=f"this is {n}"),
        )
    ],
    "identical_calls_with_other_work_between": [
        one for n in range(8) for one in (READ_A, step("read", path=f"f{n}.txt"))
    ],
}


@pytest.mark.parametrize("steps", HONEST.values(), ids=HONEST)
def test_honest_work_is_left_alone(filled: Project, steps: list[Any]) -> None:
    driver = play(filled, by_place([*steps, {"text": "Done."}]), ["go"], mode="yolo", preset="yolo")
    assert of(driver.seen, LoopDetected) == []
    assert of(driver.seen, TurnEnded)[0].text == "Done."


STUTTER = "I am going to look at the configuration of the server again now. "
TEXTS = {
    "sentence": (STUTTER * 60, True),
    "chinese": ("我再看一下服务器的配置文件，确认里面的端口设置是否正确。" * 60, True),
    "paragraphs": ((STUTTER + "And then I will try it once more.\n\n") * 60, True),
    "after_a_listing": ("```\nx = 1\n```\n" + STUTTER * 60, True),
    "in_a_code_fence": (
        "```python\n" + "x = compute(x)  # the same line of a listing again\n" * 80 + "```\n",
        False,
    ),
    "in_a_tilde_fence": ("~~~\n" + STUTTER * 60 + "\n~~~\n", False),
    "list": (
        "".join(f"- an item that looks very much like all the others {n % 2}\n" for n in range(80)),
        False,
    ),
    "numbered_list": ("".join(f"{n}. an item that looks like all of the others\n" for n in range(80)), False),
    "table": ("| a column | another column |\n" * 80, False),
    "headings": ("".join(f"## Part {n}\n\n{STUTTER}\n" for n in range(40)) + "The end.", False),
    "prose": (words(2_000), False),
    "nine_times": (STUTTER * 9 + words(400), False),
    "one_word": ("going " * 400, True),
    "signs": ("!" * 4_000, True),
    "a_drawn_line": (f"Above\n{'═' * 90}\n{'_' * 90}\n", False),
    "a_box": (f"┌{'─' * 80}┐\n" + f"│{' ' * 80}│\n" * 12 + f"└{'─' * 80}┘\n", False),
    "a_table_of_contents": ("".join(f"Part {n} {'.' * 70} {n}\n" for n in range(12)), False),
    "a_tree": ("".join(f"├── a_module_whose_name_is_rather_long_{n}.py\n" for n in range(40)), False),
    "a_log": ("".join(f"[10:00:{n}] INFO the worker has answered request {n}\n" for n in range(60)), False),
}


@pytest.mark.parametrize(("text", "circles"), TEXTS.values(), ids=TEXTS)
def test_words_over_and_over(project: Project, text: str, circles: bool) -> None:
    driver = play(project, by_place([{"text": text}, {"text": "Sorry."}]), ["go"])
    assert len(of(driver.seen, LoopDetected)) == (1 if circles else 0)
    assert of(driver.seen, TurnEnded)[0].text == ("Sorry." if circles else text)
    first = project.of_type("assistant")[0]
    assert (first["meta"]["finish_reason"] == "loop") is circles
    assert told_at(driver) == ([1] if circles else [])


def test_the_second_time_without_a_person_the_turn_ends(filled: Project) -> None:
    driver = play(filled, by_place([READ_A] * 30), ["go", "/status"])
    assert len(driver.chats) == 10
    assert [e["meta"]["strike"] for e in filled.of_type("loop")] == [1, 2]
    end = of(driver.seen, TurnEnded)[0]
    assert end.status == "error"
    assert "circles" in end.error
    assert [e.code for e in of(driver.seen, Failed)] == ["loop"]


def test_the_next_prompt_begins_anew(filled: Project) -> None:
    driver = play(
        filled, by_place([*[READ_A] * 4, {"text": "a"}, *[READ_A] * 4, {"text": "b"}]), ["one", "two"]
    )
    assert of(driver.seen, LoopDetected) == []


@pytest.mark.parametrize(
    ("answer", "requests", "status"), [("yes", 25, "error"), ("always", 41, "ok"), ("no", 10, "error")]
)
def test_the_second_time_a_person_decides(filled: Project, answer: Any, requests: int, status: str) -> None:
    replies = iter([answer, "no"])

    async def scenario(url: str) -> Driver:
        driver = Driver(filled, url, can_ask=True)
        driver.start()
        await driver.send("go", lambda e: ApprovalReply(e.approval_id, next(replies)))
        await driver.close()
        return driver

    with ScriptedServer([*[READ_A] * 40, {"text": "end"}]) as server:
        driver = asyncio.run(scenario(server.url))
        # yes: five more until it is told, and five until it is asked again
        assert len(server.chats) == requests - (5 if answer == "yes" else 0)
    assert of(driver.seen, TurnEnded)[0].status == status
    assert all("repeats itself" in e.subject for e in of(driver.seen, ApprovalRequested))


def test_switched_off_for_the_session_and_its_subagents(filled: Project) -> None:
    task = step("task", agent="explore", objective="dig")
    child: list[Any] = [*[READ_A] * 12, {"text": "found"}]
    main: list[Any] = [*[READ_A] * 12, task, {"text": "end"}, *[READ_A] * 5, {"text": "told"}]

    def answer(request: dict[str, Any]) -> Any:
        return (child if "You are a subagent" in request["messages"][0]["content"] else main).pop(0)

    inputs = ["/loop off", "go", "/loop on", "again", "/loop maybe"]
    driver = play(filled, by_place([answer] * 60), inputs, mode="yolo", preset="yolo")
    assert [e.status for e in of(driver.seen, TurnEnded)] == ["ok", "ok"]
    assert of(driver.seen, TurnEnded)[0].text == "end"
    assert child == []
    assert len(of(driver.seen, LoopDetected)) == 1  # after it was on again
    assert [e.ok for e in of(driver.seen, CommandDone)] == [True, True, False]


def test_a_result_counts_and_not_the_call_alone() -> None:
    watch = LoopWatch()
    for n in range(50):
        watch.saw_call("bash", '{"command": "make"}', "make", f"built {n} of 50", ok=True)
    assert not watch.finding
