"""Custom modes as requests, records and the process show them: models, prefixes, forms, broken files."""

from __future__ import annotations

import asyncio
import json
import os
import re
import threading
from typing import Any

import pytest

from coder.protocol.events import AnyEvent, CommandDone, InputDone, Notice, TurnEnded
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
from coder.protocol.ops import AnyOp, UserInput
from kit import ScriptedServer
from kit.calls import ANSWERS
from kit.driving import Driver, Project, of, play

DEPTH = """\
---
kind: instant
model: deep
reasoning_effort: high
variables:
  - name: topic
    required: true
  - name: style
    default: short
---
Think about {{topic}}, {{style}}.
"""
CALM = (
    "---\nkind: persistent\nmodel: calm\nreasoning_effort: low\nvariables: [tone]\n---\nBe calm {{tone}}.\n"
)
LACKING = """\
---
kind: persistent
default_enabled: true
variables:
  - name: must
    required: true
  - name: may
---
{{must}}{{may}}
"""
READ = {"calls": [{"name": "list", "arguments": {}}]}


def asked(chats: list[dict[str, Any]]) -> list[tuple[str, str | None]]:
    return [(chat["model"], chat.get("reasoning_effort")) for chat in chats]


class TestModelAndEffort:
    def test_an_instant_mode_s_own_hold_for_all_of_its_turn_and_no_longer(self, project: Project) -> None:
        project.write(".coder/modes/depth.md", DEPTH)
        driver = play(project, [READ, {"text": "a"}, {"text": "b"}], ["/depth trees", "and now?"])
        assert asked(driver.chats) == [("deep", "high"), ("deep", "high"), ("scripted", None)]
        assert [e.status for e in of(driver.seen, TurnEnded)] == ["ok", "ok"]

    def test_they_come_before_those_of_a_persistent_mode(self, project: Project) -> None:
        project.write(".coder/modes/depth.md", DEPTH)
        project.write(".coder/modes/calm.md", CALM)
        project.write(".coder/modes/plain.md", "---\nkind: instant\n---\nGo.\n")
        driver = play(project, ANSWERS, ["/calm", "one", "/depth trees", "/plain", "/modes off calm", "two"])
        assert asked(driver.chats) == [("calm", "low"), ("deep", "high"), ("calm", "low"), ("scripted", None)]

    def test_the_op_does_the_same_and_routing_does_not_overrule_it(self, project: Project) -> None:
        project.write(".coder/modes/depth.md", DEPTH)
        project.configure(provider={"model": "auto"}, routing={"fast": "small", "strong": "big"})
        with ScriptedServer([{"text": "a"}, {"text": "b"}]) as server:
            ops: list[AnyOp] = [
                TriggerInstantMode("/depth", {"topic": SetValue("x")}),
                UserInput("what is it?"),
            ]
            run_ops(project, server.url, ops, model="auto")
            assert asked(server.chats) == [("deep", "high"), ("small", None)]

    def test_what_the_modes_ask_for_is_told(self, project: Project) -> None:
        project.write(".coder/modes/calm.md", CALM)
        on, off = of(play(project, ANSWERS, ["/calm", "/modes off calm"]).seen, ModeStateChanged)
        assert (on.model, on.reasoning_effort) == ("calm", "low")
        assert (off.model, off.reasoning_effort) == (None, None)


def run_ops(project: Project, url: str, ops: list[AnyOp], **options: Any) -> Driver:
    async def scenario() -> Driver:
        driver = Driver(project, url, **options)
        driver.start()
        for op in ops:
            driver.engine.submit(op)
            await driver.until_idle()
        await driver.close()
        return driver

    return asyncio.run(scenario())


class TestThePrefix:
    def test_unchanged_modes_give_the_same_bytes(self, project: Project) -> None:
        """Also where a mode's command would print something else by now."""
        project.write("AGENTS.md", "Base rules.")
        project.write(".coder/modes/calm.md", CALM + "It is\n!date +%s%N\n")
        project.coder("trust")
        driver = play(
            project,
            ANSWERS,
            ["/calm deeply", "one", "two tone=loud -t X", "/calm deeply", "three"],
            mode="yolo",
        )
        bodies = [json.dumps(chat["messages"]).removesuffix("]") for chat in driver.chats]
        assert bodies[1].startswith(bodies[0])
        assert bodies[2].startswith(bodies[1])
        tools = {json.dumps(chat["tools"]) for chat in driver.chats}
        assert len(tools) == 1
        assert "Be calm deeply.\nIt is\n1" in driver.chats[0]["messages"][1]["content"]
        # a message is never read as arguments of a mode that is on (003 §5)
        assert driver.chats[1]["messages"][-1]["content"] == "two tone=loud -t X"

    def test_a_change_replaces_the_block_and_adds_no_history(self, project: Project) -> None:
        project.write(".coder/modes/calm.md", CALM)
        driver = play(project, ANSWERS, ["/calm a", "one", "/calm b", "two"])
        first, second = (chat["messages"] for chat in driver.chats)
        assert "Be calm a." in first[1]["content"]
        assert "Be calm b." in second[1]["content"]
        assert "Be calm a." not in json.dumps(second)
        assert second[2 : len(first)] == first[2:]


class TestForms:
    """What front ends with a form are told, beside the text for those without."""

    def test_a_line_that_lacks_values_asks_for_the_form(self, project: Project) -> None:
        project.write(".coder/modes/m.md", LACKING.replace("default_enabled: true\n", ""))
        driver = play(project, ANSWERS, ["/m", "/m 1", "/m", "/m 2", "/m '"])
        done = of(driver.seen, CommandDone)
        assert [one.ok for one in done] == [False, True, True, True, False]
        forms = [one.data.get("form") for one in done]
        assert forms == ["fill", None, "adjust", None, None]
        assert [one.data["mode_id"] for one in done[:4]] == ["/m"] * 4
        assert done[2].text == "Mode on: /m [must=1] [may=?]"

    def test_what_a_refused_line_held_besides_is_not_lost(self, project: Project) -> None:
        project.write(".coder/modes/lacking.md", LACKING.replace("default_enabled: true\n", ""))
        (answer,) = of(play(project, ANSWERS, ["/lacking\nAnd a long message."]).seen, CommandDone)
        assert (answer.ok, answer.data["form"]) == (False, "fill")
        assert answer.data["leftover"] == "And a long message."

    def test_an_instant_mode_says_why_it_was_not_run_and_what_it_was_given(self, project: Project) -> None:
        project.write(
            ".coder/modes/depth.md", DEPTH.replace("name: style", "name: style\n    enum: [short, long]")
        )
        driver = play(project, ANSWERS, ["/depth", "/depth trees wide"])
        missing, invalid = of(driver.seen, CommandDone)
        assert "topic is missing" in missing.text
        assert missing.data == {"mode_id": "/depth", "form": "fill", "values": {}}
        assert "wide is not allowed; allowed are short, long" in invalid.text
        assert invalid.data["values"] == {"topic": "trees", "style": "wide"}
        assert driver.chats == []

    def test_on_the_command_line_that_is_a_failure(self, project: Project) -> None:
        project.write(".coder/modes/depth.md", DEPTH)
        with ScriptedServer([{"text": "ok"}]) as server:
            failed = project.coder("--once", "/depth", url=server.url)
            assert (failed.returncode, failed.stdout) == (1, "")
            assert "topic is missing" in failed.stderr
            done = project.coder("--once", "/depth trees long and more", url=server.url)
            assert (done.returncode, done.stdout) == (0, "ok\n")
            assert "not sent: and more" in done.stderr

    def test_what_is_left_over_of_an_instant_line_is_told_and_not_sent(self, project: Project) -> None:
        project.write(".coder/modes/depth.md", DEPTH)
        driver = play(project, ANSWERS, ["/depth trees long and more\nnext line"])
        assert of(driver.seen, InstantModeExecuted)[0].leftover == "and more\nnext line"
        assert driver.chats[0]["messages"][-1]["content"].startswith("Think about trees, long.\n\n<note>")


class TestOps:
    def test_every_answer_says_which_op_it_ends(self, project: Project) -> None:
        project.write(".coder/modes/calm.md", CALM)
        project.write(".coder/modes/depth.md", DEPTH)
        ops: list[AnyOp] = [
            ListCustomModes(),
            SetModeState([PersistentModeTarget("/calm")]),
            TriggerInstantMode("/depth", {"topic": SetValue("x")}),
            UserInput("hi"),
        ]
        with ScriptedServer([{"text": "a"}, {"text": "b"}]) as server:
            driver = run_ops(project, server.url, ops)
        kinds = [e.op for e in of(driver.seen, InputDone)]
        assert kinds == ["list_custom_modes", "set_mode_state", "trigger_instant_mode", "user_input"]

    def test_listing_does_not_wait_for_a_turn(self, project: Project) -> None:
        project.write(".coder/modes/calm.md", CALM)
        opened = threading.Event()

        def held(_request: Any) -> dict[str, Any]:
            opened.wait(30)
            return {"text": "late"}

        async def scenario(url: str) -> list[AnyEvent]:
            driver = Driver(project, url)
            driver.start()
            driver.engine.submit(UserInput("hi"))
            driver.engine.submit(ListCustomModes())
            first = await driver.until_idle()
            opened.set()
            await driver.until_idle()
            await driver.close()
            return first

        with ScriptedServer([held]) as server:
            first = asyncio.run(scenario(server.url))
        assert [m.mode_id for m in of(first, CustomModesListed)[0].modes] == ["/calm"]
        assert of(first, TurnEnded) == []
        assert of(first, InputDone)[0].op == "list_custom_modes"

    def test_a_session_that_is_closed_while_it_lists_ends(self, project: Project) -> None:
        for n in range(50):
            project.write(f".coder/modes/m{n}.md", CALM)

        async def scenario(url: str) -> Driver:
            driver = Driver(project, url)
            driver.start()
            driver.engine.submit(ListCustomModes())
            async with asyncio.timeout(20):
                await driver.close()
            return driver

        with ScriptedServer([]) as server:
            driver = asyncio.run(scenario(server.url))
        assert len(of(driver.seen, CustomModesListed)[0].modes) == 50


class TestBrokenFiles:
    def broken(self, project: Project) -> None:
        place = project.cwd / ".coder" / "modes"
        project.write(".coder/modes/yaml.md", "---\nkind: [persistent\n---\nx\n")
        project.write(".coder/modes/kind.md", "---\ndescription: d\nkind: sometimes\n---\nx\n")
        project.write(".coder/modes/undeclared.md", "---\nkind: persistent\n---\nUse\n{{x}}\n")
        project.write(".coder/modes/big.md", "x" * (10 << 20))
        project.write(".coder/modes/latin.md", b"---\nkind: persistent\n---\n\xe4\n")
        project.write(".coder/modes/lacking.md", LACKING)
        project.write(".coder/modes/calm.md", CALM.replace("kind:", "default_enabled: true\nkind:"))
        (place / "circle").symlink_to(place)
        (place / "ring-a").symlink_to(place / "ring-b")
        (place / "ring-b").symlink_to(place / "ring-a")
        os.mkfifo(place / "pipe.md")

    def test_they_never_break_the_start(self, project: Project) -> None:
        self.broken(project)
        driver = play(project, ANSWERS, ["hi"])
        assert "Be calm" in driver.chats[0]["messages"][1]["content"]
        # the one that should have been on says why it is not; broken ones wait until they are asked for
        notices = [e.text for e in of(driver.seen, Notice)]
        assert notices == ["/lacking: must is missing: a value of type text is needed."]

    def test_each_is_listed_with_file_line_and_what_is_allowed(self, project: Project) -> None:
        self.broken(project)
        told = {
            "yaml": r"yaml\.md:\d: The frontmatter is no valid YAML",
            "kind": r"kind\.md:3: `kind` is sometimes; allowed is one of persistent, instant\.",
            "undeclared": r"undeclared\.md:5: /undeclared uses \{\{x\}\}, which it does not declare",
            "big": r"big\.md: The file has 10485760 bytes; a mode may have 131072\.",
            "latin": r"latin\.md:4: The file is not UTF-8 text",
            "pipe": r"pipe\.md: It is not a regular file",
        }
        listed = project.coder("modes").stdout
        for pattern in told.values():
            assert re.search(pattern, listed), (pattern, listed)
        done = play(project, ANSWERS, [*(f"/{name}" for name in told), "go on"])
        for pattern, answer in zip(told.values(), of(done.seen, CommandDone), strict=True):
            assert re.search(pattern, answer.text)
        assert [e.status for e in of(done.seen, TurnEnded)] == ["ok"]


def test_a_flag_adds_to_what_is_on_by_default(project: Project) -> None:
    """Whichever of the two is read first."""
    project.write(".coder/modes/tidy.md", "---\nkind: persistent\ndefault_enabled: true\n---\nTidy.\n")
    project.write(".coder/modes/calm.md", CALM)
    with ScriptedServer([{"text": "ok"}]) as server:
        done = project.coder("--mode", "/calm very", "--once", "hi", url=server.url)
        assert done.returncode == 0
        block = server.chats[0]["messages"][1]["content"]
    assert block.index("Tidy.") < block.index("Be calm very.")


def test_a_directory_above_that_may_not_be_looked_into_holds_nothing(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = project.cwd.parent / ".coder"
    real = os.stat

    def stat(path: Any, *args: Any, **more: Any) -> os.stat_result:
        if str(path).startswith(f"{closed}/"):
            raise PermissionError(13, "Permission denied", str(path))  # whoever runs the test may be root
        return real(path, *args, **more)

    monkeypatch.setattr(os, "stat", stat)
    assert [e.status for e in of(play(project, ANSWERS, ["hi"]).seen, TurnEnded)] == ["ok"]


def test_a_flag_does_not_put_a_mode_in_the_place_of_a_command(project: Project) -> None:
    """Whoever says `--mode /plan` must not get a project's own `plan`, which restricts nothing."""
    project.write(".coder/modes/plan.md", CALM)
    project.write(".coder/modes/bad.md", "---\nkind: always\n---\n")
    with ScriptedServer([{"text": "ok"}]) as server:
        refused = project.coder("--mode", "/plan", "--once", "hi", url=server.url)
        broken = project.coder("--mode", "/bad", "--once", "hi", url=server.url)
        assert server.chats == []
        meant = project.coder("--mode", "/modes:plan", "--once", "hi", url=server.url)
        assert "Be calm" in server.chats[0]["messages"][1]["content"]
    assert (refused.returncode, broken.returncode, meant.returncode) == (2, 2, 0)
    assert "/plan is a command; the custom mode of that name is /modes:plan." in refused.stderr
    assert "`kind` is always; allowed is one of persistent, instant." in broken.stderr


def test_the_list_marks_what_is_on_and_not_what_it_shadows(project: Project) -> None:
    project.write(".coder/modes/calm.md", CALM)
    project.write(".coder/modes/bad.md", "---\nkind: no\n---\n")
    home = project.home / ".coder" / "modes"
    home.mkdir(parents=True)
    (home / "calm.md").write_text(CALM, encoding="utf-8")
    listed = of(play(project, ANSWERS, ["/calm very", "/modes"]).seen, CommandDone)[1].text.split("\n")[1:]
    assert listed[0].startswith("  /bad  (project:project)  broken  /")
    assert listed[1:] == [
        "● /calm [tone=very]  (project:project)  persistent",
        "  /calm  (global)  persistent  shadowed by (project:project)",
    ]
