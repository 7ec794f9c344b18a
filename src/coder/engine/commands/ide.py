"""The person's editor in `/status`: which one is connected, or why none is."""

from __future__ import annotations

from coder.engine.agent import Agent
from coder.texts import Phrase, Said


def ide_rows(agent: Agent) -> list[tuple[str, Said]]:
    """A row for `/status`; none where no editor is to be listened to."""
    ide = agent.ide
    if ide is None:
        return []
    if ide.connected:
        return [("ide", ide.name)]
    none = Phrase("status.no_ide")
    return [("ide", none if ide.fault is None else none + " (" + ide.fault + ")")]
