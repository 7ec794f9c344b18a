"""`/status` on trust: the project's settings, and the commands in its modes."""

from __future__ import annotations

import asyncio

from coder.protocol.events import CommandDone
from coder.protocol.ops import ApprovalReply
from kit import ScriptedServer
from kit.driving import Driver, Project, drive, of

MODE = "---\nkind: instant\n---\n!cat log.txt\n"


def trust_line(project: Project, lang: str = "en") -> str:
    driver = drive(project, "http://127.0.0.1:9/v1", ["/status"], lang=lang)
    lines: list[str] = of(driver.seen, CommandDone)[0].text.split("\n")
    label = {"en": "trust:", "zh": "信任:"}[lang]
    return next(line for line in lines if line.startswith(label)).partition(" ")[2]


def test_commands_in_modes_are_told_of(project: Project) -> None:
    assert trust_line(project) == "nothing here needs it"
    project.write(".coder/modes/log.md", MODE)
    assert trust_line(project) == "commands in its modes are asked about first"
    assert "会先询问" in trust_line(project, "zh")
    project.write(".coder/config.json", '{"permission": {"preset": "yolo"}}')
    ignored = "some of this folder's settings are ignored until you run `coder trust`"
    assert trust_line(project) == f"{ignored}; commands in its modes are asked about first"
    project.coder("trust")
    assert trust_line(project) == "this folder's settings are trusted; commands in its modes are trusted"


def test_an_always_to_a_mode_s_command_is_seen_in_the_same_session(project: Project) -> None:
    project.write(".coder/modes/log.md", MODE)
    project.write("log.txt", "all is well\n")

    async def scenario(url: str) -> Driver:
        driver = Driver(project, url, can_ask=True)
        driver.start()
        await driver.send("/log", lambda event: ApprovalReply(event.approval_id, "always"))
        await driver.send("/status")
        await driver.close()
        return driver

    with ScriptedServer([{"text": "ok"}]) as server:
        driver = asyncio.run(scenario(server.url))
    assert "commands in its modes are trusted" in of(driver.seen, CommandDone)[-1].text


def test_skills_that_were_loaded_are_still_known_after_a_compaction(project: Project) -> None:
    project.write(
        ".coder/skills/pottery/SKILL.md",
        "---\nname: pottery\ndescription: how to make pots\n---\nCentre the clay first.\n",
    )
    load = {"name": "skill", "arguments": {"action": "load", "name": "pottery"}}
    look = {"name": "skill", "arguments": {"action": "list"}}
    script = [{"calls": [look, load]}, {"text": "I know it"}, {"text": "## Goal\nnone"}, {"text": "yes"}]
    with ScriptedServer(script) as server:
        drive(project, server.url, ["make a pot", "/compact", "and now?"])
        messages = [m["content"] for m in server.chats[-1]["messages"]]
    summary = next(text for text in messages if "Skills loaded" in text)
    assert "pottery (.coder/skills/pottery/SKILL.md)" in summary
    assert not any("Centre the clay" in text for text in messages)  # which is why it must be named
