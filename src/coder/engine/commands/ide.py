"""The person's editor in `/status`: which one is connected, or why none is."""

from __future__ import annotations

from coder.engine.agent import Agent


def ide_rows(agent: Agent) -> list[tuple[str, str]]:
    """A row for `/status`; none where no editor is to be listened to."""
    ide = agent.ide
    if ide is None:
        return []
    if ide.connected:
        return [("ide", ide.name)]
    reason = f" ({ide.fault.text(agent.texts)})" if ide.fault is not None else ""
    return [("ide", f"{agent.say('status.no_ide')}{reason}")]
