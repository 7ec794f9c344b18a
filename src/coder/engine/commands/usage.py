"""`/context`, `/budget`, `/loop`: where the tokens go, what they may cost, and who watches for circles."""

from __future__ import annotations

import msgspec

from coder.config.models import known_window
from coder.config.schema import EFFORTS
from coder.context.compaction import SUMMARY_HEAD
from coder.context.conversation import message_tokens
from coder.engine.agent import Agent
from coder.protocol import entries
from coder.protocol.messages import INSTRUCTIONS, Message
from coder.texts import Joined, Phrase, Said


def context_text(agent: Agent) -> Said:
    """Tokens by what they are spent on, largest first."""
    counter = agent.session.conversation.counter
    parts: dict[Phrase, int] = {}

    def spend(name: Phrase, tokens: int) -> None:
        parts[name] = parts.get(name, 0) + tokens

    spend(Phrase("context.part.tools"), counter.count(msgspec.json.encode(agent.specs).decode("utf-8")))
    for message in agent.session.conversation.messages:
        tokens = message_tokens(counter, message)
        if message.role == "system":
            for name, text in _blocks(message.content):
                own = counter.count(text)
                tokens -= own
                spend(Phrase(f"context.part.{name}"), own)
        spend(_part(message), max(0, tokens))
    total = sum(parts.values())
    head = window_line(agent, total)
    # The figure stands first: labels are of any width, in any script.
    rows = sorted(parts.items(), key=lambda row: -row[1])
    cached = cache_line(agent)
    lines = (f"{tokens:>9,}  " + name for name, tokens in rows)
    return Joined([head, *lines, *([cached] if cached is not None else [])])


def window_line(agent: Agent, tokens: int) -> Said:
    """How much of the window is used, and whether the window is only guessed."""
    chosen = agent.chosen
    share = 100 * tokens // chosen.window
    line = Phrase("status.context", tokens=f"{tokens:,}", window=f"{chosen.window:,}", share=share)
    known = known_window(agent.config, chosen.name)
    return line if known else line + " · " + Phrase("status.guessed", model=chosen.name)


def _blocks(system: str) -> list[tuple[str, str]]:
    """What was put into the system message, by name."""
    found = []
    for name in ("environment", "memory", "skills"):
        _, tag, rest = system.partition(f"\n\n<{name}>\n")
        text, end, _ = rest.partition(f"\n</{name}>")
        if tag and end:
            found.append((name, text))
    return found


def _part(message: Message) -> Phrase:
    if message.role == "tool":
        return Phrase("context.part.result", tool=message.name)
    if message.role == "user" and message.content.startswith(INSTRUCTIONS):
        return Phrase("context.part.instructions")
    if message.role == "user" and message.content.startswith(SUMMARY_HEAD):
        return Phrase("context.part.summary")
    return Phrase(f"context.part.{message.role}")


def budget_text(agent: Agent, args: str) -> tuple[Said, bool]:
    """Show the budget, or set it to an amount in USD (`off` for none)."""
    budget = agent.session.budget
    if args == "off":
        budget.limit = None
    elif args:
        try:
            amount = float(args.lstrip("$"))
        except ValueError:
            amount = -1.0
        if not 0 <= amount < float("inf"):
            return Phrase("budget.bad", text=args), False
        if (models := _without_price(agent)) == _in_use(agent):  # nothing could be counted against it
            return Phrase("budget.not_set", models=", ".join(models)), False
        budget.limit, budget.warned = amount, False
    if args:
        agent.session.log.append(entries.State(budget_usd=budget.limit))
    return Joined(budget_lines(agent)), True


def budget_lines(agent: Agent) -> list[Phrase]:
    budget, spent = agent.session.budget, f"{agent.session.budget.spent:.4f}"
    unpriced = _without_price(agent)
    listed = _listed(agent)
    if budget.limit is None and unpriced:
        return [Phrase("budget.unpriced", spent=spent, models=", ".join(unpriced)), *listed]
    if budget.limit is None:
        return [Phrase("budget.none", spent=spent), *listed]
    # A limit that cannot be kept is worth a line at once, and not only with the next turn.
    budget.told_of.update(unpriced)
    told = [Phrase("budget.no_price", model=model) for model in unpriced]
    return [Phrase("budget.state", spent=spent, limit=f"{budget.limit:.2f}"), *listed, *told]


def _listed(agent: Agent) -> list[Phrase]:
    """Said where a model in use is counted by its list price."""
    if not any(map(agent.session.budget.is_listed, _in_use(agent))):
        return []
    from coder.config.list_prices import READ

    return [Phrase("budget.listed", month=READ)]


def _without_price(agent: Agent) -> list[str]:
    """The models in use whose cost cannot be counted."""
    return [model for model in _in_use(agent) if agent.session.budget.price_of(model) is None]


def _in_use(agent: Agent) -> list[str]:
    routing = agent.config.routing
    by_mode = agent.session.modes.model if agent.session.modes else None
    name = by_mode or agent.chosen.name
    models = [m for m in (routing.fast, routing.strong) if m] if name == "auto" else [name]
    return list(dict.fromkeys(models))


def effort_text(agent: Agent, args: str) -> tuple[Said, bool]:
    """Show how much the model reasons, or set it for this session (`default`: as the model itself does)."""
    if args and args not in ("default", *EFFORTS):
        return Phrase("effort.unknown", name=args, names="|".join((*EFFORTS, "default"))), False
    if args:
        agent.effort = "" if args == "default" else args
        agent.session.log.append(entries.State(effort=agent.effort))
    if not agent.effort:
        return Phrase("effort.default", names="|".join(EFFORTS)), True
    return Phrase("effort.current", effort=agent.effort), True


def cache_line(agent: Agent) -> Phrase | None:
    """What share of the input the provider had cached, in the newest turn and in the session."""
    turn, session = agent.session.turn, agent.session.usage
    if turn is None or turn.usage.cached_share is None or session.cached_share is None:
        return None
    shares = {"turn": f"{turn.usage.cached_share:.0%}", "session": f"{session.cached_share:.0%}"}
    return Phrase("usage.cached", **shares)


def loop_text(agent: Agent, args: str) -> tuple[Said, bool]:
    if args not in ("", "on", "off"):
        return Phrase("loop.bad", text=args), False
    if args:
        agent.session.loop_guard = args == "on"
        agent.session.log.append(entries.State(loop_guard=agent.session.loop_guard))
    return Phrase("loop.on" if agent.session.loop_guard else "loop.off"), True
