"""What `coder stats` says, in English."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "stats.by_day": "By day",
    "stats.by_model": "By model",
    "stats.by_project": "By project",
    "stats.by_tool": "By tool",
    "stats.checks": "Checks: {checks}",
    "stats.head.cached": "cached",
    "stats.head.calls": "calls",
    "stats.head.completion": "out",
    "stats.head.cost": "cost",
    "stats.head.denied": "denied",
    "stats.head.failed": "failed",
    "stats.head.prompt": "in",
    "stats.head.requests": "requests",
    "stats.head.sessions": "sessions",
    "stats.head.steps": "steps",
    "stats.head.time": "time",
    "stats.head.turns": "turns",
    "stats.help.all": "the sessions of every project, not of this folder alone",
    "stats.help.days": "only the last N days, today included",
    "stats.none": "No session was recorded here in this time.",
    "stats.time": "Time",
    "stats.time.model": "waiting for the model",
    "stats.time.person": "waiting for you",
    "stats.time.tools": "in tools",
    "stats.tokens": "Tokens: {prompt} in ({share} cached), {completion} out; cost {cost}",
    "stats.total": "Sessions: {sessions}, turns: {turns}, steps: {steps}",
}
