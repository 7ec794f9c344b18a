"""`/permissions`: what each tool comes to, what runs without asking and who said so, and taking that back.

/permissions                  the matrix and the allowed commands
/permissions PRESET           another preset
/permissions revoke NAME      ask about this command again (`all`: about every one)
"""

from __future__ import annotations

from coder.config import ConfigError
from coder.config.schema import PRESETS
from coder.engine.agent import Agent
from coder.engine.commands.modes import Reply
from coder.engine.notes import settle_sandbox
from coder.policy.decide import matrix
from coder.protocol import entries
from coder.texts import Joined, Phrase, Said

_ALL = "all"
_SAID = {  # rows that are more than a name; their texts are as wide as the widest name
    "bash, read-only": "bash_read_only",
    "bash, otherwise": "bash_otherwise",
    "task, explore": "task_explore",
    "MCP tools": "mcp",
}


async def permissions_command(agent: Agent, args: str) -> Reply:
    word, _, name = args.partition(" ")
    if word == "revoke":
        exact = name.strip()  # a script's name may have more than one blank in it
        return _revoke(agent, exact if exact in agent.place.allowed.names() else " ".join(name.split()))
    if args:
        preset = next((p for p in PRESETS if p == args), None)
        if preset is None:
            return Reply(Phrase("permissions.unknown", name=args, names=", ".join(PRESETS)), ok=False)
        agent.preset = preset
        agent.session.record_state()
    await settle_sandbox(agent.session)
    return Reply(Joined([*_matrix(agent), *_allowed(agent)]), data={"allowed": _origins(agent)})


def _matrix(agent: Agent) -> list[Said]:
    confined = agent.runs_anything_in_plan
    rows = matrix(agent.preset, agent.mode, agent.config.permission.tools, confined=confined)
    width = max(len(name) for name, _ in rows)
    head = Phrase("permissions.head", preset=agent.preset, mode=agent.mode)
    return [head, *(Joined([_row_name(name, width), Phrase(f"policy.word.{d}")], "  ") for name, d in rows)]


def _row_name(name: str, width: int) -> Said:
    """A tool's name is the same in every language, what is said of it is not."""
    if name in _SAID:
        return "  " + Phrase(f"policy.row.{_SAID[name]}")
    return f"  {name.ljust(width)}"


def _origins(agent: Agent) -> dict[str, str]:
    """Each command that needs no question, and who said so: a file of settings, or `always`."""
    by_person = dict.fromkeys(agent.place.allowed.names(), "always")
    configured = dict.fromkeys(
        agent.config.permission.command_allowlist, agent.place.allowlist_file or "config"
    )
    return {**by_person, **configured}


def _allowed(agent: Agent) -> list[Said]:
    origins = _origins(agent)
    lines: list[Said] = []
    if origins:
        width = max(map(len, origins))
        lines = [Phrase("permissions.allowed_head")]
        lines += [f"  {name.ljust(width)}  " + _origin(origin) for name, origin in origins.items()]
        if "always" in origins.values():
            lines.append(Phrase("permissions.revoke_hint"))
    if agent.place.allowed.problem is not None:
        lines.append(agent.place.allowed.problem)
    return lines


def _origin(origin: str) -> Phrase:
    if origin == "always":
        return Phrase("permissions.by_always")
    return Phrase("permissions.by_file", file=origin)


def _revoke(agent: Agent, name: str) -> Reply:
    known = [n for n, origin in _origins(agent).items() if origin == "always"]
    if not known and name in ("", _ALL):
        return Reply(Phrase("permissions.none_allowed"), ok=bool(name))
    if not name:
        names = ", ".join([*known, _ALL])
        return Reply(Phrase("permissions.revoke_usage", names=names), ok=False, data={"usage": True})
    wanted = list(agent.place.allowed.names()) if name == _ALL else [name]
    try:
        gone = [one for one in wanted if agent.place.allowed.revoke(one)]
    except ConfigError as error:
        return Reply(error.phrase, ok=False)
    if gone:
        agent.session.log.append(entries.State(revoked=gone))
        lines = [Phrase("permissions.revoked", names=", ".join(gone))]
    else:
        lines = [Phrase("permissions.not_allowed", name=name, names=", ".join(known) or "-")]
    if name in agent.config.permission.command_allowlist:
        lines = lines if gone else []
        lines.append(Phrase("permissions.configured", name=name, file=agent.place.allowlist_file or "config"))
    return Reply(Joined(lines), ok=bool(gone) or name == _ALL)
