"""The hooks of a session: read from each configuration file, run in order, with their last runs."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, Literal

import msgspec

from coder.base.process.output import plain
from coder.base.process.run import ProcessOutcome
from coder.base.text import shortened
from coder.config.load import Source
from coder.config.schema import HooksSection
from coder.extend.patterns import is_quick
from coder.extend.patterns import matches as found_in
from coder.texts import Text
from coder.tools.calls.names import TOOLS, folded

Decision = Literal["", "allow", "ask", "deny"]

BLOCKED = 2  # the exit status that blocks
_GUARDS = ("PreToolUse", "UserPromptSubmit")  # what these cannot say clearly does not happen
MAX_SAID = 10_000  # characters of a reason or context: it is part of the conversation


class Answer(msgspec.Struct, frozen=True):
    """`blocked`: why this may not happen, for the model. `decision`, `reason`: about a tool call.
    `changed`: its new arguments. `context`: for the model. `stop`: why the whole turn must end.
    `shown`: for the person. `failed`: why the hook gave no answer."""

    blocked: str | None = None
    decision: Decision = ""
    reason: str = ""
    changed: dict[str, Any] | None = None
    context: str = ""
    stop: str | None = None
    shown: str = ""
    failed: str = ""

    @property
    def outcome(self) -> str:
        """One word for the record and `/hooks`."""
        if self.failed:
            return "failed"
        if self.stop is not None:
            return "stopped"
        if self.blocked is not None or self.decision == "deny":
            return "blocked"
        if self.changed is not None:
            return "changed"
        return {"allow": "allowed", "ask": "asked"}.get(self.decision, "context" if self.context else "ok")


def answer_of(event: str, exit_code: int, stdout: str, stderr: str, *, timed_out: bool = False) -> Answer:
    stdout, stderr = stdout.removeprefix("\ufeff").strip(), plain(stderr).strip()
    if timed_out:
        return Answer(failed="it did not end in time")
    if exit_code == BLOCKED:
        return Answer(blocked=shortened(stderr, MAX_SAID) or "a hook blocked it and gave no reason")
    if exit_code != 0:
        said = shortened(stderr or stdout, 500)
        return Answer(failed=f"exit status {exit_code}" + (f": {said}" if said else ""))
    if not stdout.startswith("{"):
        # Plain output is context where a person would expect the model to read it.
        is_context = event in ("SessionStart", "UserPromptSubmit")
        return Answer(context=shortened(plain(stdout), MAX_SAID) if is_context else "")
    try:
        given = msgspec.json.decode(stdout, type=_Given)
    except (msgspec.DecodeError, RecursionError) as error:
        why = f"its JSON is not understood: {error}"
        return Answer(
            failed=why, blocked=f"the answer of a hook is unclear: {why}" if event in _GUARDS else None
        )
    return _read(given)


class _Specific(msgspec.Struct, rename="camel"):
    permission_decision: Literal["", "allow", "ask", "deny"] | None = None
    permission_decision_reason: str | None = None
    updated_input: dict[str, Any] | None = None
    additional_context: str | None = None


class _Given(msgspec.Struct, rename="camel"):
    """The fields that other agents' hooks answer with, null where they have nothing to say; others are
    skipped."""

    go_on: bool | None = msgspec.field(name="continue", default=None)
    stop_reason: str | None = None
    system_message: str | None = None
    decision: Literal["", "approve", "block", "allow", "ask", "deny"] | None = None
    reason: str | None = None
    hook_specific_output: _Specific | None = None


_OLDER: dict[str, Decision] = {
    "approve": "allow",
    "block": "deny",
    "allow": "allow",
    "ask": "ask",
    "deny": "deny",
}


def _read(given: _Given) -> Answer:
    own = given.hook_specific_output or _Specific()
    decision: Decision = own.permission_decision or _OLDER.get(given.decision or "", "")
    reason = shortened(own.permission_decision_reason or given.reason or "", MAX_SAID)
    return Answer(
        blocked=(reason or "a hook blocked it and gave no reason") if decision == "deny" else None,
        decision=decision,
        reason=reason,
        changed=own.updated_input,
        context=shortened(own.additional_context or "", MAX_SAID),
        stop=_stop(given),
        shown=shortened(given.system_message or "", 500),
    )


def _stop(given: _Given) -> str | None:
    if given.go_on is not False:
        return None
    return shortened(given.stop_reason or "", MAX_SAID) or "a hook stopped the turn"


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


StartHook = Callable[[Hook, bytes], Awaitable[ProcessOutcome | Text]]
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
            if isinstance(ended, Text):
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
    """None if no file has any."""
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
