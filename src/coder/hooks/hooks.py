"""The hooks of a session: read from each configuration file, run in order, with their last runs."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from coder.config.load import Source
from coder.config.schema import HooksSection
from coder.hooks.answer import Answer, answer_of
from coder.modes.patterns import is_quick
from coder.modes.patterns import matches as found_in
from coder.process.run import Outcome
from coder.texts import Phrase
from coder.tools.calls.names import TOOLS, folded


class Hook(msgspec.Struct, frozen=True):
    """`person`: from the person's own configuration, so that it runs outside the sandbox and may allow calls.
    `active`: false for a project's that is not trusted."""

    event: str
    matcher: str
    command: str
    timeout: int
    source: str
    person: bool
    active: bool


class Run(msgspec.Struct, frozen=True):
    """The last run of a hook."""

    at: float
    outcome: str
    duration_ms: int
    said: str = ""


StartHook = Callable[[Hook, bytes], Awaitable[Outcome | Phrase]]
"""Run the program with this on stdin; a phrase says why it was not run."""


class Hooks:
    """All hooks, those of the person first."""

    def __init__(self, hooks: Iterable[Hook]) -> None:
        self.hooks = sorted(hooks, key=lambda hook: not hook.person)
        self.runs: dict[Hook, Run] = {}
        self.begun: set[str] = set()  # sessions that `SessionStart` was run for

    def of(self, event: str, name: str = "") -> list[Hook]:
        """Those that apply to an event, and for a tool to this one."""
        return [
            hook
            for hook in self.hooks
            if hook.event == event and hook.active and (not name or matches(hook.matcher, name))
        ]

    async def run(
        self, hooks: Iterable[Hook], told: Mapping[str, Any], start: StartHook
    ) -> AsyncIterator[tuple[Hook, Answer, Run]]:
        """One after the other; the caller decides whether the next is run."""
        for hook in hooks:
            begun, at = time.monotonic(), time.time()
            ended = await start(hook, msgspec.json.encode(dict(told)) + b"\n")
            if isinstance(ended, Phrase):
                answer = Answer(failed=str(ended))
            else:
                answer = answer_of(
                    hook.event, ended.exit_code, ended.stdout, ended.stderr, timed_out=ended.timed_out
                )
            said = answer.failed or answer.stop or answer.blocked or answer.reason or answer.context
            took = round((time.monotonic() - begun) * 1000)
            run = self.runs[hook] = Run(at, answer.outcome, took, said)
            yield hook, answer, run


def hooks_in(sources: Iterable[Source], *, trusted: bool) -> Hooks | None:
    """None where no file has any."""
    found = [hook for source in sources for hook in _hooks_of(source, trusted=trusted)]
    return Hooks(found) if found else None


def _hooks_of(source: Source, *, trusted: bool) -> Iterable[Hook]:
    raw = source.settings.get("hooks")
    if not raw:
        return
    person = source.origin != "project"
    section = msgspec.convert(raw, HooksSection)
    for field in msgspec.structs.fields(HooksSection):
        for group in getattr(section, field.name):
            for one in group.hooks:
                if one.command.strip():
                    yield Hook(
                        event=field.encode_name,
                        matcher=group.matcher,
                        command=one.command,
                        timeout=one.timeout,
                        source=source.label,
                        person=person,
                        active=person or trusted,
                    )


_NAMES = re.compile(r"\w+(?:\|\w+)*")


def matches(matcher: str, name: str) -> bool:
    """Empty and `*` match all. Else a regular expression for the whole name in any case; plain words may be
    other agents' names of our tools (`Bash|MultiEdit`). An expression that is invalid or takes too long
    matches all: a hook that guards something must not be lost to a typo."""
    if matcher in ("", "*"):
        return True
    if _NAMES.fullmatch(matcher) and any(TOOLS.get(folded(word)) == name for word in matcher.split("|")):
        return True
    pattern = _compiled(matcher)
    if pattern is None or is_quick(matcher, len(name)):
        return pattern is None or pattern.fullmatch(name) is not None
    return found_in(rf"(?i)\A(?:{matcher})\Z", name) is not False


def is_valid(matcher: str) -> bool:
    return matcher in ("", "*") or _compiled(matcher) is not None


@lru_cache(64)
def _compiled(matcher: str) -> re.Pattern[str] | None:
    try:
        return re.compile(matcher, re.IGNORECASE)
    except (re.error, OverflowError, RecursionError):
        return None
