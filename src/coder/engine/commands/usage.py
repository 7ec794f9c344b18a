"""`/context`, `/budget`, `/loop`: where the tokens go, what they may cost, and who watches for circles."""

from __future__ import annotations

import msgspec

from coder.context.compaction import SUMMARY_HEAD
from coder.context.conversation import message_tokens
from coder.engine.agent import Desk
from coder.protocol.messages import INSTRUCTIONS, Message


def context_text(desk: Desk) -> str:
    """Tokens by what they are spent on, largest first."""
    counter = desk.session.conversation.counter
    parts: dict[str, int] = {}

    def spend(name: str, tokens: int) -> None:
        parts[name] = parts.get(name, 0) + tokens

    spend(desk.say("context.part.tools"), counter.count(msgspec.json.encode(desk.specs).decode("utf-8")))
    for message in desk.session.conversation.messages:
        tokens = message_tokens(counter, message)
        if message.role == "system":
            for name, text in _blocks(message.content):
                own = counter.count(text)
                tokens -= own
                spend(desk.say(f"context.part.{name}"), own)
        spend(_part(desk, message), max(0, tokens))
    total = sum(parts.values())
    share = 100 * total // desk.chosen.window
    lines = [desk.say("status.context", tokens=total, window=desk.chosen.window, share=share)]
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


def _part(desk: Desk, message: Message) -> str:
    if message.role == "tool":
        return desk.say("context.part.result", tool=message.name)
    if message.role == "user" and message.content.startswith(INSTRUCTIONS):
        return desk.say("context.part.instructions")
    if message.role == "user" and message.content.startswith(SUMMARY_HEAD):
        return desk.say("context.part.summary")
    return desk.say(f"context.part.{message.role}")


def budget_text(desk: Desk, args: str) -> tuple[str, bool]:
    """Show the budget, or set it to an amount in USD (`off` for none)."""
    budget = desk.session.budget
    if args == "off":
        budget.limit = None
    elif args:
        try:
            amount = float(args.lstrip("$"))
        except ValueError:
            amount = -1.0
        if not 0 <= amount < float("inf"):
            return desk.say("budget.bad", text=args), False
        budget.limit, budget.warned = amount, False
    if args:
        desk.session.record_choice(budget_usd=budget.limit)
    spent = f"{budget.spent:.4f}"
    if budget.limit is None:
        return desk.say("budget.none", spent=spent), True
    lines = [desk.say("budget.state", spent=spent, limit=f"{budget.limit:.2f}"), *_without_price(desk)]
    return "\n".join(lines), True


def _without_price(desk: Desk) -> list[str]:
    """A limit that cannot be kept is worth a line at once, and not only with the next turn."""
    routing = desk.config.routing
    by_mode = desk.session.modes.model if desk.session.modes else None
    name = by_mode or desk.chosen.name
    models = [m for m in (routing.fast, routing.strong) if m] if name == "auto" else [name]
    budget = desk.session.budget
    unknown = [model for model in dict.fromkeys(models) if budget.price_of(model) is None]
    budget.told_of.update(unknown)
    return [desk.say("budget.no_price", model=model) for model in unknown]


def loop_text(desk: Desk, args: str) -> tuple[str, bool]:
    if args not in ("", "on", "off"):
        return desk.say("loop.bad", text=args), False
    if args:
        desk.session.loop_guard = args == "on"
        desk.session.record_choice(loop_guard=args == "on")
    return desk.say("loop.on" if desk.session.loop_guard else "loop.off"), True
