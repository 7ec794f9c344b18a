"""How a turn keeps on course: loop guard, routing, fallback, next speaker, budget, ledger."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from coder.context.action_log import ActionLog
from coder.engine.continuation import announces
from coder.engine.routing import rule
from coder.engine.turn_state import LoopWatch
from coder.history.log import read_log
from coder.protocol.events import ApprovalRequested, Failed, LoopDetected, Notice, TurnEnded
from coder.protocol.ops import ApprovalReply
from kit import ScriptedServer
from kit.driving import Driver, Project, of, play

LIST = {"name": "list", "arguments": {}}
PRICES = {"scripted": {"input": 10.0, "cached_input": 1.0, "output": 20.0}}


class TestLoopWatch:
    """Each trigger and each non-trigger."""

    def fed(self, *calls: tuple[str, str, str, bool]) -> str:
        watch = LoopWatch()
        for tool, arguments, result, ok in calls:
            watch.saw_call(tool, arguments, arguments, result, ok)
        return str(watch.finding or "")

    def test_the_same_call_with_the_same_result(self) -> None:
        same = ("read", "a", "text", True)
        assert self.fed(*[same] * 4) == ""
        assert "5 times" in self.fed(*[same] * 5)

    def test_polling_whose_result_changes_is_honest(self) -> None:
        assert self.fed(*[("bash", "status", f"{n} %", True) for n in range(50)]) == ""

    def test_a_batch_of_one_tool_is_honest(self) -> None:
        assert self.fed(*[("read", f"file{n}", "text", True) for n in range(50)]) == ""

    @pytest.mark.parametrize("length", [2, 3, 4, 5])
    def test_cycles(self, length: int) -> None:
        round_ = [("read", f"file{n}", "text", True) for n in range(length)]
        assert self.fed(*round_, *round_) == ""
        assert f"cycle of {length}" in self.fed(*round_, *round_, *round_)

    def test_a_cycle_of_six_is_not_noticed(self) -> None:
        round_ = [("read", f"file{n}", "text", True) for n in range(6)]
        assert self.fed(*round_ * 4) == ""

    def test_the_same_failure_whatever_is_tried_in_between(self) -> None:
        watch = LoopWatch()
        for n in range(6):
            watch.saw_call("edit", f"try {n}", "a.py", "error: no match\nnearest: …", False)
            watch.saw_call("read", f"{n}", "a.py", f"text {n}", True)
        assert "failed the same way" in str(watch.finding)

    def test_failures_on_different_things_are_honest(self) -> None:
        calls = [("read", f"file{n}", "error: missing", False) for n in range(20)]
        assert self.fed(*calls) == ""

    def test_a_success_in_between_clears_failures(self) -> None:
        watch = LoopWatch()
        for n in range(12):
            watch.saw_call("edit", f"{n}", "a.py", "error: no match", ok=False)
            watch.saw_call("edit", f"{n} again", "a.py", f"done {n}", ok=True)
        assert watch.finding is None

    def test_words_over_and_over(self) -> None:
        watch = LoopWatch()
        sentence = "I am going to check the configuration of the server again now. "
        assert any(watch.saw_text(piece) for piece in [sentence] * 20)

    @pytest.mark.parametrize(
        "text",
        [
            "```\n" + "x = x + 1  # the same line in a listing, many times over\n" * 40 + "```\n",
            "".join(f"- item number of the list that looks alike every time {n % 2}\n" for n in range(40)),
            "| a | b |\n" * 60,
            " ".join(f"word{n}" for n in range(2000)),
            "\n".join(
                f"## Section {n}\n\nEach of these begins with the same words, then {n}.\n" for n in range(40)
            ),
        ],
    )
    def test_code_lists_tables_and_prose_are_honest(self, text: str) -> None:
        watch = LoopWatch()
        assert not any(watch.saw_text(text[at : at + 16]) for at in range(0, len(text), 16))


def test_first_the_model_is_told_then_the_turn_ends(project: Project) -> None:
    driver = play(project, [{"calls": [LIST]}] * 30, ["go"])
    assert len(of(driver.seen, LoopDetected)) == 2
    notes = [e["content"] for e in project.of_type("note")]
    assert len(notes) == 1
    assert "circles" in notes[0]
    assert of(driver.seen, TurnEnded)[0].status == "error"
    assert of(driver.seen, Failed)[0].code == "loop"
    assert len(driver.chats) == 10
    assert [e["meta"]["strike"] for e in project.of_type("loop")] == [1, 2]


def test_text_that_repeats_is_cut_off_and_the_model_told(project: Project) -> None:
    stutter = "I will now look at the file again to be sure. " * 400
    driver = play(project, [{"text": stutter, "delay": 0.0005}, {"text": "Sorry. Done."}], ["go"])
    assert of(driver.seen, TurnEnded)[0].text == "Sorry. Done."
    first = project.of_type("assistant")[0]
    assert len(first["content"]) < len(stutter)
    assert first["meta"]["finish_reason"] == "loop"


def test_with_a_person_the_second_time_is_a_question(project: Project) -> None:
    async def scenario(url: str, answer: Any) -> Driver:
        driver = Driver(project, url, can_ask=True)
        driver.start()
        await driver.send("go", lambda e: ApprovalReply(e.approval_id, answer))
        await driver.close()
        return driver

    with ScriptedServer([*[{"calls": [LIST]}] * 30, {"text": "end"}]) as server:
        driver = asyncio.run(scenario(server.url, "always"))
        assert len(server.chats) == 31  # switched off for the session
    assert len(of(driver.seen, ApprovalRequested)) == 1
    with ScriptedServer([{"calls": [LIST]}] * 30) as server:
        driver = asyncio.run(scenario(server.url, "no"))
    assert of(driver.seen, TurnEnded)[0].status == "error"


def test_the_guard_can_be_switched_off(project: Project) -> None:
    project.configure(runtime={"loop_guard": False})
    driver = play(project, [*[{"calls": [LIST]}] * 12, {"text": "end"}], ["go"])
    assert of(driver.seen, TurnEnded)[0].text == "end"


class TestRouting:
    """`provider.model = "auto"`."""

    def configured(self, project: Project) -> None:
        project.configure(routing={"fast": "small", "strong": "big"})

    def models(self, project: Project, script: list[Any], inputs: list[str]) -> list[str]:
        return [chat["model"] for chat in play(project, script, inputs, model="auto").chats]

    @pytest.mark.parametrize(
        ("text", "tier"),
        [
            ("what is a mutex?", "fast"),
            ("hi", "fast"),
            ("refactor the parser", "strong"),
            ("修复登录", "strong"),
            ("tell me about the history of this repository and its main authors", None),
        ],
    )
    def test_the_rule(self, text: str, tier: str | None) -> None:
        assert rule(text) == tier

    def test_the_choice_holds_for_the_whole_prompt(self, project: Project) -> None:
        self.configured(project)
        script = [{"calls": [LIST]}, {"text": "a"}, {"calls": [LIST]}, {"text": "b"}]
        assert self.models(project, script, ["refactor it", "hi"]) == ["big", "big", "small", "small"]

    def test_what_the_rule_leaves_open_the_fast_model_decides(self, project: Project) -> None:
        self.configured(project)
        project.configure(
            routing={"fast": "small", "strong": "big"}, workflow={"require_todo_for_complex": False}
        )
        text = "tell me about the history of this repository and its main authors"
        assert self.models(project, [{"text": "COMPLEX"}, {"text": "a"}], [text]) == ["small", "big"]

    def test_an_outage_is_taken_over_by_the_other_and_said(self, project: Project) -> None:
        self.configured(project)
        gone = {"status": 401, "body": {"error": {"message": "no access"}}}
        script = [gone, {"calls": [LIST]}, {"text": "from the small one"}]
        driver = play(project, script, ["refactor it"], model="auto")
        assert [chat["model"] for chat in driver.chats] == ["big", "small", "small"]
        assert any("takes over" in e.text for e in of(driver.seen, Notice))
        assert of(driver.seen, TurnEnded)[0].text == "from the small one"


class TestNextSpeaker:
    """A model call decides only where the text announces work that it did not do."""

    @pytest.mark.parametrize(
        "text",
        ["Let me read the file.", "First done. Now I'll run the tests:", "接下来我将修改代码。", "我来看看"],
    )
    def test_announcements(self, text: str) -> None:
        assert announces(text)

    @pytest.mark.parametrize(
        "text", ["All done.", "Let me know if you need more?", "The tests pass.", "完成了。"]
    )
    def test_no_announcements(self, text: str) -> None:
        assert not announces(text)

    def test_an_announced_step_is_taken(self, project: Project) -> None:
        script = [
            {"text": "Let me list the files."},
            {"text": "MODEL"},
            {"calls": [LIST]},
            {"text": "Two files."},
        ]
        driver = play(project, script, ["go"])
        assert of(driver.seen, TurnEnded)[0].text == "Two files."
        assert driver.chats[2]["messages"][-1]["content"] == "Please continue."
        assert "tools" not in driver.chats[1]

    def test_a_question_back_ends_the_turn(self, project: Project) -> None:
        driver = play(project, [{"text": "Now I will wait."}, {"text": "USER"}], ["go"])
        assert of(driver.seen, TurnEnded)[0].text == "Now I will wait."

    def test_a_plain_answer_costs_no_check(self, project: Project) -> None:
        assert len(play(project, [{"text": "All done."}], ["go"]).chats) == 1

    def test_always_asks(self, project: Project) -> None:
        project.configure(runtime={"next_speaker": "always"})
        assert len(play(project, [{"text": "All done."}, {"text": "USER"}], ["go"]).chats) == 2


class TestBudget:
    """Costs from the price table, a warning, and a stop before the request that would pass the limit."""

    def test_cost_by_request_turn_and_session(self, project: Project) -> None:
        project.configure(budget={"prices": PRICES})
        usage = {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100}
        cached = {**usage, "prompt_tokens_details": {"cached_tokens": 900}}
        play(project, [{"calls": [LIST], "usage": usage}, {"text": "a", "usage": cached}], ["go"])
        first, second = (e["meta"]["cost_usd"] for e in project.of_type("assistant"))
        assert first == pytest.approx((1000 * 10 + 100 * 20) / 1e6)
        assert second == pytest.approx((100 * 10 + 900 * 1 + 100 * 20) / 1e6)
        assert project.of_type("turn_end")[0]["meta"]["cost_usd"] == pytest.approx(first + second)

    def test_stops_before_the_request_that_would_pass_it(self, project: Project) -> None:
        project.configure(budget={"prices": PRICES, "max_usd": 0.05})
        usage = {"prompt_tokens": 2000, "completion_tokens": 0, "total_tokens": 2000}
        files = [
            {"calls": [{"name": "read", "arguments": {"path": f"f{n}"}}], "usage": usage} for n in range(9)
        ]
        driver = play(project, files, ["go"])
        assert len(driver.chats) == 2  # 0.02 each; a third would come to 0.06
        assert of(driver.seen, Failed)[0].code == "budget"

    def test_warns_at_its_share(self, project: Project) -> None:
        project.configure(budget={"prices": PRICES, "max_usd": 1.0, "warn_at": 0.01})
        usage = {"prompt_tokens": 2000, "completion_tokens": 0, "total_tokens": 2000}
        driver = play(project, [{"calls": [LIST], "usage": usage}, {"text": "a"}], ["go"])
        assert any("USD of the budget" in e.text for e in of(driver.seen, Notice))


def test_the_action_log_is_the_record_s(project: Project) -> None:
    project.write("a.py", "x = 1\n")
    script = [
        {
            "calls": [
                {"name": "read", "arguments": {"path": "a.py"}},
                {"name": "read", "arguments": {"path": "missing"}},
                {"name": "edit", "arguments": {"path": "a.py", "old_string": "1", "new_string": "2"}},
                {"name": "bash", "arguments": {"command": "exit 3"}},
            ]
        },
        {"text": "ok"},
    ]
    driver = play(project, script, ["go"], mode="yolo")
    again = ActionLog()
    for event in read_log(project.logs()[0]):
        again.take(event)
    text = again.whole_text()
    assert driver.engine.agent.session.action_log.whole_text() == text
    assert "Files changed (1)\n- a.py" in text
    assert "exit 3 → exit 3" in text
    assert "missing" in text


def test_the_action_log_survives_a_summary_that_says_nothing(project: Project) -> None:
    project.configure(runtime={"context_window": 9000}, workflow={"require_todo_for_complex": False})
    project.write("precious.py", "x = 1\n")
    long = " ".join(f"w{n}" for n in range(1300))
    script = [
        {"calls": [{"name": "read", "arguments": {"path": "precious.py"}}]},
        {"text": long},
        {"text": long},
        {"text": "nothing happened"},
        {"text": "fine"},
    ]
    driver = play(project, script, ["one", "two", "three"])
    summary = driver.chats[-1]["messages"][1]["content"]
    assert "nothing happened" in summary
    assert "precious.py" in summary


def test_old_outputs_are_shortened_before_anything_is_summarised(project: Project) -> None:
    project.configure(runtime={"context_window": 16000}, workflow={"require_todo_for_complex": False})
    lines = "\n".join(f"line {n} of the file" for n in range(700))
    project.write("big.txt", lines)
    read = {"calls": [{"name": "read", "arguments": {"path": "big.txt"}}]}
    middle = " ".join(f"w{n}" for n in range(900))
    driver = play(project, [read, {"text": middle}, {"text": middle}, {"text": "end"}], ["a", "b", "c"])
    assert [e["meta"].get("kind") for e in project.of_type("compaction")] == ["shorten"]
    tool = next(m for m in driver.chats[-1]["messages"] if m["role"] == "tool")
    assert "characters left out" in tool["content"]
    head, _, tail = tool["content"].partition("[…")
    assert head.endswith("of the file\n")
    assert re.match(r"\d+\tline \d+ of the file\n", tail.partition("\n")[2])
    number, line = tail.partition("\n")[2].split()[:3:2]
    assert int(number) == int(line) + 1
    path = tool["content"].split("as you saw it is in ")[1].split(" …")[0]
    with open(path, encoding="utf-8") as file:  # noqa: PTH123 - a path out of a message
        assert "line 350 of the file" in file.read()


def test_what_was_spent_is_known_after_a_resume(project: Project) -> None:
    project.configure(budget={"prices": PRICES})
    usage = {"prompt_tokens": 1000, "completion_tokens": 0, "total_tokens": 1000}
    first = play(project, [{"text": "a", "usage": usage}], ["go"])
    again = play(project, [], ["/budget"], resume=first.engine.agent.session.id)
    assert again.engine.agent.session.meter.budget.spent == pytest.approx(0.01)
