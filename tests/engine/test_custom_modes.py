"""Custom modes through the engine's ops, slash lines and `--mode`, as requests show them."""

from __future__ import annotations

import asyncio
from typing import Any

from coder.engine.custom_modes import enable_modes
from coder.protocol.events import CommandDone, TurnEnded
from coder.protocol.modes import (
    CustomModesListed,
    InstantModeExecuted,
    ListCustomModes,
    ModeStateChanged,
    PersistentModeTarget,
    SetModeState,
    SetValue,
    TriggerInstantMode,
)
from coder.protocol.ops import AnyOp, ApprovalReply
from kit import ScriptedServer
from kit.calls import ANSWERS
from kit.driving import Driver, Project, drive, of, play

REVIEW = """\
---
kind: persistent
description: Review help
display_name: Review
model: reviewer
reasoning_effort: high
variables:
  - name: role
    required: true
    enum: [author, reviewer]
---

Speak as {{role}}.
"""
DEPLOY = (
    "---\nkind: instant\nvariables:\n  - name: target\n    default: staging\n---\nDeploy to {{target}}.\n"
)


def said(driver: Driver) -> list[str]:
    return [e.text for e in of(driver.seen, CommandDone)]


def instructions(chat: dict[str, Any]) -> str:
    second = chat["messages"][1]["content"]
    return second if second.startswith("<user_instructions>") else ""


def test_a_persistent_mode_is_in_every_request_until_it_is_off(project: Project) -> None:
    project.write("AGENTS.md", "Base rules.")
    project.write(".coder/modes/review.md", REVIEW)
    driver = play(project, ANSWERS, ["hi", "/review author", "go", "more", "/modes off review", "bye"])
    first, second, third, fourth = driver.chats
    assert instructions(first) == (
        f"<user_instructions>\n\nFrom {project.cwd}/AGENTS.md:\nBase rules.\n\n</user_instructions>"
    )
    block = instructions(second)
    assert "Base rules." in block
    assert "<mode_instructions>\n### Mode: Review\n- scope: " in block
    assert "- variables: role=author\n\nSpeak as author." in block
    assert instructions(third) == block
    assert third["messages"][: len(second["messages"])] == second["messages"]  # the prefix holds
    assert "mode_instructions" not in instructions(fourth)
    assert [c["model"] for c in driver.chats] == ["scripted", "reviewer", "reviewer", "scripted"]
    assert [c.get("reasoning_effort") for c in driver.chats] == [None, "high", "high", None]


def test_a_missing_value_keeps_the_last_good_state(project: Project) -> None:
    project.write(".coder/modes/review.md", REVIEW)
    driver = play(project, ANSWERS, ["/review", "/review nobody", "hi"])
    assert "role" in said(driver)[0]
    assert "nobody" in said(driver)[1]
    assert instructions(driver.chats[0]) == ""


def test_an_instant_mode_is_a_turn(project: Project) -> None:
    project.write(".coder/modes/ops/deploy.md", DEPLOY)
    driver = play(project, ANSWERS, ["/ops:deploy prod", "/ops:deploy"])
    assert of(driver.seen, InstantModeExecuted)[0].rendered_prompt == "Deploy to prod."
    assert [e["content"] for e in project.of_type("turn_start")] == ["Deploy to prod.", "Deploy to staging."]
    assert [e.text for e in of(driver.seen, TurnEnded)] == ["answer 0", "answer 1"]


def test_built_in_names_win_and_the_mode_stays_reachable(project: Project) -> None:
    project.write(".coder/modes/status.md", "---\nkind: instant\n---\nMy own status.\n")
    driver = play(project, ANSWERS, ["/status", "/modes:status"])
    assert "scripted" in said(driver)[0]
    assert project.of_type("turn_start")[0]["content"] == "My own status."


def test_default_enabled_ones_are_on_from_the_start(project: Project) -> None:
    project.write(
        ".coder/modes/tidy.md", "---\nkind: persistent\ndefault_enabled: true\n---\nKeep it tidy.\n"
    )
    driver = play(project, ANSWERS, ["hi", "/new", "hi"])
    assert all("Keep it tidy." in instructions(chat) for chat in driver.chats)


def test_a_resumed_session_has_its_modes_again(project: Project) -> None:
    project.write(".coder/modes/review.md", REVIEW)
    first = play(project, ANSWERS, ["/review author", "hi"])
    again = play(project, ANSWERS, ["more"], resume=first.engine.agent.session.id)
    assert "Speak as author." in instructions(again.chats[0])
    before = first.chats[0]["messages"]
    assert again.chats[0]["messages"][: len(before)] == before
    assert again.chats[0]["model"] == "reviewer"


def test_what_is_left_over_is_offered_and_not_sent(project: Project) -> None:
    project.write(".coder/modes/review.md", REVIEW)
    driver = play(project, ANSWERS, ["/review author and then this"])
    assert "and then this" in said(driver)[0]
    assert of(driver.seen, CommandDone)[0].data["leftover"] == "and then this"
    assert driver.chats == []


def test_the_ops(project: Project) -> None:
    project.write(".coder/modes/review.md", REVIEW)
    project.write(".coder/modes/deploy.md", DEPLOY)
    target = PersistentModeTarget("/review", {"role": SetValue("author")})
    ops: list[AnyOp] = [
        ListCustomModes(),
        SetModeState([target], client_rev=5),
        SetModeState([], client_rev=3),
        SetModeState([target], client_rev=6),
        TriggerInstantMode("/deploy", {}),
        TriggerInstantMode("/nope", {}),
    ]

    async def scenario(url: str) -> Driver:
        driver = Driver(project, url)
        driver.start()
        for op in ops:
            driver.engine.submit(op)
            await driver.until_idle()
        await driver.close()
        return driver

    with ScriptedServer([{"text": "ok"}]) as server:
        driver = asyncio.run(scenario(server.url))
        assert "Speak as author." in instructions(server.chats[0])
    assert {m.mode_id for m in of(driver.seen, CustomModesListed)[0].modes} == {"/review", "/deploy"}
    taken, stale, same = of(driver.seen, ModeStateChanged)
    assert (taken.changed, taken.server_rev, taken.errors) == (True, 5, [])
    assert stale.errors
    assert not stale.changed
    assert (same.changed, same.combined_user_instructions) == (False, None)
    done, unknown = of(driver.seen, InstantModeExecuted)
    assert done.rendered_prompt == "Deploy to staging."
    assert unknown.errors
    states = project.of_type("mode_state")
    assert [e["meta"]["modes"][0]["mode_id"] for e in states] == ["/review"]


class TestCommandsInModes:
    """`!command` in a project's mode: trust first, then the ordinary policy."""

    BODY = "---\nkind: instant\n---\nThe log:\n!cat log.txt\n"

    def test_refused_without_trust(self, project: Project) -> None:
        project.write("log.txt", "secret sauce\n")
        project.write(".coder/modes/log.md", self.BODY)
        driver = play(project, ANSWERS, ["/log"])
        assert driver.chats == []
        assert "trust" in of(driver.seen, InstantModeExecuted)[0].errors[0].message

    def test_a_person_may_allow_it(self, project: Project) -> None:
        project.write("log.txt", "secret sauce\n")
        project.write(".coder/modes/log.md", self.BODY)

        async def scenario(url: str) -> Driver:
            driver = Driver(project, url, can_ask=True)
            driver.start()
            await driver.send("/log", lambda e: ApprovalReply(e.approval_id, "always"))
            await driver.close()
            return driver

        with ScriptedServer([{"text": "ok"}] * 2) as server:
            asyncio.run(scenario(server.url))
            assert "secret sauce" in server.chats[0]["messages"][-1]["content"]
            drive(project, server.url, ["/log"])  # trusted from then on
            assert "secret sauce" in server.chats[1]["messages"][-1]["content"]

    def test_a_flag_asks_nobody(self, project: Project) -> None:
        """`--mode` takes effect before anyone reads questions: needing one is a problem, not a wait."""
        project.write("log.txt", "x\n")
        body = self.BODY.replace("instant", "persistent")
        project.write(".coder/modes/log.md", body)

        async def scenario(url: str) -> list[str]:
            driver = Driver(project, url, can_ask=True)
            driver.start()
            async with asyncio.timeout(60):
                problems = await enable_modes(driver.engine.agent, ["/log"])
            assert driver.engine.agent.front.can_ask
            await driver.close()
            return [*map(str, problems)]

        with ScriptedServer([]) as server:
            assert "trust" in asyncio.run(scenario(server.url))[0]

    def test_the_trust_command_covers_them(self, project: Project) -> None:
        project.write("log.txt", "secret sauce\n")
        project.write(".coder/modes/log.md", self.BODY)
        done = project.coder("trust")
        assert "cat log.txt" in done.stdout
        assert len(play(project, ANSWERS, ["/log"]).chats) == 1
        project.write(".coder/modes/log.md", self.BODY + "!cat other.txt\n")
        assert play(project, ANSWERS, ["/log"]).chats == []  # a changed project asks again

    def test_the_policy_holds_for_the_person_s_own_modes_too(self, project: Project) -> None:
        directory = project.home / ".coder" / "modes"
        directory.mkdir(parents=True)
        (directory / "make.md").write_text("---\nkind: instant\n---\n!touch made\n", encoding="utf-8")
        driver = play(project, ANSWERS, ["/make"])
        assert not (project.cwd / "made").exists()
        assert of(driver.seen, InstantModeExecuted)[0].errors


def test_on_the_command_line(project: Project) -> None:
    project.write(".coder/modes/review.md", REVIEW)
    with ScriptedServer([{"text": "ok"}]) as server:
        done = project.coder("--mode", "plan", "--mode", "/review author", "--once", "hi", url=server.url)
        wrong = project.coder("--mode", "/nope", "--once", "hi", url=server.url)
        bad = project.coder("--mode", "/review nobody", "--once", "hi", url=server.url)
        assert "Speak as author." in instructions(server.chats[0])
        assert "Operating mode plan" in server.chats[0]["messages"][2]["content"]
    assert (done.returncode, wrong.returncode, bad.returncode) == (0, 2, 2)
    assert "/nope" in wrong.stderr
    assert "nobody" in bad.stderr
