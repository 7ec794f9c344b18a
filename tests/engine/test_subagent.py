"""Subagents: own context, same policy, one record, one undo, one budget."""

from __future__ import annotations

from typing import Any

from coder.protocol.events import TurnEnded, VerifyChanged
from kit import ScriptedServer
from kit.driving import Driver, Project, drive, of


def task(agent: str, objective: str) -> dict[str, Any]:
    return {"name": "task", "arguments": {"agent": agent, "objective": objective}}


def by_system(**turns: list[Any]) -> Any:
    """Answers by who asks: the main loop, or a subagent by the words of its objective."""

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        first = next(m["content"] for m in request["messages"] if m["role"] == "user")
        name = next((n for n in turns if n in first), "main")
        turn: dict[str, Any] = turns[name].pop(0)
        return turn

    return answer


def play(project: Project, inputs: list[str], answer: Any, **options: Any) -> Driver:
    with ScriptedServer([answer] * 40) as server:
        driver = drive(project, server.url, inputs, **{"mode": "yolo", "preset": "yolo", **options})
        driver.chats = server.chats
    return driver


def test_its_report_comes_back_and_its_details_do_not(project: Project) -> None:
    project.write("a.txt", "the secret is 42\n")
    answer = by_system(
        dig=[{"calls": [{"name": "read", "arguments": {"path": "a.txt"}}]}, {"text": "It is 42 (a.txt:1)."}],
        main=[{"calls": [task("explore", "dig for the number")]}, {"text": "42"}],
    )
    driver = play(project, ["what is it?"], answer)
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


def test_several_run_at_once_and_answer_in_order(project: Project) -> None:
    answer = by_system(
        first=[{"text": "one", "delay": 0.05}],
        second=[{"text": "two"}],
        main=[{"calls": [task("explore", "first"), task("explore", "second")]}, {"text": "both"}],
    )
    driver = play(project, ["go"], answer)
    contents = [m["content"] for m in driver.chats[-1]["messages"] if m["role"] == "tool"]
    assert contents == ["one", "two"]


def test_exploring_changes_nothing_whatever_the_mode(project: Project) -> None:
    answer = by_system(
        look=[{"calls": [{"name": "bash", "arguments": {"command": "touch made"}}]}, {"text": "refused"}],
        main=[{"calls": [task("explore", "look")]}, {"text": "ok"}],
    )
    play(project, ["go"], answer)
    assert not (project.cwd / "made").exists()


def test_in_plan_mode_a_general_one_is_bound_too(project: Project) -> None:
    write = {"name": "write", "arguments": {"path": "made", "content": "x"}}
    answer = by_system(
        chore=[{"calls": [write]}, {"text": "refused"}],
        main=[{"calls": [task("general", "chore")]}, {"text": "ok"}],
    )
    play(project, ["go"], answer, mode="plan")
    assert not (project.cwd / "made").exists()


def test_its_edits_are_undone_and_verified_with_the_turn(project: Project) -> None:
    write = {"name": "write", "arguments": {"path": "made.py", "content": "x = 1\n"}}
    answer = by_system(
        chore=[{"calls": [write]}, {"text": "made"}],
        main=[{"calls": [task("general", "chore")]}, {"text": "ok"}],
    )
    driver = play(project, ["go", "/undo"], answer)
    assert not (project.cwd / "made.py").exists()
    assert [e.state for e in of(driver.seen, VerifyChanged)] == ["skipped"]


def test_a_subagent_that_fails_is_a_failed_call(project: Project) -> None:
    answer = by_system(
        chore=[{"status": 400, "body": {"error": {"message": "broken"}}}],
        main=[{"calls": [task("general", "chore")]}, {"text": "I see"}],
    )
    driver = play(project, ["go"], answer)
    assert driver.chats[-1]["messages"][-1]["content"].startswith("error: the subagent did not finish")
    assert of(driver.seen, TurnEnded)[0].text == "I see"
