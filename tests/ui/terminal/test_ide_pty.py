"""The real `coder` beside an editor: found by its discovery file, heard, and not missed when it is gone."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

from pty_kit import Terminal

from kit import ScriptedServer
from kit.companion import FakeEditor
from kit.driving import Project


class Beside:
    """The editor in a thread of its own."""

    def __init__(self, editor: FakeEditor, loop: asyncio.AbstractEventLoop) -> None:
        self.editor, self._loop = editor, loop

    def do(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(20)


@contextmanager
def editor_beside(project: Project) -> Iterator[Beside]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    editor = FakeEditor(project.cwd)
    beside = Beside(editor, loop)
    try:
        beside.do(editor.start())
        editor.announce(project.home)
        yield beside
        beside.do(editor.stop())
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def test_what_the_editor_shows_is_told_with_the_prompt(project: Project) -> None:
    project.configure(ide={"enabled": True})
    script = [{"text": "first answer"}, {"text": "second answer"}]
    with ScriptedServer(script) as server, editor_beside(project) as beside:
        path = str(project.cwd / "a.py")
        file = {"path": path, "timestamp": 1, "isActive": True, "selectedText": "编辑 me"}
        beside.editor.state = {"workspaceState": {"openFiles": [file]}}
        with Terminal(project, server.url, TMPDIR=str(project.home)) as terminal:
            terminal.until(lambda: bool(beside.editor._streams))
            terminal.until_idle()
            terminal.send("look")
            terminal.until("first answer")
            terminal.until_idle()
            beside.do(beside.editor.stop())
            terminal.send("again")
            terminal.until("second answer")
            beside.do(beside.editor.start())
    first, second = (chat["messages"][-1]["content"] for chat in server.chats)
    note = json.loads(first.split("```json\n")[1].split("\n```")[0])
    assert note == {"activeFile": {"path": "a.py", "selectedText": "编辑 me"}}
    assert second == "again"
