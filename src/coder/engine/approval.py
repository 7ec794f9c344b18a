"""What the policy says of a call, and the one question that may be put to a person about it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from coder.config.errors import ConfigError
from coder.config.schema import OperatingMode, Preset
from coder.engine.session import Session
from coder.policy.decide import decide
from coder.policy.shell.verdict import Ruling, ShellVerdict
from coder.protocol import entries
from coder.protocol.events import ApprovalRequested, ApprovalResolved, Notice
from coder.protocol.messages import ToolCall, tool_call
from coder.protocol.ops import ApprovalReply
from coder.texts import Phrase
from coder.tools.base import Preview, Tool, ToolResult, denied, is_mcp

_SETTING = frozenset(
    {"config", "remote", "branch", "push", "pull", "fetch", "checkout", "switch", "submodule"}
)
# What the model is to do about a denial.
PROPOSE = "Do the rest without it, and propose it to the person in your answer."
# Which flag would let a call through where nobody can be asked: the first that does, least first.
_FLAGS: tuple[tuple[str, OperatingMode | None, Preset | None], ...] = (
    ("--mode auto-edit", "auto-edit", None),
    ("--permissions auto-edit", None, "auto-edit"),
    ("--mode yolo", "yolo", None),
    ("--permissions yolo", None, "yolo"),
)


def ruling_of(
    session: Session,
    tool: Tool,
    args: Mapping[str, Any],
    mode: OperatingMode | None = None,
    preset: Preset | None = None,
) -> Ruling:
    """Policy and risk together; the shell line is parsed only where its meaning matters. `mode`, `preset`:
    what it would be under others than the session's."""
    agent = session.agent
    mode, preset = mode or agent.mode, preset or agent.preset
    name = tool.spec.name
    shell, line = None, tool.command(args) if tool.kind == "runs" else ""
    if tool.kind == "runs" and mode != "yolo":
        session.judged = None  # the place may have changed since the line was last judged
        shell = _verdict(session, line)
    permission = agent.config.permission
    ruling = decide(
        name,
        preset,
        mode,
        overrides=permission.tools,
        shell=shell,
        allowlist=[*permission.command_allowlist, *agent.place.allowed.names()] if shell else (),
        own_name=_own_name(tool),
        explores=name == "task" and args.get("agent") == "explore",
        verifying=shell is not None and _may_verify(session, line),
    )
    if ruling.decision == "ask" and tool.kind == "runs" and args.get("background"):
        return msgspec.structs.replace(ruling, reasons=[*ruling.reasons, Phrase("policy.background")])
    return ruling


def _may_verify(session: Session, line: str) -> bool:
    """One of the commands that may verify by themselves, unless the person said that nothing is to be run."""
    from coder.engine.verify.words import refused
    from coder.policy.verification import may_run

    agent, turn = session.agent, session.turn
    if not may_run(line, agent.root, agent.config.workflow.verify_allow):
        return False
    return turn is None or not refused(turn.words.said or turn.text)


def _own_name(tool: Tool) -> str:
    """A server's tool as its person would name it, whatever letters providers take."""
    if not is_mcp(tool.spec.name):
        return ""
    from coder.mcp.tools import McpTool

    return tool.own_name if isinstance(tool, McpTool) else ""


def known_read_only(session: Session, line: str) -> bool:
    """Whether the policy knows that a line changes nothing; in yolo mode nobody has looked."""
    return session.agent.mode != "yolo" and _verdict(session, line).read_only


def sets_git(session: Session, line: str) -> bool:
    """Whether all that a line does beside reading is done by calls of git that write settings: one that was
    approved may. Anything else that it starts, by a substitution for example, may not."""
    verdict = _verdict(session, line)
    acting = [segment.name.split() for segment in verdict.segments if not segment.read_only]
    named = all(words[:1] == ["git"] and words[1:2] and words[1] in _SETTING for words in acting)
    return verdict.parsed and bool(acting) and named


def _verdict(session: Session, line: str) -> ShellVerdict:
    """On a shell line, judged once a call: git is asked what its repository names. One that failed in the
    sandbox of those that only read counts as a writing one when it comes again: so the model can have it
    asked about."""
    if session.judged is not None and session.judged[0] == line:
        return session.judged[1]
    from coder.policy.shell.judge import judge

    found = judge(line, session.agent.root)
    if found.read_only and line in session.needs_writing and session.agent.mode != "plan":
        found = msgspec.structs.replace(found, read_only=False)
    session.judged = line, found
    return found


def environment_for(session: Session, line: str) -> Mapping[str, str] | None:
    """What a line that is known to be read-only runs in, kept from a repository's programs. None where
    it is not known any more."""
    from coder.policy.programs.git_environment import read_only_environment

    verdict = _verdict(session, line)
    if not verdict.read_only:
        return None
    return read_only_environment(session.context.environment, session.agent.root, verdict.drivers)


async def ask_person(
    session: Session,
    call: ToolCall,
    tool: Tool,
    args: Mapping[str, Any],
    ruling: Ruling,
) -> ToolResult | None:
    """None where the call may run, else the refusal that the model is told.

    A cancel while waiting cancels the turn; it is not a `no`.
    """
    agent = session.agent
    approval = agent.config.approval
    preview = tool.preview(args, session.context)
    redact = session.redactor.redact
    asked = entries.Approval(
        approval_id=os.urandom(4).hex(),
        call_id=call.id,
        tool=call.name,
        subject=redact(preview.subject),
        reasons=session.redactor.redact_all(ruling.english),
    )
    if approval.auto_approve_ask or not approval.interactive:
        session.log.append(replace(asked, answer="auto"))
        return None
    if not agent.front.can_ask:
        session.log.append(replace(asked, answer="no", because="no terminal"))
        return _nobody_to_ask(session, call, tool, args, ruling)
    if preview.fault is not None:  # a person is not asked about what cannot be done
        return preview.fault
    session.log.append(asked)
    reply = await _reply(session, call, ruling, asked.approval_id, preview)
    if reply.answer == "always" and ruling.can_always:
        try:
            agent.place.allowed.add(*ruling.always_names)
        except ConfigError as error:  # it could not be kept; the answer holds for this once
            agent.emit(Notice(error.text(agent.texts), "warning"))
    session.log.append(replace(asked, answer=reply.answer, reason=redact(reply.reason)))
    if reply.answer != "no":
        return None
    reason = f": {reply.reason}" if reply.reason else ""
    return denied(f"the person refused this call{reason}", summary=Phrase("approval.refused"))


def somebody_to_ask(session: Session) -> bool:
    approval = session.agent.config.approval
    return session.agent.front.can_ask and approval.interactive and not approval.auto_approve_ask


async def ask_to_go_on(session: Session, question: Sequence[Phrase], *, can_always: bool = True) -> str:
    """A question that is about the turn and not about a call; `always` means: do not ask again."""
    subject = session.redactor.redact("\n".join(map(str, question)))
    asked = entries.Approval(approval_id=os.urandom(4).hex(), tool="turn", subject=subject, reasons=[])
    ruling = Ruling("ask", [], can_always=can_always)
    call = tool_call("", "turn", "{}")
    session.log.append(asked)
    shown = Preview("\n".join(line.text(session.agent.texts) for line in question))
    reply = await _reply(session, call, ruling, asked.approval_id, shown)
    session.log.append(replace(asked, answer=reply.answer))
    return reply.answer


async def _reply(
    session: Session, call: ToolCall, ruling: Ruling, approval_id: str, preview: Preview
) -> ApprovalReply:
    """Whoever decides is shown what will run, secrets included: a placeholder could stand for anything."""
    agent = session.agent
    future: asyncio.Future[ApprovalReply] = asyncio.get_running_loop().create_future()
    agent.approvals[approval_id] = future
    agent.emit(
        ApprovalRequested(
            approval_id=approval_id,
            call_id=call.id,
            tool=call.name,
            subject=preview.subject,
            subject_kind=preview.kind,
            reasons=ruling.localized(agent.texts),
            can_always=ruling.can_always,
            always_names=list(ruling.always_names),
        )
    )
    answer = "cancelled"
    try:
        reply = await future
        answer = reply.answer
        return reply
    finally:
        del agent.approvals[approval_id]
        agent.emit(ApprovalResolved(approval_id=approval_id, answer=answer))


def _flag_that_helps(session: Session, tool: Tool, args: Mapping[str, Any]) -> str:
    """A flag with which this very call would not be asked about; a setting where there is none."""
    for flag, mode, preset in _FLAGS:
        if ruling_of(session, tool, args, mode, preset).decision == "allow":
            return flag
    return session.agent.say("approval.setting")


def _nobody_to_ask(
    session: Session, call: ToolCall, tool: Tool, args: Mapping[str, Any], ruling: Ruling
) -> ToolResult:
    agent = session.agent
    hint = agent.say("approval.nobody", tool=call.name, flag=_flag_that_helps(session, tool, args))
    if session.turn is None or hint not in session.turn.hints:  # once a turn
        agent.emit(Notice(hint, "warning"))
    if session.turn is not None:
        session.turn.hints.add(hint)
    reasons = " ".join(ruling.english)
    return denied(
        f"this needs a person's approval ({reasons}) and nobody can be asked in this run. {PROPOSE}",
        summary=Phrase("approval.nobody_short"),
    )
