"""`sandbox.network` as a list of hosts: a door for each command, and the question about other hosts."""

from __future__ import annotations

from coder.config.schema import NetworkRules
from coder.engine.approval import ask_about_host
from coder.engine.session import Session
from coder.policy.network.door import Door, open_door
from coder.policy.network.rules import REMEMBERED
from coder.policy.sandbox.backends import SandboxLevel

_UNASKED = (
    "{host} is not listed in sandbox.network.allow, which is all that a check reaches that runs unasked."
)
_NOBODY = "{host} is not listed in sandbox.network.allow, and nobody can be asked about it in this run."
_IDLE = "{host} is not listed in sandbox.network.allow, and nobody can be asked between turns."


async def door_for(
    session: Session, level: SandboxLevel, line: str, call_id: str, *, check: bool = False
) -> Door | None:
    """A command's door; None if its network is all or nothing. `check`: nobody is asked."""
    agent = session.agent
    rules = agent.config.sandbox.network
    if not isinstance(rules, NetworkRules) or (check and not rules.allow):
        return None
    remembered = [] if check else agent.place.allowed.names()

    async def ask(host: str) -> str:
        if check:
            return _UNASKED.format(host=host)
        approval = agent.config.approval
        if not agent.front.can_ask or not approval.interactive or approval.auto_approve_ask:
            return _NOBODY.format(host=host)
        if session.turn is None or not session.turn.accepts_steering:
            return _IDLE.format(host=host)
        return await ask_about_host(session, call_id, line, host, f"{REMEMBERED}{host}")

    return await open_door(
        level,
        rules,
        agent.place.environment,
        ask if check or rules.otherwise == "ask" else None,
        [name.removeprefix(REMEMBERED) for name in remembered if name.startswith(REMEMBERED)],
    )
