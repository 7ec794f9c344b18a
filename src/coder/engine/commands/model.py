"""`/model`: which model answers, and by which provider."""

from __future__ import annotations

from coder.config import ConfigError
from coder.config.provider import Provider
from coder.engine.agent import Agent
from coder.engine.approval import ask_to_go_on
from coder.engine.commands.modes import Reply
from coder.model.base import ModelError
from coder.texts import Joined, Phrase, Said

_MOST_LISTED = 20


async def model_command(agent: Agent, args: str) -> Reply:
    if not args:
        current = Phrase("model.current", model=agent.chosen.name)
        return Reply(Joined([current, *_of_mode(agent), *await _list(agent)]))
    if " " in args:
        return Reply(Phrase("model.one_name"), ok=False, data={"usage": True})
    from coder.config.save import save_model

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
        question = [unlisted, Phrase("model.use_it")]
        if await ask_to_go_on(agent.session, question, can_always=False) == "no":
            return Reply(Phrase("model.unchanged", model=agent.chosen.name), ok=False)
        unlisted = None
    if agent.others is not None:
        agent.others.reach(args, moved or agent.others.provider_of(agent.chosen.name))
    agent.use_model(args)
    agent.session.record_state()
    problem = save_model(agent.root, args)
    by = Phrase("model.provider", provider=moved.name) if moved else None
    lines: list[Said] = [Phrase("model.set", model=args), *filter(None, [by, unlisted, problem])]
    return Reply(Joined([*lines, *_of_variable(agent, args), *_of_mode(agent)]))


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
    from coder.engine.setup import LIST_SECONDS, listed_models

    try:
        return await listed_models(provider, LIST_SECONDS)
    except (ModelError, TimeoutError):
        return []


async def _list(agent: Agent) -> list[Said]:
    names, current = await _names(agent), agent.chosen.name
    names = [current, *(name for name in names if name != current)] if current in names else names
    lines: list[Said] = [f"  {name}{' *' if name == current else ''}" for name in names[:_MOST_LISTED]]
    more = len(names) - len(lines)
    return [*lines, Phrase("model.more", n=more)] if more else lines


def _unlisted(name: str, names: list[str]) -> Phrase | None:
    """Where the server lists its models, and not this one; with the nearest that it has."""
    if not names or name in names:
        return None
    import difflib

    if near := difflib.get_close_matches(name, names, 3, 0.5):
        return Phrase("model.not_listed", model=name, names=", ".join(near))
    some = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
    return Phrase("model.not_listed_at_all", model=name, names=some)


def _of_variable(agent: Agent, name: str) -> list[Said]:
    """The variable comes before what is kept with the project."""
    variable = agent.place.environment.get("CODER_MODEL", "").strip()
    return [Phrase("model.variable", model=variable)] if variable not in ("", name) else []


def _of_mode(agent: Agent) -> list[Said]:
    """A custom mode that names a model wins while it is on."""
    winner = agent.session.modes.model_from if agent.session.modes else None
    return [Phrase("model.mode_wins", mode=winner.mode_id, model=winner.model)] if winner else []
