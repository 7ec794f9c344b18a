"""`skill` and `save_memory` in real turns: engine, policy, undo, and a scripted model over HTTP."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

from coder.context.memory import Memory
from coder.engine.agent import Agent
from coder.extend.skills import Skills
from coder.protocol.events import ApprovalRequested, CommandDone, TurnEnded
from coder.protocol.ops import ApprovalReply
from coder.tools.save_memory import SaveMemory
from coder.tools.skill import Skill
from kit import ScriptedServer
from kit.calls import step
from kit.driving import Driver, Project, of

Answer = Literal["yes", "no"]


def equip(agent: Agent) -> None:
    """The two tools over this agent's directories."""
    skills = Skills(agent.root, agent.place.home, agent.place.home.parent)
    agent.tools["skill"] = Skill(skills)
    agent.tools["save_memory"] = SaveMemory(Memory(agent.root, agent.place.home))


def run(
    project: Project, script: list[dict[str, Any]], *inputs: str, answer: Answer = "yes", **options: Any
) -> tuple[Driver, list[dict[str, Any]]]:
    """The driver after the inputs, and the requests that the model got."""

    def reply(event: ApprovalRequested) -> ApprovalReply:
        return ApprovalReply(event.approval_id, answer)

    async def work(url: str) -> Driver:
        driver = Driver(project, url, can_ask=True, **options)
        equip(driver.engine.agent)
        driver.start()
        for text in inputs:
            await driver.send(text, reply)
        await driver.close()
        return driver

    with ScriptedServer(script) as server:
        driver = asyncio.run(work(server.url))
        return driver, server.chats


def observations(chats: list[dict[str, Any]]) -> list[str]:
    return [m["content"] for m in chats[-1]["messages"] if m["role"] == "tool"]


def test_the_model_takes_up_a_skill_and_nobody_is_asked(project: Project) -> None:
    project.write(
        ".agents/skills/ship/SKILL.md",
        "---\nname: ship\ndescription: Ship it. Use for releases.\n---\nRun `make ship`.\n",
    )
    script = [
        step("skill", action="list"),
        step("skill", action="load", name="ship"),
        {"text": "ok"},
    ]
    driver, chats = run(project, script, "release", preset="strict", mode="plan")
    listed, loaded = observations(chats)
    assert "- ship: Ship it. Use for releases." in listed
    assert "Run `make ship`." in loaded
    assert of(driver.seen, ApprovalRequested) == []
    assert of(driver.seen, TurnEnded)[0].status == "ok"


def test_a_missing_or_broken_skill_does_not_end_the_turn(project: Project) -> None:
    project.write(".coder/skills/bad/SKILL.md", "nothing here\n")
    script = [
        step("skill", action="load", name="bad"),
        step("skill", action="load", name="create-skil"),
        {"text": "went on without"},
    ]
    driver, chats = run(project, script, "go")
    broken, missing = observations(chats)
    assert broken.startswith("error: ")
    assert "no frontmatter" in broken
    assert "create-skill" in missing
    ended = of(driver.seen, TurnEnded)[0]
    assert (ended.status, ended.text) == ("ok", "went on without")


def test_a_fact_is_asked_for_saved_and_undone(project: Project) -> None:
    path = project.cwd / ".coder" / "memory.md"
    script = [step("save_memory", fact="Tests run with make check."), {"text": "noted"}]
    driver, chats = run(project, script, "remember it", "/undo")
    (asked,) = of(driver.seen, ApprovalRequested)
    assert asked.tool == "save_memory"
    assert "Tests run with make check." in observations(chats)[0]
    assert "memory.md" in of(driver.seen, CommandDone)[0].text
    assert not path.exists()  # undone: the turn had made the file
    run(project, script, "again", answer="no")
    assert not path.exists()
    run(project, script, "again")
    assert path.read_text(encoding="utf-8") == "# Memory\n\n- Tests run with make check.\n"


def test_plan_mode_remembers_nothing(project: Project) -> None:
    script = [step("save_memory", fact="x y z"), {"text": "could not"}]
    _, chats = run(project, script, "remember", mode="plan", preset="yolo")
    assert observations(chats)[0].startswith("denied: ")
    assert not (project.cwd / ".coder" / "memory.md").exists()
