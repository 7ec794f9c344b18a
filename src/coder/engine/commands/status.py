"""`/status`: the session in a dozen lines."""

from __future__ import annotations

from coder.config.trust import TrustStore
from coder.engine.agent import Agent
from coder.engine.commands.ide import ide_rows
from coder.engine.commands.mcp import mcp_rows
from coder.engine.commands.modes import Reply
from coder.engine.commands.usage import budget_lines, cache_line, window_line
from coder.engine.modes import project_mode_commands
from coder.protocol.evidence import told
from coder.texts import Joined, Phrase, Said


async def _trust(agent: Agent) -> Said:
    """How the project's settings stand, and how the commands in its modes do: each is trusted by itself."""
    parts = []
    if agent.place.trust_relevant:
        parts.append(Phrase("status.trusted" if agent.place.trusted else "status.untrusted"))
    commands = await project_mode_commands(agent.session)
    if commands:
        trusted = TrustStore(agent.place.home).status(agent.root, commands) == "trusted"
        parts.append(Phrase("status.modes_trusted" if trusted else "status.modes_untrusted"))
    return Joined(parts or [Phrase("status.nothing_to_trust")], "; ")


async def status_command(agent: Agent, args: str) -> Reply:
    from coder.engine.isolation import sandbox_text  # with all that runs commands: not for a menu of names

    session = agent.session
    usage = session.usage
    tokens = session.context_tokens()
    rows: list[tuple[str, Said]] = [
        ("session", f"{session.id} · " + Phrase("status.turns", n=session.log.turn)),
        ("model", agent.chosen.name + (f" · {agent.effort}" if agent.effort else "")),
        ("mode", f"{agent.mode} · " + Phrase("status.preset", preset=agent.preset)),
        ("context", window_line(agent, tokens)),
        (
            "used",
            Phrase(
                "status.used",
                prompt=f"{usage.prompt:,}",
                completion=f"{usage.completion:,}",
                cached=f"{usage.cached:,}",
            ),
        ),
        *([("cache", cached)] if (cached := cache_line(agent)) is not None else []),
        ("budget", Joined(budget_lines(agent), " ")),
        ("sandbox", sandbox_text(session)),
        ("secrets", str(session.redactor.count)),
        *([("evidence", told(*session.shown))] if session.shown is not None else []),
        *ide_rows(agent),
        *mcp_rows(agent),
        ("folder", str(agent.root)),
        ("trust", await _trust(agent)),
        ("record", str(agent.place.store.log_path(session.id))),
    ]
    return Reply(Joined(Phrase(f"status.label.{name}") + ": " + value for name, value in rows))
