"""Compaction on the wire: when, what is asked for, what stays, what is never lost, and when it gives up."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from coder.context.compaction import NO_SUMMARY, SUMMARY_HEAD
from coder.history.log import read_log
from coder.history.replay import replay
from coder.protocol.events import ChatCompressed, Failed, Notice, TurnEnded
from coder.protocol.ops import ApprovalReply
from kit import ScriptedServer
from kit.calls import read
from kit.driving import Driver, Project, of, play
from kit.wire import by_place, grows, main_chats, prompt_tokens, side_requests, words

HEADINGS = (
    "## Goal",
    "## Done so far",
    "## Files read and changed",
    "## Commands run and their outcome",
    "## Approaches that failed",
    "## Decisions by the person",
    "## Next steps",
)
SHORT = {"text": "## Goal\nto get on"}


def configure(project: Project, window: int, **sections: Any) -> None:
    runtime = {"context_window": window, **sections.pop("runtime", {})}
    project.configure(workflow={"require_todo_for_complex": False}, runtime=runtime, **sections)


@pytest.mark.thorough
@pytest.mark.parametrize("threshold", [0.5, 0.7, 0.9])
def test_at_its_share_of_the_window_and_not_before(project: Project, threshold: float) -> None:
    window = 12_000
    configure(project, window, compaction={"threshold": threshold})
    turns = [{"text": words(150, f"t{n}x")} for n in range(40)]
    driver = play(project, by_place(turns, summary=SHORT), [f"go {n}" for n in range(30)])
    first = driver.chats.index(side_requests(driver, "summary")[0])
    sizes = [prompt_tokens(chat) for chat in driver.chats[:first]]
    assert sizes == sorted(sizes)
    step = sizes[-1] - sizes[-2]
    assert threshold * window - 2 * step < sizes[-1] <= threshold * window
    assert all(prompt_tokens(chat) <= threshold * window for chat in main_chats(driver))


def test_the_newest_share_stays_word_for_word(project: Project) -> None:
    configure(project, 12_000)
    turns = [{"text": words(150, f"t{n}x")} for n in range(40)]
    driver = play(project, by_place(turns, summary=SHORT), [f"go {n}" for n in range(20)])
    at = driver.chats.index(side_requests(driver, "summary")[0])
    before, after = driver.chats[at - 1]["messages"], driver.chats[at + 1]["messages"]
    assert after[1]["content"].startswith(SUMMARY_HEAD)
    kept = after[2:-1]
    assert kept[:-1] == before[-len(kept) + 1 :]  # the last one is the answer to `before`
    conversation = [*before[1:], kept[-1], after[-1]]
    size, whole = (prompt_tokens({"messages": messages}) for messages in (kept, conversation))
    assert 0.15 * whole < size <= 0.3 * whole
    summarised = "".join(m["content"] for m in driver.chats[at]["messages"])
    dropped = [m for m in before[1:] if m not in kept]
    assert all(m["content"][:40] in summarised for m in dropped)


def test_the_summary_is_asked_for_in_a_fixed_structure_and_without_tools(project: Project) -> None:
    configure(project, 7_000)
    driver = play(
        project, by_place([{"text": words(900)}] * 2 + [{"text": "ok"}], summary=SHORT), ["a", "b", "c"]
    )
    (request,) = side_requests(driver, "summary")
    assert "tools" not in request
    instruction = request["messages"][0]["content"]
    assert [line for line in instruction.splitlines() if line.startswith("##")] == list(HEADINGS)


def test_a_cut_never_parts_parallel_calls_from_their_results(project: Project) -> None:
    """Whatever the sizes; `play` checks every request."""
    configure(project, 9_000, runtime={"loop_guard": False})
    for n in range(12):
        project.write(f"f{n}.txt", words(40 * n, f"f{n}w"))
    steps: list[Any] = [
        {"calls": [read(f"f{(n + k) % 12}.txt") for k in range(n % 4 + 1)]} for n in range(30)
    ]
    driver = play(project, by_place([*steps, {"text": "end"}], summary=SHORT), ["go"])
    assert len(of(driver.seen, ChatCompressed)) >= 3
    assert of(driver.seen, TurnEnded)[0].text == "end"
    assert all(prompt_tokens(chat) <= 9_000 for chat in driver.chats)
    state = replay(read_log(project.logs()[0]))
    assert state.messages == driver.engine.agent.session.conversation.messages


def test_a_message_nobody_has_answered_is_kept_whole_however_long(project: Project) -> None:
    configure(project, 12_000)
    pasted = f"Here is the log: {words(1_500, 'log')} What is wrong?"
    driver = play(
        project, by_place([{"text": words(1_800)}, {"text": "I see"}], summary=SHORT), ["hi", pasted]
    )
    assert len(side_requests(driver, "summary")) == 1
    last = main_chats(driver)[-1]["messages"]
    assert last[-1]["content"].startswith(pasted)
    assert last[1]["content"].startswith(SUMMARY_HEAD)


@pytest.mark.parametrize("summary", [SHORT, {"status": 400, "body": {"error": {"message": "no"}}}])
def test_the_request_in_hand_survives_a_cut_in_the_middle_of_its_turn(
    project: Project, summary: dict[str, Any]
) -> None:
    configure(project, 9_000, runtime={"loop_guard": False})
    for n in range(8):
        project.write(f"f{n}.txt", words(350, f"f{n}w"))
    steps: list[Any] = [{"calls": [read(f"f{n % 8}.txt")]} for n in range(24)]
    request = "Count the words in every file and tell me the longest, 谢谢"
    driver = play(project, by_place([*steps, {"text": "end"}], summary=summary), [request])
    assert len(of(driver.seen, ChatCompressed)) >= 2
    for chat in main_chats(driver):
        assert request in "".join(m["content"] for m in chat["messages"])


def test_a_request_longer_than_anybody_types_is_carried_with_its_middle_left_out(project: Project) -> None:
    configure(project, 16_000, runtime={"loop_guard": False})
    for n in range(8):
        project.write(f"f{n}.txt", words(600, f"f{n}w"))
    steps: list[Any] = [{"calls": [read(f"f{n % 8}.txt")]} for n in range(16)]
    request = f"BEGIN {words(2_000, 'r')} END"
    driver = play(project, by_place([*steps, {"text": "end"}], summary=SHORT), [request])
    summary = main_chats(driver)[-1]["messages"][1]["content"]
    carried = summary.split("<request>")[1].split("</request>")[0]
    assert "BEGIN r0" in carried
    assert "r1999 END" in carried
    assert len(carried) < 6_800
    path = Path(carried.split("all of it is in ")[1].split(", to be read")[0])
    assert path.read_text(encoding="utf-8").startswith(request)


@pytest.mark.thorough
def test_the_action_log_holds_what_no_summary_says(project: Project) -> None:
    configure(project, 100_000)
    project.write("seen.py", "x = 1\n")
    project.write("changed.py", "x = 1\n")

    def bash(command: str) -> dict[str, Any]:
        return {"name": "bash", "arguments": {"command": command}}

    todo = {"todos": [{"content": "write the tests", "status": "in_progress"}]}
    calls = [
        read("seen.py"),
        {"name": "edit", "arguments": {"path": "changed.py", "old_string": "1", "new_string": "2"}},
        {"name": "edit", "arguments": {"path": "changed.py", "old_string": "nowhere", "new_string": "x"}},
        bash("exit 3"),
        bash("rm -rf build"),
        {"name": "todowrite", "arguments": todo},
        {"name": "task", "arguments": {"agent": "general", "objective": "chore"}},
    ]
    child: list[dict[str, Any]] = [
        {"calls": [{"name": "write", "arguments": {"path": "by_child.py", "content": "x"}}]},
        {"text": "done"},
    ]

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        return child.pop(0) if "You are a subagent" in request["messages"][0]["content"] else main.pop(0)

    main: list[dict[str, Any]] = [{"calls": calls}, {"text": words(600)}, {"text": "end"}]
    script = by_place([answer] * 9, summary={"text": "Nothing happened."})

    def reply(event: Any) -> ApprovalReply:
        refused = "rm -rf" in event.subject
        return ApprovalReply(event.approval_id, "no" if refused else "yes", "keep it" if refused else "")

    async def run(url: str) -> Driver:
        driver = Driver(project, url, can_ask=True)
        driver.start()
        for text in ("go", "!echo mine", "/compact", "next"):
            await driver.send(text, reply)
        await driver.close()
        return driver

    with ScriptedServer(script) as server:
        driver = asyncio.run(run(server.url))
        messages = server.chats[-1]["messages"]
    action_log = messages[1]["content"].split("<action_log>")[1].split("</action_log>")[0]
    sections = {part.split(" (")[0]: part for part in action_log.strip().split("## ")[1:]}
    assert "- changed.py" in sections["Files changed"]
    assert "- by_child.py" in sections["Files changed"]
    assert "- seen.py" in sections["Files read"]
    assert "- exit 3 → exit 3" in sections["Commands and outcome"]
    assert "- echo mine (by the person) → exit 0" in sections["Commands and outcome"]
    assert "edit changed.py" in sections["Failed"]
    assert "no to bash rm -rf build: keep it" in sections["Decisions by the person"]
    assert "[in_progress] write the tests" in sections["Todos"]
    assert driver.engine.agent.session.action_log.whole_text() in messages[1]["content"]


@pytest.mark.thorough
@pytest.mark.parametrize("word", ["文件", "file", "🙂"], ids=["chinese", "english", "emoji"])
def test_neither_action_log_nor_request_for_a_summary_outgrows_the_window(
    project: Project, word: str
) -> None:
    window = 12_000
    configure(project, window, runtime={"loop_guard": False, "max_steps": 400})
    steps: list[Any] = [{"text": word * 40, "calls": [read(f"{word * 30}{n}.txt")]} for n in range(110)]
    driver = play(project, by_place([*steps, {"text": "end"}], summary={"text": word * 50}), ["go"])
    assert of(driver.seen, TurnEnded)[0].text == "end"
    assert all(prompt_tokens(chat) <= window for chat in driver.chats)
    action_logs = [
        m["content"].split("<action_log>")[1]
        for chat in main_chats(driver)
        for m in chat["messages"]
        if m["content"].startswith(SUMMARY_HEAD)
    ]
    assert action_logs
    assert (
        max(prompt_tokens({"messages": [{"role": "user", "content": text}]}) for text in action_logs)
        < window * 0.12
    )
    whole = Path(action_logs[-1].split("The whole action log is in ")[1].split(".md")[0] + ".md")
    assert f"{word * 30}0.txt" in whole.read_text(encoding="utf-8")  # the oldest, which the context left out


def test_a_model_with_a_smaller_window_gets_no_request_that_is_larger(project: Project) -> None:
    project.configure(workflow={"require_todo_for_complex": False})
    turns = [{"text": words(300, f"t{n}x")} for n in range(26)]
    inputs = [f"go {n}" for n in range(25)]
    driver = play(
        project, by_place(turns, summary=SHORT), [*inputs, "/model llama3", "and now?"], model="gpt-4o"
    )
    *large, summary, last = driver.chats
    assert prompt_tokens(large[-1]) > 16_000
    assert {chat["model"] for chat in (summary, last)} == {"llama3"}
    assert prompt_tokens(summary) < 8_192 * 0.8
    assert prompt_tokens(last) < 8_192 * 0.7
    text = summary["messages"][1]["content"]
    assert "go 0" in text  # the task, from the start
    assert "t22x" in text  # the state, from the end
    assert "middle left out" in text


def test_what_did_not_help_is_not_tried_again_at_once(project: Project) -> None:
    """A message that is too long by itself stays; each step must not cost a summary."""
    configure(project, 10_000)
    project.write("f.txt", "short\n")
    steps: list[Any] = [{"calls": [read(f"missing{n}")]} for n in range(6)]
    script = by_place([{"text": words(300)}, *steps, {"text": "end"}], summary=SHORT)
    driver = play(project, script, ["hi", words(2_600, "p")])
    assert of(driver.seen, TurnEnded)[-1].text == "end"
    assert all(prompt_tokens(chat) > 7_000 for chat in main_chats(driver)[1:])
    assert len(side_requests(driver, "summary")) == 1


def test_shortened_outputs_can_be_read_whole_page_by_page(project: Project) -> None:
    configure(project, 20_000)
    project.write("big.txt", "\n".join(f"line {n} of the file" for n in range(1_000)))
    found: list[str] = []

    def page(request: dict[str, Any]) -> dict[str, Any]:
        (tool,) = [m["content"] for m in request["messages"] if m["role"] == "tool"]
        found.append(tool.split("as you saw it is in ")[1].split(" …")[0])
        return {"calls": [{"name": "read", "arguments": {"path": found[0], "offset": 801, "limit": 3}}]}

    script = by_place(
        [{"calls": [read("big.txt")]}, {"text": words(900)}, {"text": words(900)}, page, {"text": "end"}]
    )
    driver = play(project, script, ["a", "b", "c"])
    assert [e["meta"].get("kind") for e in project.of_type("compaction")] == ["shorten"]
    assert "line 800 of the file" in driver.chats[-1]["messages"][-1]["content"]
    assert Path(found[0]).stat().st_mode & 0o777 == 0o600
    (event,) = of(driver.seen, ChatCompressed)
    assert event.tokens_after < event.tokens_before


def test_what_was_put_away_stays_there_when_more_is_put_away_in_the_same_turn(project: Project) -> None:
    configure(project, 14_000, runtime={"loop_guard": False})
    for n in range(40):
        project.write(f"f{n}.txt", words(500, f"only{n}x").replace(" ", "\n"))
    steps: list[Any] = [{"calls": [read(f"f{n}.txt")]} for n in range(40)]
    play(project, by_place([*steps, {"text": "end"}], summary=SHORT), ["go"])
    shortened = [text for e in project.of_type("compaction") for _, text in e["meta"].get("replaced", [])]
    assert len(shortened) > 10
    for text in shortened:
        first = next(word for word in text.split() if word.startswith("only"))
        path = Path(text.split("as you saw it is in ")[1].split(" …")[0])
        whole = path.read_text(encoding="utf-8")
        assert first in whole.split()[:4]  # of this output, and of no later one
        assert len(whole) > len(text)


def test_a_newest_result_that_is_too_long_is_shortened_and_not_summarised_away(project: Project) -> None:
    configure(project, 14_000)
    project.write("big.txt", "\n".join(f"line {n} of the file" for n in range(1_900)))
    driver = play(project, by_place([{"calls": [read("big.txt")]}, {"text": "end"}], summary=SHORT), ["look"])
    last = main_chats(driver)[-1]["messages"]
    assert last[-1]["role"] == "tool"
    assert "line 0 of the file" in last[-1]["content"]
    assert "characters left out" in last[-1]["content"]
    assert side_requests(driver, "summary") == []


def test_after_it_the_model_is_told_again_what_messages_had_told_it(project: Project) -> None:
    configure(project, 100_000)
    project.write(".coder/memory.md", "- Old truth.\n")
    inputs = ["hi", "/memory forget 1", "/memory add New truth.", "go", "/compact", "next"]
    script = by_place([{"text": words(600)}, {"text": "ok"}, {"text": "end"}], summary=SHORT)
    driver = play(project, script, inputs, mode="plan")
    _, summary, *_, last = driver.chats[-1]["messages"]
    assert "Remembered since: New truth." in summary["content"]
    assert "No longer holds: Old truth." in summary["content"]
    assert "Operating mode plan" in last["content"]


def test_the_summary_comes_from_the_model_in_use_and_another_where_that_one_cannot(project: Project) -> None:
    configure(project, 7_000, routing={"fast": "small", "strong": "big"})
    gone = {"status": 402, "body": {"error": {"message": "insufficient_quota"}}}
    main = [{"text": words(900)}, {"text": words(900, "x")}, {"text": "ok"}, {"text": "ok"}]
    driver = play(project, by_place(main, summary=[gone, SHORT, SHORT]), ["hi", "hi", "fix it"], model="auto")
    assert [c["model"] for c in side_requests(driver, "summary")] == ["big", "small"]
    assert main_chats(driver)[-1]["model"] == "small"  # for the rest of the prompt
    assert len([e for e in of(driver.seen, Notice) if "takes over" in e.text]) == 1


@pytest.mark.parametrize(
    ("chosen", "inputs", "asked"),
    [
        ("auto", ["/compact"], "big"),  # nothing was asked of any model yet, and none is called `auto`
        ("auto", ["hi", "/compact"], "small"),
        ("older", ["hi", "/model newer", "/compact"], "newer"),
    ],
)
def test_who_is_asked_for_a_summary_between_turns(
    project: Project, chosen: str, inputs: list[str], asked: str
) -> None:
    configure(project, 100_000, routing={"fast": "small", "strong": "big"})
    first = play(project, [{"text": words(300)}, {"text": words(300)}], ["hi", "hi"])
    session = first.engine.agent.session.id
    driver = play(project, by_place([{"text": "ok"}], summary=SHORT), inputs, resume=session, model=chosen)
    (request,) = side_requests(driver, "summary")
    assert request["model"] == asked


def test_a_provider_that_finds_it_too_long_is_asked_again_with_less(project: Project) -> None:
    configure(project, 128_000)  # more than the model really has
    too_long = {"status": 400, "body": {"error": {"message": "maximum context length is 4096 tokens"}}}
    main = [{"text": words(900)}, {"text": words(900, "x")}, too_long, {"text": "fits"}]
    driver = play(project, by_place(main, summary=SHORT), ["a", "b", "c"])
    assert of(driver.seen, TurnEnded)[-1].text == "fits"
    assert of(driver.seen, Failed) == []
    before, after = main_chats(driver)[-2:]
    assert prompt_tokens(after) < prompt_tokens(before) / 2
    assert after["messages"][-1]["content"].startswith("c")


@pytest.mark.parametrize("auto", [True, False])
def test_where_less_does_not_help_or_is_not_wanted_the_turn_says_why(project: Project, auto: bool) -> None:
    configure(project, 128_000, compaction={"auto": auto})
    too_long = {"status": 400, "body": {"error": {"message": "maximum context length is 4096 tokens"}}}
    main = [{"text": words(900)}, {"text": words(900, "x")}, too_long, too_long]
    driver = play(project, by_place(main, summary=SHORT), ["a", "b", "c"])
    assert of(driver.seen, TurnEnded)[-1].status == "prompt_limit"
    assert "too long" in of(driver.seen, Failed)[0].text
    assert len(side_requests(driver, "summary")) == (1 if auto else 0)


def test_an_earlier_summary_goes_into_the_next_one(project: Project) -> None:
    configure(project, 7_000)
    turns = [{"text": words(700, f"t{n}x")} for n in range(8)]
    summaries = [{"text": f"## Goal\nsummary number {n}"} for n in range(9)]
    driver = play(project, by_place(turns, summary=summaries), [f"go {n}" for n in range(7)])
    second = side_requests(driver, "summary")[1]
    assert "summary number 0" in second["messages"][1]["content"]
    assert second["messages"][1]["content"].count("<action_log>") == 0


def test_between_two_compactions_the_conversation_only_grows(project: Project) -> None:
    configure(project, 9_000, runtime={"loop_guard": False})
    for n in range(8):
        project.write(f"f{n}.txt", words(200, f"f{n}w"))
    steps: list[Any] = [{"calls": [read(f"f{n % 8}.txt")]} for n in range(60)]
    driver = play(project, by_place([*steps, {"text": "end"}], summary=SHORT), ["go"])
    chats = main_chats(driver)
    shrunk = sum(not grows(before, after) for before, after in pairwise(chats))
    compacted = {(e["turn"], e["step"]) for e in project.of_type("compaction")}
    assert shrunk == len(compacted) >= 2


def test_a_failing_summary_leaves_the_conversation_as_it_was(project: Project) -> None:
    configure(project, 7_000)
    gone = {"status": 400, "body": {"error": {"message": "no"}}}
    main = [{"text": words(900)}, {"text": words(600, "x")}, {"text": "end"}]
    driver = play(project, by_place(main, summary=gone), ["first", "second", "third"])
    before, after = main_chats(driver)[-2:]
    assert len(side_requests(driver, "summary")) == 1
    assert grows(before, after)
    told = [e.text for e in of(driver.seen, Notice) if "as it was" in e.text]
    assert len(told) == 1
    assert project.of_type("compaction") == []


def test_where_outputs_were_shortened_a_failing_summary_does_not_claim_otherwise(project: Project) -> None:
    configure(project, 9_000)
    project.write("long.txt", words(500, "l").replace(" ", "\n"))
    gone = {"status": 400, "body": {"error": {"message": "no"}}}
    main = [{"calls": [read("long.txt")]}, {"text": words(800)}, {"text": words(500, "x")}, {"text": "end"}]
    driver = play(project, by_place(main, summary=gone), ["first", "second", "third"])
    assert [e["meta"].get("kind") for e in project.of_type("compaction")] == ["shorten"]
    (told,) = [e.text for e in of(driver.seen, Notice) if "No summary" in e.text]
    assert "older outputs were shortened, all else is as it was" in told


def test_the_action_log_tells_each_thing_once(project: Project) -> None:
    configure(project, 100_000)
    project.write("a.py", "x = 1\n")

    def call(name: str, **arguments: Any) -> dict[str, Any]:
        return {"calls": [{"name": name, "arguments": arguments}]}

    tries = [call("edit", path="a.py", old_string=f"no{n}", new_string="x") for n in range(3)]
    rm = [call("bash", command="rm -rf build")] * 2
    failing = call("bash", command="echo no such thing; exit 3")
    main = [call("read", path="./a.py"), call("read", path="a.py"), *tries, *rm, failing, {"text": "end"}]

    async def run(url: str) -> Driver:
        driver = Driver(project, url, can_ask=True)
        driver.start()
        await driver.send(
            "go", lambda e: ApprovalReply(e.approval_id, "no" if "rm" in str(e.subject) else "yes")
        )
        await driver.close()
        return driver

    with ScriptedServer(main) as server:
        action_log = asyncio.run(run(server.url)).engine.agent.session.action_log
    sections = dict(action_log.sections())
    assert sections["Files read"] == ["a.py"]
    assert [line.endswith("(×3)") for line in sections["Failed"]] == [True]
    assert sections["Decisions by the person"] == ["no to bash rm -rf build (×2)"]
    commands = sections["Commands and outcome"]
    assert [line.split(" → ")[0] for line in commands] == ["rm -rf build", "echo no such thing; exit 3"]
    assert commands[1].endswith("→ exit 3: no such thing")


def test_a_failing_summary_leaves_action_log_and_tail_where_the_window_would_burst(project: Project) -> None:
    configure(project, 7_000)
    project.write("seen.txt", "x\n")
    gone = {"status": 400, "body": {"error": {"message": "no"}}}
    main = [{"calls": [read("seen.txt")]}, {"text": words(700)}, {"text": words(500, "x")}, {"text": "end"}]
    driver = play(project, by_place(main, summary=gone), ["first", "second", words(1_200, "third")])
    assert len([e for e in of(driver.seen, Notice) if "newest messages are kept" in e.text]) == 1
    messages = main_chats(driver)[-1]["messages"]
    assert NO_SUMMARY in messages[1]["content"]
    assert "- seen.txt" in messages[1]["content"].split("<action_log>")[1]
    assert messages[-1]["content"].startswith("third0")
