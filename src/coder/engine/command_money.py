"""`/context`, `/budget`, `/loop`: where the tokens go, what they may cost, and who watches for circles."""

from __future__ import annotations

import msgspec

from coder.context.conversation import message_tokens
from coder.engine.desk import Desk


def context_text(desk: Desk) -> str:
    """Tokens by what they are spent on, largest first."""
    session = desk.session
    counter = session.conversation.counter
    parts: dict[str, int] = {"tools": counter.count(msgspec.json.encode(desk.specs).decode("utf-8"))}
    for message in session.conversation.messages:
        name = f"tool results: {message.name}" if message.role == "tool" else message.role
        parts[name] = parts.get(name, 0) + message_tokens(counter, message)
    total = sum(parts.values())
    rows = sorted(parts.items(), key=lambda row: -row[1])
    width = max(len(name) for name, _ in rows)
    share = 100 * total // desk.context_window
    lines = [desk.say("status.context", tokens=total, window=desk.context_window, share=share)]
    return "\n".join([*lines, *(f"  {name.ljust(width)}  {tokens:>8}" for name, tokens in rows)])


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
    spent = f"{budget.spent:.4f}"
    if budget.limit is None:
        return desk.say("budget.none", spent=spent), True
    return desk.say("budget.state", spent=spent, limit=f"{budget.limit:.2f}"), True


def loop_text(desk: Desk, args: str) -> tuple[str, bool]:
    if args not in ("", "on", "off"):
        return desk.say("loop.bad", text=args), False
    if args:
        desk.session.loop_guard = args == "on"
    return desk.say("loop.on" if desk.session.loop_guard else "loop.off"), True
