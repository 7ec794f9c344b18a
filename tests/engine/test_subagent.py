"""Subagents: own context, same policy, one record, one undo, one budget."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from coder.protocol.events import (
    ApprovalRequested,
    Content,
    Notice,
    ToolCallChanged,
    TurnEnded,
    VerifyChanged,
)
from coder.protocol.ops import ApprovalReply
from kit import ScriptedServer
from kit.driving import Driver, Project, of, play


def task(agent: str, objective: str) -> dict[str, Any]:
    return {"name": "task", "arguments": {"agent": agent, "objective": objective}}


def by_system(**turns: list[Any]) -> Any:
    """Answers by who asks: the main loop, or a subagent by the words of its objective."""

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        first = next(m["content"] for m in request["messages"] if m["role"] == "user")
        name = next((n for n in turns if n in first.split("<note>")[0]), "main")
        turn: dict[str, Any] = turns[name].pop(0)
        return turn

    return answer


def play_answering(project: Project, inputs: list[str], answer: Any, **options: Any) -> Driver:
    """All requests, those of subagents too, are answered by the function `answer`; nothing is asked."""
    return play(project, [answer] * 40, inputs, **{"mode": "yolo", "preset": "yolo", **options})


def test_its_report_comes_back_and_its_details_do_not(project: Project) -> None:
    project.write("a.txt", "the secret is 42\n")
    answer = by_system(
        dig=[{"calls": [{"name": "read", "arguments": {"path": "a.txt"}}]}, {"text": "It is 42 (a.txt:1)."}],
        main=[{"calls": [task("explore", "dig for the number")]}, {"text": "42"}],
    )
    driver = play_answering(project, ["what is it?"], answer)
    assert of(driver.seen, TurnEnded)[0].text == "42"
    main = [c for c in driver.chats if "what is it?" in c["messages"][1]["content"]]
    child = [c for c in driver.chats if c not in main]
    assert main[1]["messages"][-1]["content"] == "It is 42 (a.txt:1)."
    assert "the secret" not in str(main)
    names = {t["function"]["name"] for t in child[0]["tools"]}
    assert "task" not in names
    assert "write" not in names
    kinds = [e["meta"]["event"]["type"] for e in project.of_type("subagent")]
    assert kinds == ["turn_start", "assistant", "action", "observation", "assistant", "final", "turn_end"]
    assert project.of_type("observation")[-1]["meta"]["steps"] == 2
    end = project.of_type("turn_end")[0]["meta"]["tokens"]["total"]
    own = sum(e["meta"]["tokens"]["total"] for e in project.of_type("assistant"))
    assert end > own  # the subagent's tokens are the turn's


def test_nobody_typed_what_is_at_in_an_objective(project: Project) -> None:
    project.write("a.txt", "the secret is 42\n")
    answer = by_system(
        dig=[{"text": "done"}],
        main=[{"calls": [task("explore", "dig: who uses @scope/api, see @a.txt")]}, {"text": "ok"}],
    )
    driver = play_answering(project, ["go"], answer)
    child = next(c for c in driver.chats if "dig:" in c["messages"][1]["content"])
    assert "the secret is 42" not in str(child["messages"])
    assert not any("no such file" in str(notice.text) for notice in of(driver.seen, Notice))


def test_who_changes_files_knows_the_project_s_rules_and_who_looks_what_may_run(project: Project) -> None:
    project.write("pyproject.toml", "")
    project.write("AGENTS.md", "Never touch the changelog.")
    project.write("lib/AGENTS.md", "Two spaces here.")
    project.write("lib/x.py", "x = 1\n")
    read = {"calls": [{"name": "read", "arguments": {"path": "lib/x.py"}}]}
    both = {"calls": [task("general", "mend it"), task("explore", "find it")]}

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        main = request["messages"][0]["content"].startswith("You are coder")
        script: list[Any] = [read, both, {"text": "ok"}] if main else [read, {"text": "done"}]
        step: dict[str, Any] = script[sum(m["role"] == "assistant" for m in request["messages"])]
        return step

    driver = play_answering(project, ["go"], answer)
    said = [
        c["messages"] for c in driver.chats if c["messages"][0]["content"].startswith("You are a subagent")
    ]
    general, explore = (
        next(messages for messages in reversed(said) if words in [m["content"] for m in messages])
        for words in ("mend it", "find it")
    )
    assert "Never touch the changelog." in general[1]["content"]
    assert "Two spaces here." in general[-1]["content"]
    assert "\ntests: pytest -q" in general[0]["content"]
    assert "Never touch" not in str(explore)
    assert "\ntests:" not in explore[0]["content"]
    assert "all others, tests too, are denied" in explore[0]["content"]


def test_several_run_at_once_and_answer_in_order(project: Project) -> None:
    answer = by_system(
        first=[{"text": "one", "delay": 0.05}],
        second=[{"text": "two"}],
        main=[{"calls": [task("explore", "first"), task("explore", "second")]}, {"text": "both"}],
    )
    driver = play_answering(project, ["go"], answer)
    contents = [m["content"] for m in driver.chats[-1]["messages"] if m["role"] == "tool"]
    assert contents == ["one", "two"]


def test_exploring_changes_nothing_whatever_the_mode(project: Project) -> None:
    answer = by_system(
        look=[{"calls": [{"name": "bash", "arguments": {"command": "touch made"}}]}, {"text": "refused"}],
        main=[{"calls": [task("explore", "look")]}, {"text": "ok"}],
    )
    play_answering(project, ["go"], answer)
    assert not (project.cwd / "made").exists()


@pytest.mark.parametrize(
    ("mode", "preset"), [("default", "balanced"), ("plan", "balanced"), ("default", "strict")]
)
def test_exploring_runs_unasked_and_can_only_read(project: Project, mode: str, preset: str) -> None:
    project.write("a.txt", "x\n")
    tries = [
        {"name": "write", "arguments": {"path": "made", "content": "x"}},
        {"name": "apply_patch", "arguments": {"patch": "*** Add File: made\n+x"}},
        {"name": "bash", "arguments": {"command": "touch made"}},
        {"name": "task", "arguments": {"agent": "general", "objective": "make it"}},
        {"name": "read", "arguments": {"path": "a.txt"}},
    ]
    answer = by_system(
        look=[{"calls": tries}, {"text": "looked"}],
        main=[{"calls": [task("explore", "look")]}, {"text": "ok"}],
    )
    driver = play_answering(project, ["go"], answer, mode=mode, preset=preset, can_ask=True)
    assert of(driver.seen, ApprovalRequested) == []
    assert project.of_type("observation")[-1]["content"] == "looked"
    assert not (project.cwd / "made").exists()
    told = [e for e in project.of_type("subagent") if e["meta"]["event"]["type"] == "observation"]
    assert [e["meta"]["event"]["meta"]["ok"] for e in told] == [False] * 4 + [True]
    offered = next(c for c in driver.chats if c["messages"][1]["content"].startswith("look"))["tools"]
    assert {t["function"]["name"] for t in offered} == {"read", "list", "glob", "grep", "bash"}


def test_in_plan_mode_a_general_one_is_bound_too(project: Project) -> None:
    write = {"name": "write", "arguments": {"path": "made", "content": "x"}}
    answer = by_system(
        chore=[{"calls": [write]}, {"text": "refused"}],
        main=[{"calls": [task("general", "chore")]}, {"text": "ok"}],
    )
    play_answering(project, ["go"], answer, mode="plan")
    assert not (project.cwd / "made").exists()


def test_its_edits_are_undone_and_verified_with_the_turn(project: Project) -> None:
    write = {"name": "write", "arguments": {"path": "made.py", "content": "x = 1\n"}}
    answer = by_system(
        chore=[{"calls": [write]}, {"text": "made"}],
        main=[{"calls": [task("general", "chore")]}, {"text": "ok"}],
    )
    driver = play_answering(project, ["go", "/undo"], answer)
    assert not (project.cwd / "made.py").exists()
    assert [e.state for e in of(driver.seen, VerifyChanged)] == ["skipped"]


def test_a_subagent_that_fails_is_a_failed_call(project: Project) -> None:
    answer = by_system(
        chore=[{"status": 400, "body": {"error": {"message": "broken"}}}],
        main=[{"calls": [task("general", "chore")]}, {"text": "I see"}],
    )
    driver = play_answering(project, ["go"], answer)
    assert driver.chats[-1]["messages"][-1]["content"].startswith("error: the subagent did not finish")
    assert of(driver.seen, TurnEnded)[0].text == "I see"


class AllAtOnce(ScriptedServer):
    """Answers a subagent only once as many of them as expected have asked."""

    def __init__(self, script: Any, expected: int) -> None:
        super().__init__(script)
        self.expected = expected
        self.waiting = 0
        self.all_here = asyncio.Event()

    async def play(self, turn: Any, request: Any, writer: asyncio.StreamWriter) -> None:
        if "You are a subagent" in request.json["messages"][0]["content"]:
            self.waiting += 1
            if self.waiting == self.expected:
                self.all_here.set()
            async with asyncio.timeout(20):
                await self.all_here.wait()
        await super().play(turn, request, writer)


def test_those_that_need_no_approval_really_run_side_by_side(project: Project) -> None:
    tasks = [task("explore", f"part{n}") for n in range(3)]
    answer = by_system(
        part0=[{"text": "zero"}],
        part1=[{"text": "one"}],
        part2=[{"text": "two"}],
        main=[{"calls": tasks}, {"text": "all"}],
    )

    async def run() -> Driver:
        async with AllAtOnce([answer] * 9, 3) as server:
            driver = Driver(project, server.url, mode="yolo", preset="yolo")
            driver.start()
            await driver.send("go")
            await driver.close()
            driver.chats = server.chats
            return driver

    driver = asyncio.run(run())
    contents = [m["content"] for m in driver.chats[-1]["messages"] if m["role"] == "tool"]
    assert contents == ["zero", "one", "two"]


def test_it_is_bound_by_the_preset_and_asks_the_same_person(project: Project) -> None:
    write = {"name": "write", "arguments": {"path": "made", "content": "x"}}

    async def run(answer: Any) -> Driver:
        script = by_system(
            chore=[{"calls": [write]}, {"text": "as they wished"}],
            main=[{"calls": [task("general", "chore")]}, {"text": "ok"}],
        )
        async with ScriptedServer([script] * 9) as server:
            driver = Driver(project, server.url, can_ask=True)
            driver.start()

            def reply(event: ApprovalRequested) -> ApprovalReply:
                asked.append(event.tool)
                return ApprovalReply(event.approval_id, "yes" if event.tool == "task" else answer)

            await driver.send("go", reply)
            await driver.close()
            return driver

    asked: list[str] = []
    asyncio.run(run("no"))
    assert asked == ["task", "write"]
    assert not (project.cwd / "made").exists()
    asyncio.run(run("yes"))
    assert (project.cwd / "made").read_text(encoding="utf-8") == "x"


def test_a_long_report_is_cut_and_says_so(project: Project) -> None:
    answer = by_system(
        dig=[{"text": " ".join(f"finding{n}" for n in range(2_000))}],
        main=[{"calls": [task("explore", "dig")]}, {"text": "ok"}],
    )
    driver = play_answering(project, ["go"], answer)
    report = driver.chats[-1]["messages"][-1]["content"]
    assert report.startswith("finding0 ")
    assert report.endswith("[cut at 8000 characters]")
    assert len(report) < 8_100


def test_what_it_does_is_shown_and_what_it_says_is_not(project: Project) -> None:
    project.write("a.txt", "x\n")
    answer = by_system(
        dig=[
            {"text": "I look.", "calls": [{"name": "read", "arguments": {"path": "a.txt"}}]},
            {"text": "The report."},
        ],
        main=[{"calls": [task("explore", "dig")]}, {"text": "ok"}],
    )
    driver = play_answering(project, ["go"], answer)
    shown = [e.tool for e in of(driver.seen, ToolCallChanged) if e.state == "success"]
    assert shown == ["explore › read", "task"]
    assert "".join(e.text for e in of(driver.seen, Content)) == "ok"


def test_its_context_is_compacted_by_itself_and_its_parents_is_not(project: Project) -> None:
    project.configure(runtime={"context_window": 9_000, "loop_guard": False})
    for n in range(8):
        project.write(f"f{n}.txt", " ".join(f"f{n}w{k}" for k in range(350)))
    reads = [{"calls": [{"name": "read", "arguments": {"path": f"f{n % 8}.txt"}}]} for n in range(20)]
    answer = by_system(
        dig=[*reads, {"text": "The report."}],
        main=[{"calls": [task("explore", "dig it all up")]}, {"text": "ok"}],
    )

    def with_summaries(request: dict[str, Any]) -> Any:
        asks = request["messages"][0]["content"].startswith("Summarise the conversation")
        return {"text": "## Goal\ndig"} if asks else answer(request)

    driver = play_answering(project, ["go"], with_summaries)
    kinds = [e["meta"]["event"]["type"] for e in project.of_type("subagent")]
    assert "compaction" in kinds
    assert project.of_type("compaction") == []
    assert driver.chats[-1]["messages"][-1]["content"] == "The report."
    counted = sum(e["meta"]["tokens"]["prompt"] for e in project.of_type("assistant")) + sum(
        e["meta"]["event"]["meta"]["tokens"]["prompt"]
        for e in project.of_type("subagent")
        if e["meta"]["event"]["type"] in ("assistant", "usage")
    )
    assert project.of_type("turn_end")[0]["meta"]["tokens"]["prompt"] == counted
