"""A project whose settings changed since they were trusted asks again, and shows what is not as it was."""

from __future__ import annotations

import asyncio
import json
import stat
from typing import Any

import pytest

from coder.config.trust import TrustStore, shown_value
from coder.protocol.events import ApprovalRequested
from coder.protocol.ops import ApprovalReply
from coder.texts import Catalog
from kit import ScriptedServer
from kit.driving import Driver, Project

OLD: dict[str, Any] = {
    "permission.preset": "auto-edit",
    "provider.api_key": "hunter2hunter2",
    "mcp.servers.s": {"command": "npx", "args": ["old"], "env": {"GITHUB": "abcdef"}},
    "sandbox.mode": "off",
    "modes/log": ["cat log.txt"],
}
NEW: dict[str, Any] = {
    "permission.preset": "yolo",
    "provider.api_key": "hunter3hunter3",
    "mcp.servers.s": {"command": "npx", "args": ["new"], "env": {"GITHUB": "ghijkl"}},
    "workflow.verify_commands": ["make \x1b[2Jevil"],
    "modes/log": ["cat log.txt", "curl evil"],
}


def test_the_lines_say_old_and_new(project: Project) -> None:
    store = TrustStore(project.home)
    store.trust(project.cwd, OLD)
    lines = TrustStore(project.home).difference(project.cwd, NEW).lines(Catalog("en"))
    assert 'changed: permission.preset: "auto-edit" → "yolo"' in lines
    assert 'new: workflow.verify_commands = ["make \\u001b[2Jevil"]' in lines
    assert 'gone: sandbox.mode (was "off")' in lines
    assert 'changed: modes/log: ["cat log.txt"] → ["cat log.txt","curl evil"]' in lines
    assert any(line.startswith("changed: provider.api_key: ") for line in lines)
    assert len(lines) == 6
    assert '改动：permission.preset："auto-edit" → "yolo"' in store.difference(project.cwd, NEW).lines(
        Catalog("zh")
    )


def test_no_secret_is_kept_or_shown(project: Project) -> None:
    store = TrustStore(project.home)
    store.trust(project.cwd, OLD)
    lines = "\n".join(store.difference(project.cwd, NEW).lines(Catalog("en")))
    kept = store.path.read_text(encoding="utf-8")
    for secret in ("hunter2", "hunter3", "abcdef", "ghijkl"):
        assert secret not in lines
        assert secret not in kept
    assert '"args":["old"]' in lines
    assert stat.S_IMODE(store.path.stat().st_mode) == 0o600


def test_a_masked_or_long_value_that_changed_looks_different() -> None:
    assert shown_value("one", "provider.api_key") != shown_value("two", "provider.api_key")
    long = ["x" * 1000]
    assert shown_value([*long, "a"], "workflow.verify_commands") != shown_value(
        [*long, "b"], "workflow.verify_commands"
    )
    assert len(shown_value(long, "workflow.verify_commands")) < 450


def test_a_store_of_before_knows_no_old_values(project: Project) -> None:
    store = TrustStore(project.home)
    store.trust(project.cwd, OLD)
    data = json.loads(store.path.read_text(encoding="utf-8"))
    for directory in data["folders"].values():
        del directory["values"]
    store.path.write_text(json.dumps(data), encoding="utf-8")
    assert store.status(project.cwd, OLD) == "trusted"
    lines = store.difference(project.cwd, NEW).lines(Catalog("en"))
    assert 'changed: permission.preset: (not known) → "yolo"' in lines


def test_the_trust_command_shows_what_changed(project: Project) -> None:
    project.write(".coder/config.json", '{"permission": {"preset": "auto-edit"}}')
    assert "changed" not in project.coder("trust").stdout
    assert "already trusted and unchanged" in project.coder("trust").stdout
    project.write(".coder/config.json", '{"permission": {"preset": "yolo"}, "ide": {"enabled": false}}')
    told = project.coder("trust").stdout
    assert 'changed: permission.preset: "auto-edit" → "yolo"' in told
    assert "改动" not in told
    project.write(".coder/config.json", '{"permission": {"preset": "auto-edit"}}')
    assert '改动：permission.preset："yolo" → "auto-edit"' in project.coder("trust", "--lang", "zh").stdout


def test_a_run_without_a_terminal_says_that_it_changed(project: Project) -> None:
    project.write(".coder/config.json", '{"permission": {"preset": "auto-edit"}}')
    project.coder("trust")
    with ScriptedServer([{"text": "ok"}] * 3) as server:
        assert "changed" not in project.coder("--once", "hi", url=server.url).stderr
        project.write(".coder/config.json", '{"permission": {"preset": "yolo"}}')
        told = project.coder("--once", "hi", url=server.url).stderr
    assert "changed since you trusted it" in told
    assert '"auto-edit" → "yolo"' in told
    starts = [
        event for log in project.logs() for event in project.events(log) if event["type"] == "session_start"
    ]
    assert [event["meta"]["preset"] for event in starts].count("auto-edit") == 1
    assert [event["meta"]["preset"] for event in starts].count("balanced") == 1


MODE = "---\nkind: instant\n---\nThe log:\n!cat {}\n"


@pytest.mark.thorough
@pytest.mark.parametrize(
    "config", ["", '{"permission": {"preset": "yolo"}}'], ids=["modes alone", "with settings"]
)
def test_a_yes_for_modes_lets_no_setting_in(project: Project, config: str) -> None:
    project.write("log.txt", "x\n")
    project.write("other.txt", "y\n")
    project.write(".coder/modes/log.md", MODE.format("log.txt"))
    if config:
        project.write(".coder/config.json", config)
    asked: list[str] = []

    def always(question: ApprovalRequested) -> ApprovalReply:
        asked.append(str(question.subject))
        return ApprovalReply(question.approval_id, "always")

    async def run(url: str) -> Driver:
        driver = Driver(project, url, can_ask=True)
        driver.start()
        await driver.send("/log", always)
        await driver.close()
        return driver

    with ScriptedServer([{"text": "ok"}] * 3) as server:
        first = asyncio.run(run(server.url))
        assert first.engine.agent.preset == "balanced"
        assert len(asked) == 1
        again = asyncio.run(run(server.url))
        assert len(asked) == 1
        assert again.engine.agent.preset == "balanced"
        project.write(".coder/modes/log.md", MODE.format("other.txt"))
        asyncio.run(run(server.url))
    assert len(asked) == 2
    assert 'changed: modes/log: ["cat log.txt"] → ["cat other.txt"]' in asked[1]
