"""`/status`: the session in a dozen lines."""

from __future__ import annotations

import msgspec

from coder import config, engine
from coder.config.models import known_window
from coder.config.schema import EFFORTS
from coder.config.trust import TrustStore
from coder.context.compaction import SUMMARY_HEAD
from coder.context.conversation import message_tokens
from coder.engine.agent import Agent
from coder.engine.commands.extensions import mcp_rows
from coder.engine.commands.mode_commands import Reply
from coder.engine.custom_modes import project_mode_commands
from coder.protocol import entries
from coder.protocol.evidence import evidence_line
from coder.protocol.messages import INSTRUCTIONS, Message
from coder.texts import AnyText, JoinedText, Text


def context_text(agent: Agent) -> AnyText:
    """Tokens by what they are spent on, largest first."""
    counter = agent.session.conversation.counter
    parts: dict[Text, int] = {}

    def spend(name: Text, tokens: int) -> None:
        parts[name] = parts.get(name, 0) + tokens

    spend(Text("context.part.tools"), counter.count(msgspec.json.encode(agent.specs).decode("utf-8")))
    for message in agent.session.conversation.messages:
        tokens = message_tokens(counter, message)
        if message.role == "system":
            for name, text in _blocks(message.content):
                own = counter.count(text)
                tokens -= own
                spend(Text(f"context.part.{name}"), own)
        spend(_part(message), max(0, tokens))
    total = sum(parts.values())
    head = window_line(agent, total)
    # The figure stands first: labels are of any width, in any script.
    rows = sorted(parts.items(), key=lambda row: -row[1])
    cached = cache_line(agent)
    lines = (f"{tokens:>9,}  " + name for name, tokens in rows)
    return JoinedText([head, *lines, *([cached] if cached is not None else [])])


def window_line(agent: Agent, tokens: int) -> AnyText:
    """How much of the window is used, and whether the window is only guessed."""
    chosen = agent.chosen
    share = 100 * tokens // chosen.window
    line = Text("status.context", tokens=f"{tokens:,}", window=f"{chosen.window:,}", share=share)
    known = known_window(agent.config, chosen.name)
    return line if known else line + " · " + Text("status.guessed", model=chosen.name)


def _blocks(system: str) -> list[tuple[str, str]]:
    """What was put into the system message, by name."""
    found = []
    for name in ("environment", "memory", "skills"):
        _, tag, rest = system.partition(f"\n\n<{name}>\n")
        text, end, _ = rest.partition(f"\n</{name}>")
        if tag and end:
            found.append((name, text))
    return found


def _part(message: Message) -> Text:
    if message.role == "tool":
        return Text("context.part.result", tool=message.name)
    if message.role == "user" and message.content.startswith(INSTRUCTIONS):
        return Text("context.part.instructions")
    if message.role == "user" and message.content.startswith(SUMMARY_HEAD):
        return Text("context.part.summary")
    return Text(f"context.part.{message.role}")


def budget_text(agent: Agent, args: str) -> tuple[AnyText, bool]:
    """Show the budget, or set it to an amount in USD (`off` for none)."""
    budget = agent.session.meter.budget
    if args == "off":
        budget.limit = None
    elif args:
        try:
            amount = float(args.lstrip("$"))
        except ValueError:
            amount = -1.0
        if not 0 <= amount < float("inf"):
            return Text("budget.bad", text=args), False
        if (models := _without_price(agent)) == _in_use(agent):  # nothing could be counted against it
            return Text("budget.not_set", models=", ".join(models)), False
        budget.limit, budget.warned = amount, False
    if args:
        agent.session.log.append(entries.State(budget_usd=budget.limit))
    return JoinedText(budget_lines(agent)), True


def budget_lines(agent: Agent) -> list[Text]:
    budget, spent = agent.session.meter.budget, f"{agent.session.meter.budget.spent:.4f}"
    unpriced = _without_price(agent)
    listed = _listed(agent)
    if budget.limit is None and unpriced:
        return [Text("budget.unpriced", spent=spent, models=", ".join(unpriced)), *listed]
    if budget.limit is None:
        return [Text("budget.none", spent=spent), *listed]
    # A limit that cannot be kept is worth a line at once, and not only with the next turn.
    budget.told_of.update(unpriced)
    told = [Text("budget.no_price", model=model) for model in unpriced]
    return [Text("budget.state", spent=spent, limit=f"{budget.limit:.2f}"), *listed, *told]


def _listed(agent: Agent) -> list[Text]:
    """Said where a model in use is counted by its list price."""
    if not any(map(agent.session.meter.budget.is_listed, _in_use(agent))):
        return []

    return [Text("budget.listed", month=config.prices.READ)]


def _without_price(agent: Agent) -> list[str]:
    """The models in use whose cost cannot be counted."""
    return [model for model in _in_use(agent) if agent.session.meter.budget.price_of(model) is None]


def _in_use(agent: Agent) -> list[str]:
    routing = agent.config.routing
    by_mode = agent.session.modes.model if agent.session.modes else None
    name = by_mode or agent.chosen.name
    models = [m for m in (routing.fast, routing.strong) if m] if name == "auto" else [name]
    return list(dict.fromkeys(models))


def effort_text(agent: Agent, args: str) -> tuple[AnyText, bool]:
    """Show how much the model reasons, or set it for this session (`default`: as the model itself does)."""
    if args and args not in ("default", *EFFORTS):
        return Text("effort.unknown", name=args, names="|".join((*EFFORTS, "default"))), False
    if args:
        agent.effort = "" if args == "default" else args
        agent.session.log.append(entries.State(effort=agent.effort))
    if not agent.effort:
        return Text("effort.default", names="|".join(EFFORTS)), True
    return Text("effort.current", effort=agent.effort), True


def cache_line(agent: Agent) -> Text | None:
    """What share of the input the provider had cached, in the newest turn and in the session."""
    turn, session = agent.session.turn, agent.session.meter.usage
    if turn is None or turn.usage.cached_share is None or session.cached_share is None:
        return None
    shares = {"turn": f"{turn.usage.cached_share:.0%}", "session": f"{session.cached_share:.0%}"}
    return Text("usage.cached", **shares)


def loop_text(agent: Agent, args: str) -> tuple[AnyText, bool]:
    if args not in ("", "on", "off"):
        return Text("loop.bad", text=args), False
    if args:
        agent.session.loop_guard = args == "on"
        agent.session.log.append(entries.State(loop_guard=agent.session.loop_guard))
    return Text("loop.on" if agent.session.loop_guard else "loop.off"), True


async def _trust(agent: Agent) -> AnyText:
    """How the project's settings stand, and how the commands in its modes do: each is trusted by itself."""
    parts = []
    if agent.place.trust_relevant:
        parts.append(Text("status.trusted" if agent.place.trusted else "status.untrusted"))
    commands = await project_mode_commands(agent.session)
    if commands:
        trusted = TrustStore(agent.place.home).status(agent.root, commands) == "trusted"
        parts.append(Text("status.modes_trusted" if trusted else "status.modes_untrusted"))
    return JoinedText(parts or [Text("status.nothing_to_trust")], "; ")


async def status_command(agent: Agent, args: str) -> Reply:
    session = agent.session
    usage = session.meter.usage
    tokens = session.meter.context_tokens()
    rows: list[tuple[str, AnyText]] = [
        ("session", f"{session.id} · " + Text("status.turns", n=session.log.turn)),
        ("model", agent.chosen.name + (f" · {agent.effort}" if agent.effort else "")),
        ("mode", f"{agent.mode} · " + Text("status.preset", preset=agent.preset)),
        ("context", window_line(agent, tokens)),
        (
            "used",
            Text(
                "status.used",
                prompt=f"{usage.prompt:,}",
                completion=f"{usage.completion:,}",
                cached=f"{usage.cached:,}",
            ),
        ),
        *([("cache", cached)] if (cached := cache_line(agent)) is not None else []),
        ("budget", JoinedText(budget_lines(agent), " ")),
        ("sandbox", engine.isolation.sandbox_text(session)),
        ("secrets", str(session.redactor.count)),
        *(
            [("evidence", evidence_line(*session.checks.last_evidence))]
            if session.checks.last_evidence is not None
            else []
        ),
        *([("ide", agent.ide.status())] if agent.ide is not None else []),
        *mcp_rows(agent),
        ("folder", str(agent.root)),
        ("trust", await _trust(agent)),
        ("record", str(agent.place.store.log_path(session.id))),
    ]
    return Reply(JoinedText(Text(f"status.label.{name}") + ": " + value for name, value in rows))
