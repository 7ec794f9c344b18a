"""The person's editor in `/status`: which one is connected, or why none is."""

from __future__ import annotations

from coder.engine.agent import Desk


def ide_rows(desk: Desk) -> list[tuple[str, str]]:
    """A row for `/status`; none where no editor is to be listened to."""
    ide = desk.ide
    if ide is None:
        return []
    if ide.connected:
        return [("ide", ide.name)]
    reason = f" ({ide.fault.text(desk.texts)})" if ide.fault is not None else ""
    return [("ide", f"{desk.say('status.no_ide')}{reason}")]
