"""What a hook's end means: exit status, stderr and JSON on stdout as one answer. Pure."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from coder.process.output import plain
from coder.texts import shortened

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
