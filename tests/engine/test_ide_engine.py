"""The person's editor through the whole engine: what it shows reaches the model's requests, and when."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from coder.addons.ide.ide_client import IdeClient
from coder.addons.ide.ide_context import CHANGES, FULL
from coder.protocol.events import CommandDone, TurnEnded
from kit import Chaos, ScriptedServer
from kit.companion import TOKEN, FakeEditor
from kit.driving import Driver, Project, of
from kit.fakes import WIRES
from kit.prefix import grows
from kit.validity import check_conversation

LIST = {"name": "list", "arguments": {}}
LONG = " ".join(f"w{n}" for n in range(900))


class Place(Project):
    """A project whose shell finds the editors that announced themselves in `temporary`."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.temporary = root / "tmp"
        self.temporary.mkdir()
        self.variables: dict[str, str] = {}
        self.configure(ide={"enabled": True}, workflow={"require_todo_for_complex": False})

    def environ(self, url: str = "", **more: str) -> dict[str, str]:
        return super().environ(url, TMPDIR=str(self.temporary), **self.variables, **more)

    def file(self, name: str, timestamp: int = 1, **more: Any) -> dict[str, Any]:
        return {"path": str(self.cwd / name), "timestamp": timestamp, **more}


class Scene:
    """The engine, the model and an editor, all under way."""

    def __init__(self, place: Place, server: ScriptedServer, editor: FakeEditor) -> None:
        self.place, self.server, self.editor = place, server, editor
        self.driver = Driver(place, server.url)
        ide = self.driver.engine.agent.ide
        assert isinstance(ide, IdeClient)
        ide._pauses = (0.01,)
        self.ide = ide

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(20):
            while not condition():  # noqa: ASYNC110 - what is waited for is not ours to give an event
                await asyncio.sleep(0.002)

    async def begin(self) -> None:
        self.driver.start()
        await self.until(lambda: self.ide.context.known)

    async def show(self, *files: dict[str, Any]) -> None:
        """The person does something in the editor, and the engine has heard of it."""
        before = self.ide.context._now
        await self.editor.show(*files)
        await self.until(lambda: self.ide.context._now is not before)

    async def said(self, text: str) -> Any:
        """What the model is told of the editor with this message."""
        asked = len(self.server.chats)
        await self.driver.send(text)
        return note_in(self.server.chats[asked]["messages"][-1]["content"])


def test_ide_shows_the_editor_and_switches_it(tmp_path: Path) -> None:
    async def use(scene: Scene) -> None:
        async def said(line: str) -> str:
            return str(of(await scene.driver.send(line), CommandDone)[-1].text)

        await scene.begin()
        shown = scene.place.file(
            "a.py", 5, isActive=True, cursor={"line": 3, "character": 1}, selectedText="abc"
        )
        await scene.show(shown, scene.place.file("b.py"))
        expected = "VS Code is connected. The model is told what is open there (2):"
        assert await said("/ide") == f"{expected}\n  a.py, line 3, 3 characters selected\n  b.py"
        assert "`/ide on`" in await said("/ide off")
        assert await scene.said("and now?") is None
        assert "VS Code is connected" in await said("/ide on")
        assert await scene.said("and now?") is not None
        for announced in scene.place.temporary.rglob("*.json"):
            announced.unlink()
        await said("/ide off")
        assert "is found within" in await said("/ide on")
        assert "/ide on and /ide off" in await said("/ide of")

    play_with_editor(tmp_path, [{"text": "ok"}] * 2, use)


def note_in(message: str) -> Any:
    if "```json\n" not in message:
        return None
    assert FULL in message or CHANGES in message
    return json.loads(message.split("```json\n")[1].split("\n```")[0])


def play_with_editor(
    root: Path,
    script: list[Any],
    use: Callable[[Scene], Awaitable[None]],
    wire: str = "chat",
    **announced: Any,
) -> Scene:
    async def run() -> Scene:
        place = Place(root)
        if wire != "chat":
            place.configure(ide={"enabled": True}, provider={"wire": wire})
        editor = FakeEditor(place.cwd)
        await editor.start()
        editor.announce(place.temporary, **announced)
        editor.state = {"workspaceState": {"openFiles": [place.file("a.py", 5, isActive=True)]}}
        async with Chaos(script, wire=wire) as server:
            scene = Scene(place, server, editor)
            try:
                await use(scene)
            finally:
                await scene.driver.close()
                await editor.stop()
        assert {end.status for end in of(scene.driver.seen, TurnEnded)} <= {"ok"}
        for chat in scene.server.chats if wire == "chat" else ():
            check_conversation(chat["messages"])
        return scene

    return asyncio.run(run())


def test_whole_first_then_changes_then_nothing(tmp_path: Path) -> None:
    async def use(scene: Scene) -> None:
        file = scene.place.file
        await scene.begin()
        assert await scene.said("one") == {"activeFile": {"path": "a.py"}}
        cursor = {"line": 45, "character": 1}
        await scene.show(file("a.py", 5, isActive=True, cursor=cursor, selectedText="def"), file("b.py", 2))
        assert await scene.said("two") == {
            "changes": {
                "filesOpened": ["b.py"],
                "cursorMoved": {"path": "a.py", "cursor": cursor},
                "selectionChanged": {"path": "a.py", "selectedText": "def"},
            }
        }
        assert await scene.said("three") is None
        await scene.show(file("b.py", 9, isActive=True))
        assert await scene.said("four") == {
            "changes": {"filesClosed": ["a.py"], "activeFileChanged": {"path": "b.py"}}
        }

    scene = play_with_editor(tmp_path, [{"text": "ok"}] * 4, use)
    first, second = (chat["messages"] for chat in scene.server.chats[:2])
    assert second[: len(first)] == first  # told with the new message, never by changing an old one


@pytest.mark.parametrize("wire", WIRES)
def test_no_note_changes_what_was_sent_before(tmp_path: Path, wire: str) -> None:
    async def use(scene: Scene) -> None:
        await scene.begin()
        await scene.driver.send("one")
        await scene.show(scene.place.file("b.py", 9, isActive=True, selectedText="def"))
        await scene.driver.send("two")
        await scene.show(scene.place.file("c.py", 11, isActive=True))
        await scene.driver.send("three")

    sent = play_with_editor(tmp_path, [{"calls": [LIST]}, *[{"text": "ok"}] * 3], use, wire).server.requests
    assert len(sent) == 4
    assert json.dumps(sent[-1].json).count("```json") == 3
    assert all(grows(wire, before, after) for before, after in pairwise(sent))


def test_never_while_a_tool_call_is_open(tmp_path: Path) -> None:
    async def use(scene: Scene) -> None:
        await scene.begin()
        moves = iter(["b.py", "c.py"])

        def answer(_request: dict[str, Any]) -> dict[str, Any]:
            name = next(moves, None)
            if name is None:
                return {"text": "done"}
            # The person goes to another file while the model's call is on its way.
            task = asyncio.get_running_loop().create_task(
                scene.editor.show(scene.place.file(name, 9, isActive=True))
            )
            moving.append(task)
            return {"calls": [LIST]}

        moving: list[asyncio.Task[None]] = []
        scene.server._turns = iter([answer, answer, answer, {"text": "ok"}])
        assert await scene.said("look around") == {"activeFile": {"path": "a.py"}}
        await asyncio.gather(*moving)
        for chat in scene.server.chats[1:]:
            told = [m["role"] for m in chat["messages"] if note_in(m.get("content") or "")]
            assert told == ["user"]
            assert chat["messages"][-1]["role"] == "tool"
        await scene.until(lambda: (scene.ide.context._now or [])[0].path == "c.py")
        assert await scene.said("next") == {
            "changes": {
                "filesOpened": ["c.py"],
                "filesClosed": ["a.py"],
                "activeFileChanged": {"path": "c.py"},
            }
        }

    play_with_editor(tmp_path, [], use)


def test_whole_again_after_a_compaction_and_in_a_new_session(tmp_path: Path) -> None:
    async def use(scene: Scene) -> None:
        whole = {"activeFile": {"path": "a.py"}}
        await scene.begin()
        assert await scene.said("one") == whole
        assert await scene.said("two") is None
        await scene.driver.send("/compact")
        assert await scene.said("three") == whole
        assert await scene.said("four") is None
        await scene.driver.send("/new")
        assert await scene.said("five") == whole

    play_with_editor(
        tmp_path, [{"text": LONG}, {"text": "b"}, {"text": "summary"}, *[{"text": "ok"}] * 3], use
    )


def test_a_subagent_does_not_take_what_is_for_the_conversation(tmp_path: Path) -> None:
    async def use(scene: Scene) -> None:
        def answer(request: dict[str, Any]) -> dict[str, Any]:
            last = request["messages"][-1]["content"]
            if last.startswith("delegate"):
                files = [scene.place.file("b.py", 9, isActive=True)]  # before the subagent begins
                scene.ide.context.update({"workspaceState": {"openFiles": files}})
                return {"calls": [{"name": "task", "arguments": {"agent": "explore", "objective": "dig"}}]}
            return {"text": "ok"}

        scene.server._turns = iter([answer] * 9)
        scene.driver.engine.agent.preset = "yolo"
        await scene.begin()
        assert await scene.said("delegate") == {"activeFile": {"path": "a.py"}}
        (child,) = [c for c in scene.server.chats if "You are a subagent" in c["messages"][0]["content"]]
        assert "editor" not in json.dumps(child["messages"])
        assert (await scene.said("next"))["changes"]["activeFileChanged"] == {"path": "b.py"}

    play_with_editor(tmp_path, [], use)


def test_an_editor_that_dies_and_comes_back(tmp_path: Path) -> None:
    async def use(scene: Scene) -> None:
        await scene.begin()
        assert await scene.said("one") is not None
        port = scene.editor.port
        await scene.editor.stop()
        await scene.until(lambda: not scene.ide.connected)
        assert await scene.said("two") is None
        await scene.driver.send("/status")
        scene.editor.state = {"workspaceState": {"openFiles": [scene.place.file("b.py", isActive=True)]}}
        await scene.editor.start(port)
        await scene.until(lambda: scene.ide.context.known)
        assert (await scene.said("three"))["changes"]["filesClosed"] == ["a.py"]
        await scene.driver.send("/status")

    scene = play_with_editor(tmp_path, [{"text": "ok"}] * 3, use)
    gone, back = (event.text for event in of(scene.driver.seen, CommandDone))
    assert "editor: not connected" in gone
    assert "editor: VS Code" in back


def test_a_wrong_token_is_told_and_nothing_else_suffers(tmp_path: Path) -> None:
    async def use(scene: Scene) -> None:
        scene.driver.start()
        await scene.until(lambda: scene.editor.refused)
        assert await scene.said("one") is None
        await scene.until(lambda: scene.ide.fault)
        await scene.driver.send("/status")

    scene = play_with_editor(tmp_path, [{"text": "ok"}], use, authToken="wrong")
    assert set(scene.editor.refused) == {401}
    (status,) = of(scene.driver.seen, CommandDone)
    assert "editor: not connected (the companion answers 401)" in status.text


def test_of_two_editors_the_one_with_this_directory_open_is_heard(tmp_path: Path) -> None:
    async def use(scene: Scene) -> None:
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        other = FakeEditor(elsewhere)
        other.state = {"workspaceState": {"openFiles": [{"path": "/secret.py", "isActive": True}]}}
        await other.start()
        other.announce(scene.place.temporary)
        try:
            await scene.begin()
            assert await scene.said("one") == {"activeFile": {"path": "a.py"}}
        finally:
            await other.stop()
        assert other.heads == []

    play_with_editor(tmp_path, [{"text": "ok"}], use)


@pytest.mark.parametrize("token", [TOKEN, "stale"])
def test_the_variables_of_the_editors_own_terminal(tmp_path: Path, token: str) -> None:
    """They are enough by themselves; where a file tells a newer token, the file is right."""

    async def run() -> None:
        place = Place(tmp_path)
        editor = FakeEditor(place.cwd)
        await editor.start()
        editor.state = {"workspaceState": {"openFiles": [place.file("v.py", isActive=True)]}}
        place.variables = {
            "GEMINI_CLI_IDE_SERVER_PORT": str(editor.port),
            "GEMINI_CLI_IDE_WORKSPACE_PATH": str(place.cwd),
            "GEMINI_CLI_IDE_AUTH_TOKEN": token,
        }
        if token != TOKEN:
            editor.announce(place.temporary)
        async with ScriptedServer([{"text": "ok"}]) as server:
            scene = Scene(place, server, editor)
            await scene.begin()
            assert await scene.said("one") == {"activeFile": {"path": "v.py"}}
            await scene.driver.close()
        await editor.stop()

    asyncio.run(run())


def test_without_the_setting_no_editor_is_looked_for(tmp_path: Path) -> None:
    async def run() -> None:
        place = Place(tmp_path)
        place.configure(ide={"enabled": False})
        editor = FakeEditor(place.cwd)
        await editor.start()
        editor.announce(place.temporary)
        async with ScriptedServer([{"text": "ok"}]) as server:
            driver = Driver(place, server.url)
            driver.start()
            await driver.send("one")
            await driver.send("/status")
            await driver.close()
            assert "editor" not in server.chats[0]["messages"][-1]["content"]
        await editor.stop()
        assert editor.heads == []
        assert "editor:" not in of(driver.seen, CommandDone)[0].text

    asyncio.run(run())
