"""Which model is asked, seen on the wire: rule, classifier, stickiness, takeover, and who speaks next."""

from __future__ import annotations

from typing import Any

import pytest

from coder.protocol.events import Failed, Notice, StateChanged, TurnEnded
from kit.driving import Driver, Project, of, play
from kit.wire import by_place, main_chats, side_requests, words

LIST = {"name": "list", "arguments": {}}
OPEN = "tell me about the history of this repository and its main authors"
GONE = {"status": 402, "body": {"error": {"message": "insufficient_quota"}}}
PLAIN = {"workflow": {"require_todo_for_complex": False}}


def configure(project: Project, **sections: Any) -> None:
    project.configure(**{**PLAIN, "routing": {"fast": "small", "strong": "big"}, **sections})


def models(driver: Driver) -> list[str]:
    return [chat["model"] for chat in driver.chats]


@pytest.mark.parametrize(
    ("said", "model"),
    [
        ("SIMPLE", "small"),
        ("COMPLEX", "big"),
        ("simple.", "small"),
        ("It is not SIMPLE, so COMPLEX", "big"),
        ("<think>SIMPLE? no</think>\nCOMPLEX", "big"),
        ("<think>COMPLEX?</think>SIMPLE", "small"),
        ("I cannot tell.", "big"),
        ("", "big"),
    ],
)
def test_what_the_classifier_says(project: Project, said: str, model: str) -> None:
    configure(project)
    driver = play(project, by_place([{"text": "ok"}], routing={"text": said}), [OPEN])
    assert driver.chats  # without `auto` there is nothing to classify
    assert side_requests(driver, "routing") == []
    driver = play(project, by_place([{"text": "ok"}], routing={"text": said}), [OPEN], model="auto")
    (question,) = side_requests(driver, "routing")
    assert question["model"] == "small"
    assert "tools" not in question
    assert question["messages"][1]["content"] == OPEN
    assert [chat["model"] for chat in main_chats(driver)] == [model]


def test_the_choice_holds_through_calls_checks_and_continuations(project: Project) -> None:
    configure(project, runtime={"next_speaker": "always"})
    script = by_place(
        [{"calls": [LIST]}, {"text": "half", "finish": "length"}, {"text": "done"}, {"text": "ok"}],
        next_speaker={"text": "USER"},
    )
    driver = play(project, script, ["fix the parser", "hi"], model="auto")
    assert models(driver) == ["big", "big", "big", "big", "small", "small"]


def test_the_person_overrules_it_and_gives_it_back(project: Project) -> None:
    configure(project)
    script = by_place([{"text": "ok"}] * 3)
    driver = play(project, script, ["hi", "/model mine", "hi", "/model auto", "fix it"], model="auto")
    assert models(driver) == ["small", "mine", "big"]


def test_a_model_that_takes_over_stays_for_the_prompt_and_not_longer(project: Project) -> None:
    configure(project)
    script = by_place([GONE, {"calls": [LIST]}, {"text": "ok"}, {"text": "ok"}])
    driver = play(project, script, ["fix it", "fix more"], model="auto")
    assert models(driver) == ["big", "small", "small", "big"]
    (said,) = [e.text for e in of(driver.seen, Notice) if "takes over" in e.text]
    assert "big" in said
    assert "small" in said
    assert "quota" in said
    changed = [e["meta"] for e in project.of_type("routing") if "instead_of" in e["meta"]]
    assert [(m["instead_of"], m["model"]) for m in changed] == [("big", "small")]


def test_where_both_are_gone_the_turn_ends_and_says_so(project: Project) -> None:
    configure(project)
    driver = play(project, by_place([GONE, GONE, {"text": "ok"}]), ["fix it", "hi"], model="auto")
    assert [e.status for e in of(driver.seen, TurnEnded)] == ["error", "ok"]
    assert "quota" in of(driver.seen, Failed)[0].text


def test_a_chosen_model_is_not_replaced_behind_the_persons_back(project: Project) -> None:
    configure(project)
    driver = play(project, by_place([GONE, {"text": "ok"}]), ["fix it"], model="mine")
    assert models(driver) == ["mine"]
    assert of(driver.seen, TurnEnded)[0].status == "error"


@pytest.mark.parametrize("routing", [{"fast": "small"}, {"strong": "big"}])
def test_one_model_is_enough(project: Project, routing: dict[str, str]) -> None:
    configure(project, routing=routing)
    driver = play(
        project,
        by_place([{"text": "ok"}] * 3, routing={"text": "SIMPLE"}),
        ["hi", "fix it", OPEN],
        model="auto",
    )
    assert {chat["model"] for chat in main_chats(driver)} == set(routing.values())


def test_none_is_said(project: Project) -> None:
    project.configure(**PLAIN)
    driver = play(project, [], ["hi"], model="auto")
    assert driver.chats == []
    assert "routing.fast" in of(driver.seen, Failed)[0].text


def test_the_window_is_that_of_the_model_that_answers(project: Project) -> None:
    configure(project, routing={"fast": "llama3", "strong": "gpt-4o"})  # 8,192 and 128,000
    script = by_place([{"text": "ok"}, {"text": words(3_000)}, {"text": "ok"}], summary={"text": "short"})
    driver = play(project, script, ["hi", "fix it", "hi"], model="auto")
    shown = [e.context_window for e in of(driver.seen, StateChanged)]
    assert shown[:2] == [8_192, 128_000]
    # The third is a quick question, but the small model would cost the conversation: the strong one has it.
    assert models(driver) == ["llama3", "gpt-4o", "gpt-4o"]


class TestNextSpeaker:
    """Who speaks after an answer without calls."""

    @pytest.mark.parametrize(
        ("said", "goes_on"),
        [
            ("MODEL", True),
            ("model.", True),
            ("**MODEL**", True),
            ("USER", False),
            ("USER. The MODEL has finished.", False),
            ("The one to go on is MODEL", True),
            ("<think>MODEL?</think> USER", False),
            ("whoever", False),
        ],
    )
    def test_what_the_check_says(self, project: Project, said: str, goes_on: bool) -> None:
        script = by_place([{"text": "Let me look."}, {"text": "Done."}], next_speaker={"text": said})
        driver = play(project, script, ["go"])
        assert of(driver.seen, TurnEnded)[0].text == ("Done." if goes_on else "Let me look.")

    def test_at_most_so_many_continuations(self, project: Project) -> None:
        project.configure(runtime={"max_continuations": 3})
        script = by_place([{"text": f"part {n}", "finish": "length"} for n in range(9)])
        driver = play(project, script, ["go"])
        assert len(driver.chats) == 4
        assert [e["meta"]["reason"] for e in project.of_type("note")] == ["truncated"] * 3
        assert of(driver.seen, TurnEnded)[0].status == "ok"

    def test_the_step_limit_holds_for_continuations_too(self, project: Project) -> None:
        project.configure(runtime={"max_steps": 2})
        script = by_place([{"text": f"part {n}", "finish": "length"} for n in range(9)])
        driver = play(project, script, ["go"])
        assert len(driver.chats) == 2
        assert of(driver.seen, TurnEnded)[0].status == "max_steps"

    def test_off_asks_and_continues_nothing(self, project: Project) -> None:
        project.configure(runtime={"next_speaker": "off"})
        driver = play(project, by_place([{"text": "Let me look.", "finish": "length"}]), ["go"])
        assert len(driver.chats) == 1

    def test_the_question_is_about_the_answers_end(self, project: Project) -> None:
        answer = f"{words(3_000)} Now I will run the tests:"
        driver = play(project, by_place([{"text": answer}], next_speaker={"text": "USER"}), ["go"])
        (question,) = side_requests(driver, "next_speaker")
        assert question["messages"][1]["content"].endswith("Now I will run the tests:")
        assert len(question["messages"][1]["content"]) <= 2_000
