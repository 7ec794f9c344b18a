"""`/context`, `/budget`, `/loop`: where the tokens go, what they may cost, and who watches for circles."""

from __future__ import annotations

import msgspec

from coder.context.compaction import SUMMARY_HEAD
from coder.context.conversation import message_tokens
from coder.engine.agent import Agent
from coder.protocol import entries
from coder.protocol.messages import INSTRUCTIONS, Message


def context_text(agent: Agent) -> str:
    """Tokens by what they are spent on, largest first."""
    counter = agent.session.conversation.counter
    parts: dict[str, int] = {}

    def spend(name: str, tokens: int) -> None:
        parts[name] = parts.get(name, 0) + tokens

    spend(agent.say("context.part.tools"), counter.count(msgspec.json.encode(agent.specs).decode("utf-8")))
    for message in agent.session.conversation.messages:
        tokens = message_tokens(counter, message)
        if message.role == "system":
            for name, text in _blocks(message.content):
                own = counter.count(text)
                tokens -= own
                spend(agent.say(f"context.part.{name}"), own)
        spend(_part(agent, message), max(0, tokens))
    total = sum(parts.values())
    share = 100 * total // agent.chosen.window
    lines = [agent.say("status.context", tokens=total, window=agent.chosen.window, share=share)]
    # The figure stands first: labels are of any width, in any script.
    rows = sorted(parts.items(), key=lambda row: -row[1])
    return "\n".join([*lines, *(f"{tokens:>8}  {name}" for name, tokens in rows)])


def _blocks(system: str) -> list[tuple[str, str]]:
    """What was put into the system message, by name."""
    found = []
    for name in ("environment", "memory", "skills"):
        _, tag, rest = system.partition(f"\n\n<{name}>\n")
        text, end, _ = rest.partition(f"\n</{name}>")
        if tag and end:
            found.append((name, text))
    return found


def _part(agent: Agent, message: Message) -> str:
    if message.role == "tool":
        return agent.say("context.part.result", tool=message.name)
    if message.role == "user" and message.content.startswith(INSTRUCTIONS):
        return agent.say("context.part.instructions")
    if message.role == "user" and message.content.startswith(SUMMARY_HEAD):
        return agent.say("context.part.summary")
    return agent.say(f"context.part.{message.role}")


def budget_text(agent: Agent, args: str) -> tuple[str, bool]:
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
            return agent.say("budget.bad", text=args), False
        budget.limit, budget.warned = amount, False
    if args:
        agent.session.log.append(entries.State(budget_usd=budget.limit))
    spent = f"{budget.spent:.4f}"
    if budget.limit is None:
        return agent.say("budget.none", spent=spent), True
    lines = [agent.say("budget.state", spent=spent, limit=f"{budget.limit:.2f}"), *_without_price(agent)]
    return "\n".join(lines), True


def _without_price(agent: Agent) -> list[str]:
    """A limit that cannot be kept is worth a line at once, and not only with the next turn."""
    routing = agent.config.routing
    by_mode = agent.session.modes.model if agent.session.modes else None
    name = by_mode or agent.chosen.name
    models = [m for m in (routing.fast, routing.strong) if m] if name == "auto" else [name]
    budget = agent.session.budget
    unknown = [model for model in dict.fromkeys(models) if budget.price_of(model) is None]
    budget.told_of.update(unknown)
    return [agent.say("budget.no_price", model=model) for model in unknown]


def loop_text(agent: Agent, args: str) -> tuple[str, bool]:
    if args not in ("", "on", "off"):
        return agent.say("loop.bad", text=args), False
    if args:
        agent.session.loop_guard = args == "on"
        agent.session.log.append(entries.State(loop_guard=agent.session.loop_guard))
    return agent.say("loop.on" if agent.session.loop_guard else "loop.off"), True
