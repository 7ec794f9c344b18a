"""Subagents: a turn and a context of their own, under the same policy, record, undo and budget."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from operator import attrgetter
from typing import Any

import msgspec

from coder.engine.agent import Agent
from coder.engine.isolation import undo_of
from coder.engine.notes import environment_of, rules_note
from coder.engine.session import Session
from coder.engine.turn import run_turn
from coder.engine.turn_state import TurnInput
from coder.engine.verify.attempts import saw_changes, saw_edits
from coder.history.log import now
from coder.protocol import entries
from coder.protocol.events import (
    AnyEvent,
    ApprovalRequested,
    ApprovalResolved,
    Failed,
    JobChanged,
    Notice,
    ToolCallChanged,
)
from coder.protocol.history import HistoryEvent
from coder.protocol.messages import Message, head_length
from coder.texts import Text
from coder.tools.tool import Tool, ToolResult, failed, summed_up

_MAX_STEPS = 60  # a piece of work that takes more is not a piece
_MAX_SUMMARY = 8_000  # characters: the point of a subagent is that its details stay with it

PROMPTS = {
    "general": (
        "You are a subagent of coder, a coding agent. You are given one piece of work in a person's folder, "
        "with tools. Do it completely, check it, and answer with a report: what you did and found, file "
        "names and lines, what is left open. Nobody can answer questions."
    ),
    "explore": (
        "You are a subagent of coder, a coding agent. Find out what you are asked in a person's folder by "
        "reading and searching; change nothing. Answer with a report that can be used without looking again: "
        "findings, file names and line numbers, short quotes where they matter. Nobody can answer questions."
    ),
}


class _IntoParent:
    """A history sink that puts the subagent's events into its parent's record."""

    def __init__(self, parent: Session, task_id: str, kind: str) -> None:
        self.parent = parent
        self.task_id = task_id
        self.kind = kind

    def append(self, event: HistoryEvent) -> None:
        if isinstance(event.entry, entries.Image):
            return  # for its own model alone, and its conversation is not resumed
        inner = entries.Inner(type=event.type, step=event.step, role=event.role, meta=event.meta)
        entry = entries.Subagent(task_id=self.task_id, agent=self.kind, event=inner)
        self.parent.log.append(entry, event.content)

    def flush(self) -> None: ...

    def close(self) -> None: ...


async def run_subagent(
    parent: Session, kind: str, objective: str, on_output: Callable[[str], None]
) -> ToolResult:
    """To its end. A cancel of the parent's turn cancels it as well."""
    if kind not in PROMPTS:
        return failed(f"there is no agent {kind!r}; there are {', '.join(PROMPTS)}")
    child = _child(parent, kind)
    try:
        turn = await run_turn(child, TurnInput(objective))
    finally:
        left = _hand_over_jobs(parent, child)
    parent.meter.usage = parent.meter.usage.plus(turn.usage)
    if parent.turn is not None:
        parent.turn.usage = parent.turn.usage.plus(turn.usage)
        saw_edits(parent, parent.turn, turn.edited)
        saw_changes(parent, parent.turn, turn.changed_by_commands)
        parent.turn.checks.saw_run(turn.checks.since)
        parent.turn.cost += turn.cost
    if turn.status == "cancelled":
        raise asyncio.CancelledError
    meta: dict[str, Any] = {
        "agent": kind,
        "steps": turn.steps,
        "status": turn.status,
        "tokens": turn.usage.total,
    }
    if turn.status != "ok":
        why = turn.reason or turn.status
        return failed(
            f"the subagent did not finish: {why}\n{turn.answer}{left}".rstrip(),
            Text("tool.task_failed", why=why),
            **meta,
        )
    report = turn.answer.strip()
    if len(report) > _MAX_SUMMARY:
        report = report[:_MAX_SUMMARY] + f"\n[cut at {_MAX_SUMMARY} characters]"
    return summed_up(
        Text("tool.task_done", n=turn.steps, tokens=f"{turn.usage.total:,}"),
        (report or "(the subagent reported nothing)") + left,
        detail=report,
        detail_kind="text",
        meta=meta,
    )


def _hand_over_jobs(parent: Session, child: Session) -> str:
    """Jobs belong to the session: its model hears of those that a subagent leaves, and of their end."""
    own = [job for job in parent.jobs if job.owner == child.id]
    for job in own:
        job.owner = parent.id
    running = [f"job {job.id} ({parent.redactor.redact(job.command)})" for job in own if job.running]
    return f"\n[Still running, and yours now: {', '.join(running)}.]" if running else ""


def _child(parent: Session, kind: str) -> Session:
    task_id = os.urandom(3).hex()
    agent = _child_agent(parent.agent, kind)
    child = Session(
        agent, f"{parent.id}.{task_id}", [_IntoParent(parent, task_id, kind)], now(), parent=parent
    )
    agent.session = child
    child.log.turn = parent.log.turn - 1  # its one turn is its parent's: undo takes both back at once
    child.context.workspace = parent.context.workspace
    child.context.outputs = parent.context.outputs / task_id  # where its parent can read them as well
    child.undo.share(parent.undo)
    child.undo.shell = undo_of(parent)  # one for all: they run beside each other
    child.context.jobs = parent.jobs if "job" in agent.tools else None  # an explorer could not look after one
    child.reminders.rules = rules_note(child)
    prompt = f"{PROMPTS[kind]}\n\n{parent.redactor.redact(environment_of(agent))}"
    child.conversation.append(Message(role="system", content=prompt))
    if kind == "explore":  # it changes nothing, so that rules of the project would only fill its context
        child.reminders.directories = set(parent.reminders.directories)
        return child
    messages = parent.conversation.messages
    for instructions in messages[1 : head_length(messages)]:
        child.conversation.append(instructions)
    return child


def _child_agent(parent: Agent, kind: str) -> Agent:
    explores = kind == "explore"
    wanted = _explores if explores else attrgetter("for_subagents")
    config = msgspec.structs.replace(
        parent.config,
        runtime=msgspec.structs.replace(
            parent.config.runtime,
            max_steps=min(_MAX_STEPS, parent.config.runtime.max_steps),
            max_session_turns=-1,
        ),
        workflow=msgspec.structs.replace(
            parent.config.workflow, require_todo_for_complex=False, auto_verify_after_edit=False
        ),
    )
    # what it does reaches the sinks through its parent
    front = msgspec.structs.replace(parent.front, emit=_forwarding(parent.emit, kind), sinks=())
    tools = {name: tool for name, tool in parent.tools.items() if wanted(tool)}
    return parent.subagent(config, front, tools, "plan" if explores else None)


def _explores(tool: Tool) -> bool:
    """What only reads, under plan mode: commands, and tools that look at files."""
    return tool.kind == "runs" or (tool.kind == "looks" and tool.touches != "")


def _forwarding(emit: Callable[[AnyEvent], None], kind: str) -> Callable[[AnyEvent], None]:
    """Of a subagent a person sees what it does and asks, not all that it says."""

    def forward(event: AnyEvent) -> None:
        match event:
            case ToolCallChanged(state=state) if state not in ("scheduled", "executing"):
                emit(msgspec.structs.replace(event, tool=f"{kind} › {event.tool}", detail="", detail_kind=""))
            case ApprovalRequested() | ApprovalResolved() | JobChanged() | Notice():
                emit(event)
            case Failed(text):
                emit(Notice(text, "warning"))
            case _:
                pass

    return forward
