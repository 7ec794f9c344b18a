"""`/status`: the session in a dozen lines."""

from __future__ import annotations

from coder.config.trust import TrustStore
from coder.engine.agent import Agent
from coder.engine.commands.ide import ide_rows
from coder.engine.commands.mcp import mcp_rows
from coder.engine.commands.modes import Reply
from coder.engine.commands.usage import budget_text
from coder.engine.modes import project_mode_commands


async def trust_text(agent: Agent) -> str:
    """How the project's settings stand, and how the commands in its modes do: each is trusted by itself."""
    parts = []
    if agent.place.trust_relevant:
        parts.append(agent.say("status.trusted" if agent.place.trusted else "status.untrusted"))
    commands = await project_mode_commands(agent.session)
    if commands:
        trusted = TrustStore(agent.place.home).status(agent.root, commands) == "trusted"
        parts.append(agent.say("status.modes_trusted" if trusted else "status.modes_untrusted"))
    return "; ".join(parts) or agent.say("status.nothing_to_trust")


async def status_command(agent: Agent, args: str) -> Reply:
    from coder.engine.isolation import sandbox_text  # with all that runs commands: not for a menu of names

    session = agent.session
    usage = session.usage
    tokens = session.context_tokens()
    share = 100 * tokens // agent.chosen.window
    rows = [
        ("session", f"{session.id} · {agent.say('status.turns', n=session.log.turn)}"),
        ("model", agent.chosen.name),
        ("mode", f"{agent.mode} · {agent.say('status.preset', preset=agent.preset)}"),
        ("context", agent.say("status.context", tokens=tokens, window=agent.chosen.window, share=share)),
        (
            "used",
            agent.say("status.used", prompt=usage.prompt, completion=usage.completion, cached=usage.cached),
        ),
        ("budget", budget_text(agent, "")[0].replace("\n", " ")),
        ("sandbox", sandbox_text(session)),
        ("secrets", str(session.redactor.count)),
        *ide_rows(agent),
        *mcp_rows(agent),
        ("folder", str(agent.root)),
        ("trust", await trust_text(agent)),
        ("record", str(agent.place.store.log_path(session.id))),
    ]
    labels = {name: agent.say(f"status.label.{name}") for name, _ in rows}
    return Reply("\n".join(f"{labels[name]}: {value}" for name, value in rows))
