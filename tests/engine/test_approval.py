"""Approval: one question with all reasons, its answers, and what happens where nobody is there to ask."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import pytest

from coder.protocol.events import ApprovalRequested, Notice, TurnEnded
from coder.protocol.ops import ApprovalReply, Cancel
from coder.tools.text.hunks import Review
from kit import ScriptedServer
from kit.calls import bash
from kit.driving import Driver, Project, drive, of

WRITE = {"name": "write", "arguments": {"path": "new.txt", "content": "hello\n"}}


Answer = Literal["yes", "no", "always"]


def ask(
    project: Project, calls: list[dict[str, Any]], answer: Answer, reason: str = "", turns: int = 1
) -> Driver:
    """Play `calls` in one answer per turn, with a person who always answers the same."""

    async def scenario(url: str) -> Driver:
        driver = Driver(project, url, can_ask=True)
        driver.start()
        for _ in range(turns):
            await driver.send("go", lambda e: ApprovalReply(e.approval_id, answer, reason))
        await driver.close()
        return driver

    script = [{"calls": calls}, {"text": "done"}] * turns
    with ScriptedServer(script) as server:
        return asyncio.run(scenario(server.url))


def test_yes_runs_it(project: Project) -> None:
    driver = ask(project, [WRITE], "yes")
    (asked,) = of(driver.seen, ApprovalRequested)
    assert asked.subject_kind == "diff"
    assert "+hello" in asked.subject
    assert (project.cwd / "new.txt").read_text() == "hello\n"
    answers = [e["meta"].get("answer") for e in project.of_type("approval")]
    assert answers == [None, "yes"]


def test_no_tells_the_model_why(project: Project) -> None:
    ask(project, [WRITE], "no", "use another name")
    assert not (project.cwd / "new.txt").exists()
    (observation,) = project.of_type("observation")
    assert observation["content"].startswith("denied: ")
    assert "use another name" in observation["content"]
    assert observation["content"].endswith("\nGo on as the person says here.")
    assert observation["meta"]["denied"] is True


def test_a_word_that_is_no_answer_allows_nothing(project: Project) -> None:
    ask(project, [WRITE], "perhaps")  # type: ignore[arg-type] # a front end may send it: Python checks no field
    assert not (project.cwd / "new.txt").exists()
    assert [e["meta"].get("answer") for e in project.of_type("approval")] == [None, "no"]


def test_every_reason_is_in_one_question(project: Project) -> None:
    project.write("old.txt", "x")
    driver = ask(project, [bash("rm old.txt > $(echo log)")], "no")
    (asked,) = of(driver.seen, ApprovalRequested)
    assert len(asked.reasons) >= 2
    assert not asked.can_always


def test_always_covers_the_next_time_and_the_next_session(project: Project) -> None:
    driver = ask(project, [bash("touch a.txt")], "always", turns=2)
    assert len(of(driver.seen, ApprovalRequested)) == 1
    again = ask(project, [bash("touch b.txt")], "no")
    assert of(again.seen, ApprovalRequested) == []
    assert (project.cwd / "b.txt").exists()
    other = ask(project, [bash("touch c.txt && mkdir d")], "no")
    assert len(of(other.seen, ApprovalRequested)) == 1  # every segment must be covered
    assert not (project.cwd / ".coder" / "config.json").exists()  # kept in the home, not in the project


WRAPPED_OR_RISKY = ["sudo touch a", "env touch a", "sh -c 'touch a'", "echo a | xargs touch", "rm a"]


@pytest.mark.parametrize("line", WRAPPED_OR_RISKY)
def test_always_is_not_offered_for_wrappers_and_risks(project: Project, line: str) -> None:
    driver = ask(project, [bash(line)], "no")
    (asked,) = of(driver.seen, ApprovalRequested)
    assert not asked.can_always


def test_an_always_that_was_not_offered_is_only_a_yes(project: Project) -> None:
    project.write("a", "x")
    driver = ask(project, [bash("rm -f a")], "always", turns=2)
    assert len(of(driver.seen, ApprovalRequested)) == 2


def test_a_cancel_while_waiting_cancels_the_turn(project: Project) -> None:
    async def scenario(url: str) -> Driver:
        driver = Driver(project, url, can_ask=True)
        driver.start()

        def cancel(_event: ApprovalRequested) -> None:
            driver.engine.submit(Cancel())

        await driver.send("go", cancel)
        await driver.close()
        return driver

    with ScriptedServer([{"calls": [WRITE, WRITE]}, {"text": "never"}]) as server:
        driver = asyncio.run(scenario(server.url))
        assert len(server.chats) == 1
    assert of(driver.seen, TurnEnded)[0].status == "cancelled"
    assert len(project.of_type("observation")) == 2  # no call is left without an answer
    assert not (project.cwd / "new.txt").exists()


FETCH = {"name": "fetch", "arguments": {"url": "https://example.com/"}}


@pytest.mark.parametrize(
    ("call", "options", "tools", "flag"),
    [
        (WRITE, {}, {}, "--mode auto-edit would"),
        (bash("touch x"), {}, {}, "--mode yolo would"),
        (bash("pytest -q"), {}, {}, "--mode auto-edit would"),
        ({"name": "save_memory", "arguments": {"fact": "x"}}, {}, {}, "--permissions yolo would"),
        (FETCH, {}, {}, "--permissions yolo would"),
        (FETCH, {}, {"fetch": "ask"}, "the setting approval.auto_approve_ask would"),
        (FETCH, {"mode": "yolo"}, {}, "--permissions yolo would"),
    ],
)
def test_the_flag_that_is_named_would_help(
    project: Project, call: dict[str, Any], options: dict[str, Any], tools: dict[str, str], flag: str
) -> None:
    project.configure(permission={"tools": tools})
    with ScriptedServer([{"calls": [call]}, {"text": "done"}]) as server:
        driver = drive(project, server.url, ["go"], **options)
    assert [flag in e.text for e in of(driver.seen, Notice) if "nobody" in e.text] == [True]


def test_without_a_terminal_an_ask_is_denied_and_the_flag_is_named(project: Project) -> None:
    with ScriptedServer([{"calls": [WRITE, bash("touch x")]}, {"text": "done"}]) as server:
        driver = drive(project, server.url, ["go"])
    assert not (project.cwd / "new.txt").exists()
    assert not (project.cwd / "x").exists()
    first, second = project.of_type("observation")
    assert first["content"].startswith("denied: ")
    assert second["content"].startswith("denied: ")
    told = " ".join(e.text for e in of(driver.seen, Notice))
    assert "--mode auto-edit" in told
    assert "--mode yolo" in told


@pytest.mark.parametrize("section", [{"auto_approve_ask": True}, {"interactive": False}])
def test_configuration_can_let_an_ask_through(project: Project, section: dict[str, bool]) -> None:
    project.configure(approval=section)
    with ScriptedServer([{"calls": [WRITE]}, {"text": "done"}]) as server:
        drive(project, server.url, ["go"])
    assert (project.cwd / "new.txt").exists()
    assert project.of_type("approval")[0]["meta"]["answer"] == "auto"


@pytest.mark.parametrize("mode", ["plan", "default", "auto-edit", "yolo"])
def test_modes(project: Project, mode: Any) -> None:
    project.write("victim", "x")
    calls = [WRITE, bash("ls"), bash("rm victim")]
    with ScriptedServer([{"calls": calls}, {"text": "done"}]) as server:
        drive(project, server.url, ["go"], mode=mode)
    ok = [e["meta"]["ok"] for e in project.of_type("observation")]
    assert (
        ok
        == {
            "plan": [False, True, False],
            "default": [False, True, False],
            "auto-edit": [True, True, False],
            "yolo": [True, True, True],
        }[mode]
    )
    assert (project.cwd / "victim").exists() == (mode != "yolo")


def test_a_deny_beats_everything_but_yolo_and_bash(project: Project) -> None:
    project.configure(permission={"tools": {"write": "deny", "bash": "deny"}})
    with ScriptedServer([{"calls": [WRITE, bash("touch x")]}, {"text": "done"}]) as server:
        drive(project, server.url, ["go"], mode="yolo")
    assert not (project.cwd / "new.txt").exists()
    assert (project.cwd / "x").exists()


def test_all_modes_stay_inside_the_workspace(project: Project) -> None:
    outside = project.home / "secret.txt"
    outside.write_text("secret")
    calls = [
        {"name": "read", "arguments": {"path": str(outside)}},
        {"name": "write", "arguments": {"path": "../out.txt", "content": "x"}},
    ]
    with ScriptedServer([{"calls": calls}, {"text": "done"}]) as server:
        drive(project, server.url, ["go"], mode="yolo")
    assert all(e["meta"]["denied"] for e in project.of_type("observation"))
    assert not (project.cwd.parent / "out.txt").exists()


def test_nobody_is_asked_about_what_cannot_be_done(project: Project) -> None:
    project.write("notes.txt", "unread\n")
    calls = [
        {"name": "write", "arguments": {"path": "notes.txt", "content": "x\n"}},
        {"name": "edit", "arguments": {"path": "gone.txt", "old_string": "a", "new_string": "b"}},
    ]
    driver = ask(project, calls, "yes")
    assert of(driver.seen, ApprovalRequested) == []
    assert [event["content"][:6] for event in project.of_type("observation")] == ["error:", "error:"]
    assert (project.cwd / "notes.txt").read_text(encoding="utf-8") == "unread\n"


def test_what_was_left_of_a_change_is_told_numbered_as_it_is_and_kept_in_the_action_log(
    project: Project,
) -> None:
    project.write("a.txt", "".join(f"line {n}\n" for n in range(1, 31)))
    changed = "".join({3: "a\nb\n", 28: "last\nend\n"}.get(n, f"line {n}\n") for n in range(1, 31))
    read = {"name": "read", "arguments": {"path": "a.txt"}}
    write = {"name": "write", "arguments": {"path": "a.txt", "content": changed}}

    def answer(event: ApprovalRequested) -> ApprovalReply:
        review = Review(str(event.subject))
        review.leave("three stays")
        review.take()
        return review.reply(event)

    async def scenario(url: str) -> str:
        driver = Driver(project, url, can_ask=True)
        driver.start()
        await driver.send("go", answer)
        action_log = driver.engine.agent.session.action_log.whole_text()
        await driver.close()
        return action_log

    with ScriptedServer([{"calls": [read, write]}, {"text": "done"}]) as server:
        action_log = asyncio.run(scenario(server.url))
    told = server.chats[1]["messages"][-1]["content"]
    assert "@@ -25,6 +25,7 @@" in told
    assert (
        "- of write: Hunk 1 of 2 (a.txt @@ -1,6 +1,7 @@) was refused by the person: three stays" in action_log
    )


def test_the_preset_auto_edit_asks_before_it_remembers(project: Project) -> None:
    """Memory of the home reaches every project."""
    save = {"name": "save_memory", "arguments": {"fact": "x", "scope": "home"}}
    with ScriptedServer([{"calls": [save]}, {"text": "done"}]) as server:
        drive(project, server.url, ["go"], preset="auto-edit")
    assert not (project.home / ".coder" / "memory.md").exists()
