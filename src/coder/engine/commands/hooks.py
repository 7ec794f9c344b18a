"""`/hooks`: what is configured, and how each last ended."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from coder.engine.agent import Agent
from coder.engine.commands.modes import Reply
from coder.texts import Joined, Phrase, Said, one_line

if TYPE_CHECKING:
    from coder.hooks.hooks import Hook, Run


async def hooks_command(agent: Agent, args: str) -> Reply:
    if agent.hooks is None:
        return Reply(Phrase("hooks.none", file=agent.place.home / "config.json"))
    return Reply(Joined(_line(hook, agent.hooks.runs.get(hook)) for hook in agent.hooks.hooks))


def _line(hook: Hook, run: Run | None) -> Said:
    from coder.hooks.hooks import is_valid

    parts: list[Said] = [
        hook.event,
        hook.matcher or "*",
        one_line(hook.command, 100),
        f"({hook.source})",
    ]
    if not is_valid(hook.matcher):
        parts.append(Phrase("hooks.bad_matcher"))
    if not hook.active:
        parts.append(Phrase("hooks.untrusted"))
    elif run is None:
        parts.append(Phrase("hooks.never_run"))
    else:
        clock = time.strftime("%H:%M:%S", time.localtime(run.at))
        last = Phrase("hooks.last_run", at=clock, outcome=run.outcome, ms=run.duration_ms)
        parts.append(last + f": {one_line(run.said, 200)}" if run.said else last)
    return Joined(parts, "  ")
