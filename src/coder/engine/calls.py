"""Run the tool calls of one answer.

For each: enabled? → policy → the tool's own risk → one approval with all reasons → run → `tool` message.
Read-only calls may run concurrently; results are recorded in the order of the calls.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from coder import engine
from coder.base.text import one_line
from coder.engine.approval import advice, ask_person, decide_call, known_read_only, require_same_line
from coder.engine.engine import kept_for_report
from coder.engine.isolation import run_command, run_server_tool, start_isolated
from coder.engine.limits import fitted
from coder.engine.session import Session
from coder.engine.turn_state import Turn
from coder.engine.verify.attempts import saw_command, saw_edits
from coder.extend import mcp
from coder.history.sinks import HistoryError
from coder.history.turn_so_far import edits_of
from coder.models.model import CallReady
from coder.policy.secrets.redact import UnknownPlaceholder
from coder.policy.shell.verdict import PolicyDecision
from coder.protocol.events import Notice, ToolCallChanged, ToolOutput, ToolState
from coder.protocol.messages import ToolCall, tool_call
from coder.texts import CoderError, JoinedText, Text
from coder.tools.calls.arguments import BadArguments, as_object, checked
from coder.tools.registry import built_in
from coder.tools.tool import MCP_CALL, Tool, ToolCancelled, ToolResult, Unapproved, denied, failed, is_mcp

if TYPE_CHECKING:
    from coder.engine.hook_points import CallAnswer

CANCELLED = "error: cancelled by the person before it finished; what it had done by then stays done"
NOT_RUN = "error: not run: the person cancelled before this call began"
# What ends a turn or the program; anything else that a tool raises is its call's error.
_ENDS = (asyncio.CancelledError, KeyboardInterrupt, GeneratorExit)
_MOST_ASKED = 3  # questions about one call whose files change while the person decides
FAULT = "error: not finished: the turn was ended by a fault"


class _Job:
    """One call: with a tool and arguments, or with a result that says why it cannot run."""

    def __init__(self, call: ToolCall) -> None:
        self.sent = call  # as the model made it, for the conversation
        self.call = call  # with the resolved tool name
        self.tool: Tool | None = None
        self.args: Mapping[str, Any] = {}
        self.argument = ""  # what the tool declares of the call, asked once: a tool may fail at it
        self.line = ""
        self.result: ToolResult | None = None
        self.begun = 0.0
        self.unasked = True
        self.decided = PolicyDecision("deny", [])
        self.cut = False  # interrupted before it had a result

    def take(self, tool: Tool, args: Mapping[str, Any]) -> None:
        """Set tool and arguments. The tool's declarations are evaluated now: one that raises fails the call
        before it is judged."""
        tool.paths(args)
        line = tool.command(args) if tool.kind == "runs" else ""
        self.argument, self.line = one_line(tool.argument(args), 200), line
        self.tool, self.args = tool, args


async def run_calls(session: Session, turn: Turn, calls: Sequence[CallReady]) -> None:
    jobs: list[_Job] = []
    at = 0
    try:
        jobs.extend(_job(session, ready) for ready in calls)
        while at < len(jobs):
            batch = _batch(session, jobs[at:])
            await _run_batch(session, turn, batch)
            for job in batch:
                at += 1
                _record(session, turn, job, waiting=len(jobs) - at)
    except BaseException as error:
        # However this ended, every call needs a result.
        jobs += [_Job(ready.call) for ready in calls[len(jobs) :]]
        for job in jobs[at:]:
            _cut_short(job, error)
            _record(session, turn, job, cancelled=job.cut)
        raise


def _cut_short(job: _Job, error: BaseException) -> None:
    """A result for an interrupted call: its partial output, or that it never began."""
    if job.result is not None:
        return
    job.cut = True
    told: BaseException | None = error
    while told is not None and not isinstance(told, ToolCancelled):
        told = told.__context__  # a second cancel may have arrived while handling the first
    if told is not None and job.begun:
        job.result = msgspec.structs.replace(told.result, summary="", phrase=None)
        return
    if isinstance(error, asyncio.CancelledError):
        text = CANCELLED if job.begun else NOT_RUN
        job.result = ToolResult(for_model=text, summary="", ok=False, meta={"cancelled": True})
    else:
        job.result = ToolResult(for_model=FAULT, summary="", ok=False)


def _job(session: Session, ready: CallReady) -> _Job:
    job = _Job(ready.call)
    arguments: Any = ready.call.function.arguments
    try:
        arguments = _arguments(ready)
        tool, args = _meant(session, ready.call.name, arguments)
        job.take(tool, args)
        job.call = _resolved(ready.call, tool.spec.name)
    except _NotUnderstood as error:
        job.result = failed(str(error))
    except _ENDS:
        raise
    except BaseException as error:
        job.result = _crashed(session, f"the call of {ready.call.name} could not be understood", error)
    session.history.add_action(job.call, arguments, sent=ready.call, meant=job.args)
    _show(session, job, "scheduled")
    return job


def _crashed(session: Session, what: str, error: BaseException) -> ToolResult:
    """An internal error becomes the call's result: the model continues, the person gets the details."""
    if not isinstance(error, OSError | CoderError):  # those are the world's
        session.agent.emit(Notice(kept_for_report(session.agent, error), "warning"))
    return failed(f"{what}: {type(error).__name__}: {error}")


class _NotUnderstood(Exception):
    """Why a call cannot be run, for the model."""


def _arguments(ready: CallReady) -> Any:
    """The parsed arguments: an object, or of a malformed call perhaps a single text."""
    try:
        arguments = msgspec.json.decode(ready.call.function.arguments or "{}")
    except msgspec.DecodeError as error:
        raise _NotUnderstood(
            ready.fault or f"the arguments are not valid JSON ({error}); send one JSON object"
        ) from error
    if ready.fault and not isinstance(arguments, str | list):
        raise _NotUnderstood(ready.fault)
    return arguments


def _meant(session: Session, name: str, arguments: Any) -> tuple[Tool, dict[str, Any]]:
    """The tool and its arguments: as given where valid, else repaired."""
    agent = session.agent
    tool = agent.tools.get(name)
    if tool is not None and name == MCP_CALL:
        try:
            if isinstance(tool, mcp.deferred.CallTool):
                return mcp.deferred.meant(arguments, agent.tools)
        except BadArguments as error:
            raise _NotUnderstood(str(error)) from error
    with contextlib.suppress(BadArguments):
        if tool is not None and is_mcp(name):
            # A server checks what it is sent itself, by more than we know of its parameters.
            return tool, as_object(arguments)
        if tool is not None and not _is_patch(name, arguments):
            return tool, checked(arguments, tool.spec.function.parameters)
    from coder.tools.calls.resolve import AmbiguousCall, resolve_call

    try:
        return resolve_call(name, arguments, agent.tools, agent.root)
    except AmbiguousCall as error:
        raise _NotUnderstood(str(error)) from error


def _is_patch(name: str, arguments: Any) -> bool:
    """A shell line that calls another agent's `apply_patch` program."""
    return built_in(name).kind == "runs" and "apply_patch" in str(arguments)[:60]


def _resolved(call: ToolCall, name: str) -> ToolCall:
    """The call with the tool's canonical name, which policy, events and record use."""
    return call if call.name == name else tool_call(call.id, name, call.function.arguments)


def _batch(session: Session, jobs: list[_Job]) -> list[_Job]:
    """The leading calls that may run concurrently: one, or all that are read-only and need no approval."""
    batch: list[_Job] = []
    for job in jobs if session.agent.hooks is None else ():  # hooks are run one after the other
        if job.tool is None or not job.tool.concurrent or not _is_allowed(session, job.tool, job.args):
            break
        batch.append(job)
    return batch or jobs[:1]


def _is_allowed(session: Session, tool: Tool, args: Mapping[str, Any]) -> bool:
    try:
        return decide_call(session, tool, args).decision == "allow"
    except _ENDS:
        raise
    except BaseException:  # it comes again when the call is run, and is told then
        return False


async def _run_batch(session: Session, turn: Turn, batch: list[_Job]) -> None:
    if len(batch) == 1:
        await _run(session, turn, batch[0])
        return
    tasks = [asyncio.create_task(_run(session, turn, job)) for job in batch]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _run(session: Session, turn: Turn, job: _Job) -> None:
    if job.result is not None or job.tool is None:
        return
    try:
        await _judge_and_execute(session, turn, job, job.tool)
    except _ENDS:
        raise
    except BaseException as error:  # a tool's error is reported to the model, never ends the loop
        if isinstance(error, HistoryError) and not job.begun:
            raise  # without a record nothing runs
        job.result = _crashed(session, f"the tool {job.call.name} failed", error)


async def _judge_and_execute(session: Session, turn: Turn, job: _Job, tool: Tool) -> None:
    hooked = await _ask_hooks(session, turn, job) if session.agent.hooks is not None else None
    if job.result is not None:
        return
    tool = job.tool or tool
    try:
        # Policy and person judge what will run, with secrets restored: a secret may hold shell syntax.
        given = session.redactor.restored(job.args)
    except UnknownPlaceholder as error:
        job.result = failed(str(error))
        return
    if tool.kind == "runs" and session.agent.config.sandbox.mode != "off":
        await session.agent.sandbox.find()  # the policy depends on it
    try:
        job.result, ran = await _run_as_approved(session, turn, job, tool, given, hooked)
    finally:
        session.context.approved = None
    if ran and hooked is not None:
        with turn.busy(Text("stopped.hook")):
            job.result = await engine.hook_points.after_call(
                session, turn, job.call.name, job.call.id, job.args, hooked.told(job.result)
            )


async def _run_as_approved(
    session: Session,
    turn: Turn,
    job: _Job,
    tool: Tool,
    given: Mapping[str, Any],
    hooked: CallAnswer | None,
) -> tuple[ToolResult, bool]:
    """Ask if the policy wants it, then run: the result, and whether it ran. If the files are not as they were
    shown, ask again."""
    again: list[Text] = []
    while len(again) < _MOST_ASKED:
        session.context.approved = None
        decided = decide_call(session, tool, given)
        if hooked is not None:
            decided = hooked.over(decided)
        if decided.decision == "deny":
            return _forbidden(session, tool, given, decided), False
        job.decided = decided
        try:
            if again or decided.decision == "ask":
                before = decided.reasons if decided.decision == "ask" else []
                decided = msgspec.structs.replace(decided, decision="ask", reasons=[*again[-1:], *before])
                answer = await _asked(session, turn, job, tool, given, decided)
                if answer is not None:  # refused, or the person took a part of the change, which is done
                    return answer, answer.ok
            return await _shown_and_executed(session, turn, job, given), True
        except Unapproved as changed:
            again.append(changed.reason)
    return failed(f"nothing was written: {again[-1]}"), False


async def _shown_and_executed(
    session: Session, turn: Turn, job: _Job, given: Mapping[str, Any]
) -> ToolResult:
    _show(session, job, "executing")
    job.begun = time.monotonic()
    emit, call_id = session.agent.emit, job.call.id
    with turn.busy(f"{job.call.name} {job.argument}".strip()):
        return await _execute(session, job, given, lambda text: emit(ToolOutput(call_id=call_id, text=text)))


async def _asked(
    session: Session, turn: Turn, job: _Job, tool: Tool, given: Mapping[str, Any], decided: PolicyDecision
) -> ToolResult | None:
    """None if the call may run as it is."""
    with turn.busy(Text("stopped.approval", tool=job.call.name)):
        answer = await ask_person(session, job.call, tool, given, decided)
        job.unasked = False
        decided = decide_call(session, tool, given)  # TOCTOU: the mode may have changed to plan meanwhile
    if answer is None and tool.kind == "runs":
        require_same_line(session, tool, given)
    late = answer is None and decided.decision == "deny"
    return _forbidden(session, tool, given, decided) if late else answer


async def _ask_hooks(session: Session, turn: Turn, job: _Job) -> CallAnswer:
    """May refuse the call, or change its arguments: those are judged like any others."""
    with turn.busy(Text("stopped.hook")):
        answer = await engine.hook_points.before_call(session, turn, job.call.name, job.call.id, job.args)
    if answer.refusal is not None:
        said = Text("hooks.refused", reason=one_line(answer.refusal, 120))
        job.result = denied(f"a hook refused this call: {answer.refusal}", summary=said)
    elif answer.changed is not None:
        try:
            tool, args = _meant(session, job.call.name, answer.changed)
        except _NotUnderstood as error:
            job.result = failed(f"a hook changed the arguments of this call, and {error}")
        else:
            job.take(tool, args)
            job.call = _resolved(job.call, tool.spec.name)
    return answer


def _forbidden(session: Session, tool: Tool, given: Mapping[str, Any], decided: PolicyDecision) -> ToolResult:
    reasons = " ".join(decided.english)
    return denied(f"{reasons} {advice(session, tool, given)}", JoinedText(decided.for_person, " "))


async def _execute(
    session: Session, job: _Job, given: Mapping[str, Any], on_output: Callable[[str], None]
) -> ToolResult:
    """Run with these arguments, secrets restored; a shell line runs in the sandbox."""
    tool = job.tool
    assert tool is not None
    if tool.kind not in ("runs", "unknown"):
        return await tool.run(given, session.context, on_output)

    if tool.kind == "unknown":
        return await run_server_tool(session, tool, given, on_output)
    unbidden = job.unasked or session.agent.mode == "plan"
    read_only = unbidden and known_read_only(session, tool.command(given))
    check, plan = job.decided.check and job.unasked, job.decided.plan
    run = start_isolated if given.get("background") else run_command
    return await run(
        session, tool, given, on_output, read_only=read_only, check=check, plan=plan, call_id=job.call.id
    )


def _record(session: Session, turn: Turn, job: _Job, *, waiting: int = 0, cancelled: bool = False) -> None:
    assert job.result is not None
    whole = session.redactor.hidden(job.result)
    result = job.result = fitted(session, whole, waiting)
    if result.for_model == whole.for_model:
        for path, content in result.learned:
            session.context.files.saw_changes(path, content)
    event = session.history.add_observation(job.call, _with_job_notes(session, result), sent=job.sent)
    if not cancelled:
        arguments = job.call.function.arguments
        turn.loops.saw_call(job.call.name, arguments, job.argument, result.for_model, result.ok)
    tool = built_in(job.call.name)
    if tool.kind == "runs" or (tool.edits_files() and result.ok):
        if tool.kind == "runs":
            saw_command(session, turn, job.line, result)
        else:
            saw_edits(session, turn, edits_of(event))
    _show(session, job, "cancelled" if cancelled else "success" if result.ok else "error")


def _with_job_notes(session: Session, result: ToolResult) -> ToolResult:
    """Report ended jobs with the next result: no message may come between a call and its result."""
    notes = session.jobs.notes(session.id)
    if not notes:
        return result
    text = f"{result.for_model}\n\n<note>\n{chr(10).join(notes)}\n</note>"
    return msgspec.structs.replace(result, for_model=text)


def _show(session: Session, job: _Job, state: ToolState) -> None:
    result = job.result
    done = result is not None and state not in ("scheduled", "executing")
    session.agent.emit(
        ToolCallChanged(
            call_id=job.call.id,
            tool=job.call.name,
            state=state,
            argument=job.argument,
            summary=result.said if done and result else "",
            detail=result.detail if done and result else "",
            detail_kind=result.detail_kind if done and result else "",
            duration_ms=round((time.monotonic() - job.begun) * 1000) if done and job.begun else 0,
        )
    )
