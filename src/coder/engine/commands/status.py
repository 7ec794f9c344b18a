"""`/status`: the session in a dozen lines."""

from __future__ import annotations

from coder.config.trust import TrustStore
from coder.engine.agent import Desk
from coder.engine.commands.ide import ide_rows
from coder.engine.commands.mcp import mcp_rows
from coder.engine.commands.modes import Reply
from coder.engine.commands.usage import budget_text
from coder.engine.modes import project_mode_commands


async def trust_text(desk: Desk) -> str:
    """How the project's settings stand, and how the commands in its modes do: each is trusted by itself."""
    parts = []
    if desk.trust_relevant:
        parts.append(desk.say("status.trusted" if desk.trusted else "status.untrusted"))
    commands = await project_mode_commands(desk.session)
    if commands:
        trusted = TrustStore(desk.home).status(desk.root, commands) == "trusted"
        parts.append(desk.say("status.modes_trusted" if trusted else "status.modes_untrusted"))
    return "; ".join(parts) or desk.say("status.nothing_to_trust")


async def status_command(desk: Desk, args: str) -> Reply:
    from coder.engine.isolation import sandbox_text  # with all that runs commands: not for a menu of names

    session = desk.session
    usage = session.usage
    tokens = session.context_tokens()
    share = 100 * tokens // desk.chosen.window
    rows = [
        ("session", f"{session.id} · {desk.say('status.turns', n=session.log.turn)}"),
        ("model", desk.chosen.name),
        ("mode", f"{desk.mode} · {desk.say('status.preset', preset=desk.preset)}"),
        ("context", desk.say("status.context", tokens=tokens, window=desk.chosen.window, share=share)),
        (
            "used",
            desk.say("status.used", prompt=usage.prompt, completion=usage.completion, cached=usage.cached),
        ),
        ("budget", budget_text(desk, "")[0].replace("\n", " ")),
        ("sandbox", sandbox_text(session)),
        ("secrets", str(session.redactor.count)),
        *ide_rows(desk),
        *mcp_rows(desk),
        ("folder", str(desk.root)),
        ("trust", await trust_text(desk)),
        ("record", str(desk.store.log_path(session.id))),
    ]
    labels = {name: desk.say(f"status.label.{name}") for name, _ in rows}
    return Reply("\n".join(f"{labels[name]}: {value}" for name, value in rows))
