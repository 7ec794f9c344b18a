"""`/model`: which model answers, and by which provider."""

from __future__ import annotations

from coder import config
from coder.config import ConfigError
from coder.config.providers import Provider
from coder.config.schema import PRESETS
from coder.engine.agent import Agent
from coder.engine.approval import ask_to_go_on
from coder.engine.commands.mode_commands import Reply
from coder.engine.notes import settle_sandbox
from coder.engine.setup import LIST_SECONDS, listed_models
from coder.models.model import ModelError
from coder.policy.decide import matrix
from coder.protocol import entries
from coder.texts import AnyText, JoinedText, Text

_MOST_LISTED = 20


async def model_command(agent: Agent, args: str) -> Reply:
    if not args:
        current = Text("model.current", model=agent.chosen.name)
        return Reply(JoinedText([current, *_of_mode(agent), *await _list(agent)]))
    if " " in args:
        return Reply(Text("model.one_name"), ok=False, data={"usage": True})

    routing = agent.config.routing
    known = ("auto", agent.chosen.name, routing.fast, routing.strong, *agent.config.provider.models)
    names = [] if args in known else await _names(agent)
    try:
        moved = None if args in names else _other_provider(agent, args)
    except ConfigError as error:
        return Reply(error.phrase, ok=False)
    if moved and args not in known:
        names = await _names(agent, moved)
    unlisted = _unlisted(args, names)
    if unlisted and agent.can_ask:
        question = [unlisted, Text("model.use_it")]
        if await ask_to_go_on(agent.session, question, can_always=False) == "no":
            return Reply(Text("model.unchanged", model=agent.chosen.name), ok=False)
        unlisted = None
    if agent.others is not None:
        agent.others.reach(args, moved or agent.others.provider_of(agent.chosen.name))
    agent.use_model(args)
    agent.session.record_state()
    problem = config.save.save_model(agent.root, args)
    by = Text("model.provider", provider=moved.name) if moved else None
    lines: list[AnyText] = [Text("model.set", model=args), *filter(None, [by, unlisted, problem])]
    return Reply(JoinedText([*lines, *_of_variable(agent, args), *_of_mode(agent)]))


def _other_provider(agent: Agent, name: str) -> Provider | None:
    """The provider that the name belongs to, if it is not the one in use. Raises `ConfigError`."""
    if agent.others is None:
        return None
    found, used = agent.others.find(name), agent.others.provider_of(agent.chosen.name)
    return None if found.name == used.name else found


async def _names(agent: Agent, provider: Provider | None = None) -> list[str]:
    """The models that the server lists; none where it has no list."""
    if provider is None and agent.others is not None:
        provider = agent.others.provider_of(agent.chosen.name)
    if provider is None:
        return []

    try:
        return await listed_models(provider, LIST_SECONDS)
    except (ModelError, TimeoutError):
        return []


async def _list(agent: Agent) -> list[AnyText]:
    names, current = await _names(agent), agent.chosen.name
    names = [current, *(name for name in names if name != current)] if current in names else names
    lines: list[AnyText] = [f"  {name}{' *' if name == current else ''}" for name in names[:_MOST_LISTED]]
    more = len(names) - len(lines)
    return [*lines, Text("model.more", n=more)] if more else lines


def _unlisted(name: str, names: list[str]) -> Text | None:
    """Where the server lists its models, and not this one; with the nearest that it has."""
    if not names or name in names:
        return None
    import difflib

    if near := difflib.get_close_matches(name, names, 3, 0.5):
        return Text("model.not_listed", model=name, names=", ".join(near))
    some = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
    return Text("model.not_listed_at_all", model=name, names=some)


def _of_variable(agent: Agent, name: str) -> list[AnyText]:
    """The variable comes before what is kept with the project."""
    variable = agent.place.environment.get("CODER_MODEL", "").strip()
    return [Text("model.variable", model=variable)] if variable not in ("", name) else []


def _of_mode(agent: Agent) -> list[AnyText]:
    """A custom mode that names a model wins while it is on."""
    winner = agent.session.modes.model_from if agent.session.modes else None
    return [Text("model.mode_wins", mode=winner.mode_id, model=winner.model)] if winner else []


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
            return Reply(Text("permissions.unknown", name=args, names=", ".join(PRESETS)), ok=False)
        agent.preset = preset
        agent.session.record_state()
    await settle_sandbox(agent.session)
    return Reply(JoinedText([*_matrix(agent), *_allowed(agent)]), data={"allowed": _origins(agent)})


def _matrix(agent: Agent) -> list[AnyText]:
    confined = agent.runs_anything_in_plan
    rows = matrix(agent.preset, agent.mode, agent.config.permission.tools, confined=confined)
    width = max(len(name) for name, _ in rows)
    head = Text("permissions.head", preset=agent.preset, mode=agent.mode)
    return [head, *(JoinedText([_row_name(name, width), Text(f"policy.word.{d}")], "  ") for name, d in rows)]


def _row_name(name: str, width: int) -> AnyText:
    """A tool's name is the same in every language, what is said of it is not."""
    if name in _SAID:
        return "  " + Text(f"policy.row.{_SAID[name]}")
    return f"  {name.ljust(width)}"


def _origins(agent: Agent) -> dict[str, str]:
    """Each command that needs no question, and who said so: a file of settings, or `always`."""
    by_person = dict.fromkeys(agent.place.allowed.names(), "always")
    configured = dict.fromkeys(
        agent.config.permission.command_allowlist, agent.place.allowlist_file or "config"
    )
    return {**by_person, **configured}


def _allowed(agent: Agent) -> list[AnyText]:
    origins = _origins(agent)
    lines: list[AnyText] = []
    if origins:
        width = max(map(len, origins))
        lines = [Text("permissions.allowed_head")]
        lines += [f"  {name.ljust(width)}  " + _origin(origin) for name, origin in origins.items()]
        if "always" in origins.values():
            lines.append(Text("permissions.revoke_hint"))
    if agent.place.allowed.problem is not None:
        lines.append(agent.place.allowed.problem)
    return lines


def _origin(origin: str) -> Text:
    if origin == "always":
        return Text("permissions.by_always")
    return Text("permissions.by_file", file=origin)


def _revoke(agent: Agent, name: str) -> Reply:
    known = [n for n, origin in _origins(agent).items() if origin == "always"]
    if not known and name in ("", _ALL):
        return Reply(Text("permissions.none_allowed"), ok=bool(name))
    if not name:
        names = ", ".join([*known, _ALL])
        return Reply(Text("permissions.revoke_usage", names=names), ok=False, data={"usage": True})
    wanted = list(agent.place.allowed.names()) if name == _ALL else [name]
    try:
        gone = [one for one in wanted if agent.place.allowed.revoke(one)]
    except ConfigError as error:
        return Reply(error.phrase, ok=False)
    if gone:
        agent.session.log.append(entries.State(revoked=gone))
        lines = [Text("permissions.revoked", names=", ".join(gone))]
    else:
        lines = [Text("permissions.not_allowed", name=name, names=", ".join(known) or "-")]
    if name in agent.config.permission.command_allowlist:
        lines = lines if gone else []
        lines.append(Text("permissions.configured", name=name, file=agent.place.allowlist_file or "config"))
    return Reply(JoinedText(lines), ok=bool(gone) or name == _ALL)
