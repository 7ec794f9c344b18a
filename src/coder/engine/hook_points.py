"""Run hooks at the points of a session. Imported only if some are configured."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from coder.base.process.programs import Runs, find_program
from coder.base.process.run import ProcessOutcome, run_process
from coder.base.text import one_line
from coder.engine.isolation import run_program
from coder.engine.session import Session
from coder.engine.turn_state import Turn
from coder.extend.hooks import Answer, Hook
from coder.policy.shell.verdict import PolicyDecision
from coder.protocol import entries
from coder.protocol.events import Notice
from coder.texts import Text
from coder.tools.tool import ToolResult

_KEPT_BYTES = 1_048_576  # of a hook's output: it may hold a whole file that is written
# Where hooks are known to change files (formatters): `/undo` covers what they do then.
_COVERED = ("PostToolUse", "Stop")
_GRACE = 1.0  # seconds for notifications at the end


async def _run(
    session: Session, hooks: Iterable[Hook], told: Mapping[str, Any], **about: Any
) -> list[Answer]:
    """Run hooks in order, up to the first that blocks or stops. Their input has placeholders for secrets;
    runs are recorded."""
    agent = session.agent
    assert agent.hooks is not None
    common = {
        "session_id": session.id,
        "transcript_path": str(agent.place.store.log_path(session.id)),
        "cwd": str(agent.root),
        "permission_mode": agent.mode,
    }
    answers: list[Answer] = []

    async def start(hook: Hook, given: bytes) -> ProcessOutcome | Text:
        return await _start(session, hook, given)

    for hook in hooks:  # each is told of the arguments that the one before it has changed
        told = {**common, "hook_event_name": hook.event, **told}
        async for _hook, answer, run in agent.hooks.run([hook], told, start):
            changed = session.redactor.redact_all(answer.changed)  # restored where the call is run
            answer = msgspec.structs.replace(answer, changed=changed)
            entry = entries.Hook(
                event=hook.event,
                command=session.redactor.redact(hook.command),
                outcome=run.outcome,
                duration_ms=run.duration_ms,
                input=changed,
                **about,
            )
            session.log.append(entry, session.redactor.redact(run.said))
            answers.append(answer)
            _tell(session, hook, answer)
            if changed is not None:
                told = {**told, "tool_input": changed}
        if answers[-1].blocked is not None or answers[-1].stop is not None:
            break
    return answers


def _tell(session: Session, hook: Hook, answer: Answer) -> None:
    agent = session.agent
    if answer.failed:
        name = one_line(hook.command, 80)
        said = Text("hooks.failed", event=hook.event, command=name, why=answer.failed)
        agent.emit(Notice(said, "warning"))
    if answer.shown:
        agent.emit(Notice(answer.shown))


async def _start(session: Session, hook: Hook, given: bytes) -> ProcessOutcome | Text:
    agent = session.agent
    shell = find_program("bash", agent.place.environment.get("PATH"), agent.root) or "/bin/sh"
    root = str(agent.root)
    environment = {**agent.place.environment, "CODER_PROJECT_DIR": root, "CLAUDE_PROJECT_DIR": root}

    async def run(argv: list[str]) -> ProcessOutcome:
        return await run_process(
            argv,
            runs=Runs.FOR_PERSON if hook.person else Runs.IN_SANDBOX,
            cwd=agent.root,
            environment=environment,
            timeout_ms=hook.timeout * 1000,
            keep_bytes=_KEPT_BYTES,
            spill_to=session.outputs / "hook.txt",
            spill_limit=_KEPT_BYTES,
            on_output=lambda _text: None,
            stdin=given,
        )

    label = f"hook {hook.event}: {one_line(hook.command, 200)}"
    try:
        return await run_program(
            session,
            [shell, "-c", hook.command],
            run,
            sandboxed=not hook.person,
            covered=label if hook.event in _COVERED else "",
        )
    except OSError as error:
        return Text("fault.words", words=error.strerror or str(error))


# the points


async def before_prompt(session: Session, text: str) -> Text | None:
    """`SessionStart`, once per session, and `UserPromptSubmit`. Returns why the message is blocked."""
    hooks = session.agent.hooks
    if hooks is None or session.agent.parent is not None:  # a subagent's objective is no person's prompt
        return None
    if session.id not in hooks.begun:
        source = "resume" if session.log.turn else "clear" if hooks.begun else "startup"
        hooks.begun.add(session.id)
        for answer in await _run(session, hooks.of("SessionStart"), {"source": source}):
            _add_context(session, answer)
    told = {"prompt": session.redactor.redact(text)}
    for answer in await _run(session, hooks.of("UserPromptSubmit"), told):
        _add_context(session, answer)
        reason = answer.stop if answer.stop is not None else answer.blocked
        if reason is not None:
            return Text("hooks.prompt_blocked", reason=reason)
    return None


def _add_context(session: Session, answer: Answer) -> None:
    if answer.context:
        session.reminders.add(session.redactor.redact(_for_model(answer.context)))


def _for_model(text: str) -> str:
    return text.replace("</note", "&lt;/note")


class CallAnswer(msgspec.Struct, frozen=True):
    """The hooks' combined answer for a call. `refusal`: why it may not run. `changed`: its new arguments.
    `allowed`: the person's own hook answered for them. `asks`: why they should be asked."""

    refusal: str | None = None
    changed: dict[str, Any] | None = None
    allowed: bool = False
    asks: str | None = None

    def over(self, decided: PolicyDecision) -> PolicyDecision:
        """Merge with the policy's decision. Hooks override no denial and open no sandbox."""
        if decided.decision == "allow" and self.asks is not None:
            reason = Text("hooks.asks", reason=self.asks)
            return msgspec.structs.replace(decided, decision="ask", reasons=[reason], can_always=False)
        leaves = any(reason.key == "policy.outside" for reason in decided.reasons)
        if decided.decision == "ask" and self.allowed and not leaves:
            return msgspec.structs.replace(decided, decision="allow")
        return decided

    def told(self, result: ToolResult) -> ToolResult:
        """Tell the model if a hook changed its arguments."""
        if self.changed is None:
            return result
        given = msgspec.json.encode(self.changed).decode("utf-8")
        note = _for_model(f"A hook changed the arguments of this call to {given}")
        return msgspec.structs.replace(result, for_model=f"{result.for_model}\n\n<note>\n{note}\n</note>")


async def before_call(
    session: Session, turn: Turn, name: str, call_id: str, args: Mapping[str, Any]
) -> CallAnswer:
    hooks = session.agent.hooks
    assert hooks is not None
    wanted = hooks.of("PreToolUse", name)
    told = {"tool_name": name, "tool_input": dict(args), "tool_use_id": call_id}
    answers = await _run(session, wanted, told, tool=name, call_id=call_id)
    allowed, asks, changed, refusal = False, None, None, None
    for hook, answer in zip(wanted, answers, strict=False):
        _add_context(session, answer)
        if answer.changed is not None:
            changed, allowed = answer.changed, False  # what was allowed before were other arguments
        allowed = allowed or (answer.decision == "allow" and hook.person)
        if answer.decision == "ask":
            asks = answer.reason or "a hook asks for the person's approval"
        if answer.stop is not None:
            turn.stopped_by_hook = answer.stop
        if answer.blocked is not None or answer.stop is not None:
            refusal = answer.blocked or answer.stop
    return CallAnswer(refusal, changed, allowed=allowed and asks is None, asks=asks)


async def after_call(
    session: Session, turn: Turn, name: str, call_id: str, args: Mapping[str, Any], result: ToolResult
) -> ToolResult:
    """The result with the hooks' feedback."""
    hooks = session.agent.hooks
    assert hooks is not None
    wanted = hooks.of("PostToolUse", name)
    if not wanted:
        return result
    hidden = session.redactor.hidden(result)
    told = {
        "tool_name": name,
        "tool_input": dict(args),
        "tool_use_id": call_id,
        "tool_response": {"success": result.ok, "content": hidden.for_model},
    }
    said: list[str] = []
    for answer in await _run(session, wanted, told, tool=name, call_id=call_id):
        said += [text for text in (answer.blocked, answer.context) if text]
        if answer.stop is not None:
            turn.stopped_by_hook = answer.stop
    if not said:
        return result
    note = _for_model("\n".join(said))
    return msgspec.structs.replace(result, for_model=f"{result.for_model}\n\n<note>\n{note}\n</note>")


async def before_stop(session: Session, turn: Turn) -> bool:
    """True if a hook wants the turn to continue; its reason becomes a note to the model."""
    agent = session.agent
    if agent.hooks is None or agent.parent is not None or turn.stopped_by_hook is not None:
        return False
    if turn.continuations >= agent.config.runtime.max_continuations:
        return False
    told = {
        "stop_hook_active": turn.kept_by_hook,
        "last_assistant_message": session.redactor.redact(turn.answer),
    }
    for answer in await _run(session, agent.hooks.of("Stop"), told):
        if answer.blocked is not None:
            turn.kept_by_hook = True
            turn.continuations += 1
            session.history.add_note(f"<note>\n{_for_model(answer.blocked)}\n</note>", "hook")
            return True
    return False


async def before_compaction(session: Session, *, forced: bool) -> Text | None:
    """Returns why compaction is blocked, or None."""
    hooks = session.agent.hooks
    assert hooks is not None
    told = {"trigger": "manual" if forced else "auto", "custom_instructions": ""}
    for answer in await _run(session, hooks.of("PreCompact"), told):
        reason = answer.blocked if answer.blocked is not None else answer.stop
        if reason is not None:
            return Text("hooks.compaction_blocked", reason=reason)
    return None


def notify(session: Session, message: str) -> None:
    """Run `Notification` hooks in the background."""
    hooks = session.agent.hooks
    assert hooks is not None
    if wanted := hooks.of("Notification"):
        telling = asyncio.create_task(_run(session, wanted, {"message": message}))
        _telling.add(telling)
        telling.add_done_callback(_telling.discard)


_telling: set[asyncio.Task[list[Answer]]] = set()


async def finish() -> None:
    """At the end of a session: wait briefly for `Notification` hooks, then cancel them."""
    own = [task for task in _telling if task.get_loop() is asyncio.get_running_loop()]
    if own:
        await asyncio.wait(own, timeout=_GRACE)
        for task in own:
            task.cancel()
        await asyncio.gather(*own, return_exceptions=True)
