"""Hooks, in English."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "hooks.asks": "A hook asks for your approval: {reason}",
    "hooks.bad_matcher": "its matcher is no regular expression, so it is run for every tool",
    "hooks.compaction_blocked": "a hook blocked it: {reason}",
    "hooks.failed": "The hook `{command}` ({event}) gave no answer and was passed over: {why}",
    "hooks.last_run": "last run {at}, {outcome}, {ms} ms",
    "hooks.never_run": "not run yet",
    "hooks.none": "There are no hooks. They are the section `hooks` of {file}; docs/hooks.md shows some.",
    "hooks.prompt_blocked": "A hook did not let the message through: {reason}",
    "hooks.refused": "refused by a hook: {reason}",
    "hooks.stopped": "A hook stopped the turn: {reason}",
    "hooks.untrusted": "not run: this project is not trusted (`coder trust`)",
}
