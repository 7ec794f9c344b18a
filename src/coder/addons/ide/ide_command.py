"""`/ide`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coder import Agent, Reply
from coder.addons.ide.ide_client import IdeClient, companion
from coder.texts import AnyText, JoinedText, Text

if TYPE_CHECKING:
    from coder.addons.ide.ide_context import OpenFile


async def ide_command(agent: Agent, args: str) -> Reply:
    """Show what the editor tells; `on` and `off` hold for this process."""
    if args not in ("", "on", "off"):
        return Reply(Text("context.ide.usage"), ok=False, data={"usage": True})
    if args == "off" and agent.ide is not None:
        ide, agent.ide = agent.ide, None
        await ide.close()
    if args == "on" and agent.ide is None:
        agent.ide = companion(agent.root, agent.place.environment)
        agent.ide.start()
        await agent.ide.settle()
    if not isinstance(agent.ide, IdeClient):
        return Reply(Text("context.ide.off", file=agent.place.home / "config.json"))
    if not agent.ide.connected:
        return Reply(Text("context.ide.none", state=agent.ide.status()))
    files = [_line(file) for file in agent.ide.context.files]
    return Reply(JoinedText([Text("context.ide.connected", name=agent.ide.name, n=len(files)), *files]))


def _line(file: OpenFile) -> AnyText:
    if not file.active or file.cursor is None:
        return f"  {file.path}"
    at = Text("context.ide.cursor", path=file.path, line=file.cursor.line)
    return "  " + at + (Text("context.ide.selected", n=len(file.selection)) if file.selection else "")
