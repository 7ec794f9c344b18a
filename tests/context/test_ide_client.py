"""The line to the editor, against a companion that this suite runs over real HTTP and SSE."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from coder.addons.ide.discovery import find_companions
from coder.addons.ide.ide_client import IdeClient
from coder.addons.ide.ide_context import IdeContext
from kit.companion import FakeEditor

QUICK = (0.01, 0.02)


class Agent:
    """A workspace, an editor that has it open, and a client that should find it."""

    def __init__(self, root: Path, **options: Any) -> None:
        self.workspace = root / "project"
        self.temporary = root / "tmp"
        self.workspace.mkdir()
        self.temporary.mkdir()
        self.environ = {"TMPDIR": str(self.temporary)}
        self.editor = FakeEditor(self.workspace, **options)
        self.context = IdeContext(self.workspace)
        self.client = IdeClient(self.context, self.workspace, self.environ, QUICK)

    def file(self, name: str, timestamp: int = 1, **more: Any) -> dict[str, Any]:
        return {"path": str(self.workspace / name), "timestamp": timestamp, **more}

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(60):
            while not condition():  # noqa: ASYNC110 - what is waited for is not ours to give an event
                await asyncio.sleep(0.002)


def with_editor(root: Path, use: Callable[[Agent], Awaitable[None]], **options: Any) -> Agent:
    async def run() -> Agent:
        agent = Agent(root, **options)
        await agent.editor.start()
        agent.editor.announce(agent.temporary)
        try:
            await use(agent)
        finally:
            await agent.client.close()
            await agent.editor.stop()
        return agent

    return asyncio.run(run())


def note(agent: Agent) -> Any:
    text = agent.context.next_note()
    return json.loads(text.split("```json\n")[1].split("\n```")[0]) if text else None


@pytest.mark.parametrize("plain_json", [False, True])
def test_the_context_arrives_whole_and_then_as_changes(tmp_path: Path, plain_json: bool) -> None:
    async def use(agent: Agent) -> None:
        agent.editor.state = {"workspaceState": {"openFiles": [agent.file("a.py", 5, isActive=True)]}}
        agent.client.start()
        await agent.client.settle(10)
        assert agent.client.connected
        assert agent.client.name == "VS Code"
        assert note(agent) == {"activeFile": {"path": "a.py"}}
        await agent.editor.show(
            agent.file("a.py", 5, isActive=True, cursor={"line": 3, "character": 9}), agent.file("b.py", 2)
        )
        await agent.until(lambda: (agent.context._now or [])[1:])
        assert note(agent) == {
            "changes": {
                "filesOpened": ["b.py"],
                "cursorMoved": {"path": "a.py", "cursor": {"line": 3, "character": 9}},
            }
        }
        assert note(agent) is None

    agent = with_editor(tmp_path, use, plain_json=plain_json)
    assert agent.editor.refused == []
    assert [post["method"] for post in agent.editor.posts][:2] == ["initialize", "notifications/initialized"]
    after = [head for head in agent.editor.heads if "mcp-session-id" in head]
    assert {head.get("mcp-protocol-version") for head in after[1:]} == {"2025-06-18"}


def test_a_selection_cut_through_a_character_still_arrives(tmp_path: Path) -> None:
    async def use(agent: Agent) -> None:
        agent.client.start()
        await agent.client.settle(10)
        state = {"workspaceState": {"openFiles": [agent.file("a.py", isActive=True, selectedText="HALF")]}}
        message = json.dumps({"jsonrpc": "2.0", "method": "ide/contextUpdate", "params": state})
        await agent.editor.send(message.replace("HALF", "smile \\ud83d"))
        await agent.editor.send("this is no JSON")
        await agent.until(lambda: agent.context._now)
        assert note(agent)["activeFile"]["selectedText"] == "smile ?"
        await agent.editor.show(agent.file("b.py", isActive=True))
        await agent.until(lambda: (agent.context._now or [])[0].path == "b.py")

    with_editor(tmp_path, use)


def test_it_comes_back_after_a_break_without_a_word(tmp_path: Path) -> None:
    async def use(agent: Agent) -> None:
        agent.editor.state = {"workspaceState": {"openFiles": [agent.file("a.py", isActive=True)]}}
        agent.client.start()
        await agent.client.settle(10)
        assert note(agent)
        await agent.editor.cut_streams()
        await agent.until(lambda: len(agent.editor.calls("initialize")) == 2 and agent.context.known)
        assert note(agent) is None  # nothing changed, so nothing is said again
        port = agent.editor.port
        await agent.editor.stop()
        await agent.until(lambda: not agent.client.connected)
        assert agent.context.next_note() == ""
        agent.editor.state = {"workspaceState": {"openFiles": [agent.file("b.py", isActive=True)]}}
        await agent.editor.start(port)
        await agent.until(lambda: agent.context.known)
        assert note(agent)["changes"]["filesClosed"] == ["a.py"]

    with_editor(tmp_path, use)


def test_an_editor_that_starts_later_is_found(tmp_path: Path) -> None:
    async def run() -> None:
        agent = Agent(tmp_path)
        agent.client.start()
        await agent.client.settle(10)  # there is no editor, so there is nothing to wait for
        assert not agent.client.connected
        await agent.editor.start()
        agent.editor.announce(agent.temporary)
        await agent.until(lambda: agent.context.known)
        await agent.client.close()
        assert not agent.client.connected
        await agent.editor.stop()

    asyncio.run(run())


def test_a_wrong_token_is_refused_and_told_in_the_status(tmp_path: Path) -> None:
    async def use(agent: Agent) -> None:
        agent.editor.announce(agent.temporary, authToken="wrong")
        agent.client.start()
        await agent.client.settle(10)
        assert not agent.client.connected
        assert "401" in str(agent.client.fault)

    assert set(with_editor(tmp_path, use).editor.refused) == {401}


def test_pings_are_answered_and_other_requests_declined(tmp_path: Path) -> None:
    async def use(agent: Agent) -> None:
        agent.client.start()
        await agent.client.settle(10)
        await agent.editor.say("ping", {})  # as the extension sends it: without an id
        await agent.editor.say("ping", {}, id=7)
        await agent.editor.say("sampling/createMessage", {}, id="x")
        await agent.until(lambda: len([p for p in agent.editor.posts if "method" not in p]) == 2)
        pong, no = [post for post in agent.editor.posts if "method" not in post]
        assert pong == {"jsonrpc": "2.0", "id": 7, "result": {}}
        assert (no["id"], no["error"]["code"]) == ("x", -32601)

    with_editor(tmp_path, use)


def test_an_editor_that_refuses_the_handshake_is_told_in_the_status(tmp_path: Path) -> None:
    async def use(agent: Agent) -> None:
        agent.editor.greets = False
        agent.client.start()
        await agent.client.settle(10)
        assert not agent.client.connected
        assert str(agent.client.fault) == "the editor says: Method not found"

    with_editor(tmp_path, use)


# discovery


def announced(directory: Path, workspace: Path, pid: int, port: int, **more: Any) -> None:
    editor = FakeEditor(workspace)
    editor.port = port
    editor.announce(directory, pid, **more)


def test_only_an_editor_with_this_directory_open_is_taken(tmp_path: Path) -> None:
    here, other = tmp_path / "here", tmp_path / "other"
    (here / "sub").mkdir(parents=True)
    other.mkdir()
    announced(tmp_path, other, 11, 1011)
    announced(tmp_path, here, 12, 1012, workspacePath=f"{other}{os.pathsep}{here}")
    announced(tmp_path, here, 13, 1013, workspacePath="")
    directory = tmp_path / "gemini" / "ide"
    (directory / "gemini-ide-server-14-1014.json").write_text("{", encoding="utf-8")
    (directory / "gemini-ide-server-15-1015.json").mkdir()
    (directory / "notes.json").write_text("{}", encoding="utf-8")
    environ = {"TMPDIR": str(tmp_path)}
    assert [one.port for one in find_companions(here / "sub", environ)] == [1012]
    assert find_companions(tmp_path, environ) == []
    assert find_companions(here, {"TMPDIR": str(tmp_path / "nowhere")}) == []


def test_a_directory_that_others_can_write_to_and_links_are_not_believed(tmp_path: Path) -> None:
    """The temporary directory is shared: whoever makes `gemini/ide` first could name any file of ours."""
    announced(tmp_path, tmp_path, 12, 1012)
    environ = {"TMPDIR": str(tmp_path)}
    directory = tmp_path / "gemini" / "ide"
    assert [one.port for one in find_companions(tmp_path, environ)] == [1012]
    planted = tmp_path / "cloned.json"
    (directory / "gemini-ide-server-12-1012.json").rename(planted)
    (directory / "gemini-ide-server-12-1012.json").symlink_to(planted)
    assert find_companions(tmp_path, environ) == []
    planted.replace(directory / "gemini-ide-server-12-1012.json")
    for path in (directory, directory.parent):
        path.chmod(0o777)
        assert find_companions(tmp_path, environ) == []
        path.chmod(0o755)
    assert len(find_companions(tmp_path, environ)) == 1
    (tmp_path / "gemini").rename(tmp_path / "mine")
    (tmp_path / "gemini").symlink_to(tmp_path / "mine")
    assert find_companions(tmp_path, environ) == []


def test_the_terminals_own_window_comes_first(tmp_path: Path) -> None:
    announced(tmp_path, tmp_path, os.getppid(), 1001)
    announced(tmp_path, tmp_path, 999_999_999, 1002)
    announced(tmp_path, tmp_path, os.getpid(), 1003)
    environ = {"TMPDIR": str(tmp_path)}
    # our parent is the editor's; then those that run; then what a crash left behind
    assert [one.port for one in find_companions(tmp_path, environ)] == [1001, 1003, 1002]
    chosen = {**environ, "GEMINI_CLI_IDE_SERVER_PORT": "1002"}
    assert [one.port for one in find_companions(tmp_path, chosen)] == [1002, 1001, 1003]
    named = {**environ, "GEMINI_CLI_IDE_PID": str(os.getpid())}
    assert find_companions(tmp_path, named)[0].port == 1003


def test_variables_alone_are_enough(tmp_path: Path) -> None:
    environ = {
        "TMPDIR": str(tmp_path / "none"),
        "GEMINI_CLI_IDE_SERVER_PORT": "4711",
        "GEMINI_CLI_IDE_WORKSPACE_PATH": str(tmp_path),
        "GEMINI_CLI_IDE_AUTH_TOKEN": "t",
    }
    (one,) = find_companions(tmp_path, environ)
    assert (one.number, one.auth_token) == (4711, "t")
    for port in ("0", "70000", "80/../x", "-1", "٣"):
        assert find_companions(tmp_path, {**environ, "GEMINI_CLI_IDE_SERVER_PORT": port}) == []
    assert find_companions(tmp_path, {**environ, "GEMINI_CLI_IDE_WORKSPACE_PATH": "/elsewhere"}) == []
