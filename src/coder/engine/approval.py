"""The policy's decision on a call, and the single approval request for it."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from coder import engine, tools
from coder.base.process.git import read_only_environment
from coder.base.text import one_line, quoted_name
from coder.config import ConfigError
from coder.config.schema import OperatingMode, Preset
from coder.engine.session import Session
from coder.engine.verify.choice import refused
from coder.extend import mcp
from coder.policy import sandbox
from coder.policy.decide import decide, preset_table
from coder.policy.programs.effects import base_name
from coder.policy.shell.verdict import PolicyDecision, Segment, ShellVerdict
from coder.policy.verification import is_verification
from coder.policy.workspace import state_directory, temporary_directory
from coder.protocol import entries
from coder.protocol.events import ApprovalRequested, ApprovalResolved, Notice
from coder.protocol.messages import ToolCall, tool_call
from coder.protocol.ops import ApprovalReply
from coder.texts import AnyText, JoinedText, Text
from coder.tools.patch import Patch
from coder.tools.text.hunks import diff_of, hunks_of, renumbered
from coder.tools.tool import Approved, Preview, Tool, ToolResult, Unapproved, denied, failed, is_mcp

_SETTING = frozenset(
    {"config", "remote", "branch", "push", "pull", "fetch", "checkout", "switch", "submodule"}
)
_ALLOWING = ("yes", "always")
NO_SANDBOX = Text("policy.no_sandbox")
# Names of files that agents obey: a line with one is parsed in yolo too.
_STEERING = re.compile(
    r"\.coder|\.claude|\.codex|\.mcp\.json|\.worktreeinclude|(?:AGENTS|CLAUDE|GEMINI)\.md", re.I
)
# What `always` remembers for a line that runs outside the sandbox.
OUTSIDE = "sandbox=off "
_MOST_OF_LINE = 200  # characters
LEAVE = 'To do it, call bash with sandbox: "off" and a reason: the person is asked.'
# Flags that would allow a call if nobody can be asked; least permissive first.
_FLAGS: tuple[tuple[str, OperatingMode | None, Preset | None], ...] = (
    ("--mode auto-edit", "auto-edit", None),
    ("--permissions auto-edit", None, "auto-edit"),
    ("--mode yolo", "yolo", None),
    ("--permissions yolo", None, "yolo"),
)


def decide_call(
    session: Session,
    tool: Tool,
    args: Mapping[str, Any],
    mode: OperatingMode | None = None,
    preset: Preset | None = None,
) -> PolicyDecision:
    """Policy and risk together; parses the shell line only where it matters. `mode`, `preset`: instead of the
    session's."""
    agent = session.agent
    mode, preset = mode or agent.mode, preset or agent.preset
    name = tool.spec.name
    shell, line = None, tool.command(args) if tool.kind == "runs" else ""
    if tool.kind == "runs" and (mode != "yolo" or leaves_sandbox(session, args)):
        session.commands.judged = None  # invalidate: the workspace may have changed
        shell = verdict_on(session, line)
    if shell is not None and leaves_sandbox(session, args):
        return _outside_decision(session, line, str(args.get("reason") or ""), mode)
    permission = agent.config.permission
    remote = _remote(tool)
    decided = decide(
        name,
        preset,
        mode,
        overrides=permission.tools,
        shell=shell,
        allowlist=[*permission.command_allowlist, *agent.place.allowed.names()] if shell else (),
        own_name=remote.own_name if remote is not None else "",  # not the one sanitized for providers
        own_kind=tool.kind if name in agent.own_tools else None,
        explores=name == "task" and args.get("agent") == "explore",
        verifying=shell is not None and _may_verify(session, line),
        confined=agent.runs_anything_in_plan,
    )
    if decided.decision == "ask" and tool.kind == "runs" and args.get("background"):
        return msgspec.structs.replace(decided, reasons=[*decided.reasons, Text("policy.background")])
    if decided.decision == "allow" and preset != "yolo" and remote is not None and remote.changed:
        return PolicyDecision("ask", [Text("policy.redefined")])
    if decided.decision == "allow" and line and "yolo" in (mode, preset):
        return _yolo_decision(session, line) or decided
    return decided


def _yolo_decision(session: Session, line: str) -> PolicyDecision | None:
    """What yolo asks about all the same: the first command where nothing holds it, and writing files that
    agents obey."""
    agent = session.agent
    level = agent.sandbox.level
    wanted = agent.config.sandbox.mode == "auto" and not agent.sandbox.confirmed
    if wanted and level is not None and level.backend == "none":
        return PolicyDecision("ask", [NO_SANDBOX])
    if _STEERING.search(line):
        session.commands.judged = None
        risks = [risk for risk in verdict_on(session, line).risks if risk.key == "policy.risk.steering"]
        return PolicyDecision("ask", risks) if risks else None
    return None


def leaves_sandbox(session: Session, args: Mapping[str, Any]) -> bool:
    """Whether the model asks to run this command outside the sandbox."""
    return args.get("sandbox") == "off" and session.agent.config.sandbox.mode != "off"


def _outside_decision(session: Session, line: str, why: str, mode: OperatingMode) -> PolicyDecision:
    """Leaving the sandbox is a person's decision in every mode; they may allow a line for good."""
    agent = session.agent
    remembered = f"{OUTSIDE}{line}"
    verdict = verdict_on(session, line)
    if preset_table(agent.preset, "bash") == "deny" or agent.config.permission.tools.get("bash") == "deny":
        return decide("bash", agent.preset, mode, overrides=agent.config.permission.tools)
    if mode == "plan":
        return PolicyDecision("deny", [Text("policy.outside.plan")])
    if agent.parent is not None or not agent.front.can_ask:
        return PolicyDecision("deny", [Text("policy.outside.nobody")])
    if verdict.inside and session.jobs.running:
        return PolicyDecision(
            "deny", [Text("policy.outside.jobs")]
        )  # a link of theirs would lead it anywhere
    if remembered in agent.place.allowed.names():
        return PolicyDecision("allow", [Text("policy.always")])
    reasons = [Text("policy.outside", reason=why), *verdict.risks]
    return PolicyDecision("ask", reasons, can_always=True, always_names=[remembered])


def require_same_line(session: Session, tool: Tool, args: Mapping[str, Any]) -> None:
    """Raise `Unapproved` if an approved line means something else by now: another program has put a link in
    the place of a file that it writes, for example.
    """
    approved = session.context.approved
    before = approved.verdict if approved is not None else None
    if before is None or (session.agent.mode == "yolo" and not leaves_sandbox(session, args)):
        return
    line = tool.command(args)
    session.commands.judged = None
    now = verdict_on(session, line)
    if now != before:
        paths = {write.path for write in now.outside} | now.inside
        paths -= {write.path for write in before.outside} | before.inside
        shown = ", ".join(map(quoted_name, sorted(paths))) or one_line(line, _MOST_OF_LINE)
        raise Unapproved(Text("approval.changed_since", paths=shown))


def _unreachable(session: Session, line: str) -> ToolResult | None:
    """The result of a command that names a file which only a command outside the sandbox may write."""
    agent = session.agent
    level = agent.sandbox.level
    verdict = verdict_on(session, line) if agent.mode != "yolo" else None
    if (
        verdict is None
        or not verdict.outside
        or level is None
        or level.backend == "none"
        or agent.config.sandbox.mode == "off"
    ):
        return None

    place, mounts = agent.place, level.backend == "bwrap"
    state = state_directory(place.home) if mounts else None
    reason = sandbox.grants.why_not(
        verdict, str(agent.root), str(place.home), place.environment, mounts=mounts, state=state
    )
    return failed(f"{reason} {LEAVE}", reason) if reason is not None else None


def _seen(verdict: ShellVerdict | None) -> sandbox.grants.Seen | None:
    """What the line's paths outside the workspace lead to now."""
    if verdict is None or not verdict.outside:
        return None

    return sandbox.grants.Seen(verdict.outside)


def _may_verify(session: Session, line: str) -> bool:
    """A verification command, unless the person forbade running anything."""
    agent, turn = session.agent, session.turn
    verifying = is_verification(line, agent.root, agent.config.workflow.verify_allow)
    if not verifying and not verdict_on(session, line).is_check:
        return False
    return turn is None or not refused(turn.words.said or turn.text)


def _remote(tool: Tool) -> mcp.mcp_tools.McpTool | None:
    if not is_mcp(tool.spec.name):
        return None

    return tool if isinstance(tool, mcp.mcp_tools.McpTool) else None


def known_read_only(session: Session, line: str) -> bool:
    """Whether the policy proved a line read-only; in yolo mode it was not parsed."""
    return session.agent.mode != "yolo" and verdict_on(session, line).read_only


def sets_git(session: Session, line: str) -> bool:
    """Whether the only writes of a line are by git commands that write settings: an approved line may do so,
    but nothing else that it starts, for example by substitution."""
    verdict = verdict_on(session, line)
    acting = [segment.name.split() for segment in verdict.segments if not segment.read_only]
    named = all(words[:1] == ["git"] and words[1:2] and words[1] in _SETTING for words in acting)
    return verdict.parsed and bool(acting) and named


def verdict_on(session: Session, line: str) -> ShellVerdict:
    """Verdict on a shell line, cached per call since it queries git. A line that failed in the read-only
    sandbox counts as writing when repeated, so that the model can have it approved."""
    if session.commands.judged is not None and session.commands.judged[0] == line:
        return session.commands.judged[1]
    from coder.policy.shell.judge import judge

    agent = session.agent
    found = judge(line, agent.root, confined=agent.confined, home=agent.place.environment.get("HOME", ""))
    if found.read_only and line in session.commands.needs_writing and agent.mode != "plan":
        found = msgspec.structs.replace(found, read_only=False)
    session.commands.judged = line, found
    return found


def environment_for(session: Session, line: str) -> Mapping[str, str] | None:
    """Environment of a read-only line, which disables programs that a repository's settings name. None if
    it is not known to be read-only any more."""
    verdict = verdict_on(session, line)
    if not verdict.read_only:
        return None
    agent, environment = session.agent, session.context.environment
    return read_only_environment(environment, agent.root, verdict.drivers, confined=agent.confined)


async def ask_person(
    session: Session,
    call: ToolCall,
    tool: Tool,
    args: Mapping[str, Any],
    decided: PolicyDecision,
) -> ToolResult | None:
    """None if the call may run, as `context.approved` says; else its result: the refusal, or what the
    person took of a change. Raises `Unapproved` if the files of an amended change are not as they were shown.

    A cancel while waiting cancels the turn; it is not a `no`.
    """
    agent = session.agent
    approval = agent.config.approval
    preview = tool.preview(args, session.context)
    steering = _steering(tool, preview, session)
    if steering is not None and steering not in decided.reasons:
        decided = replace(decided, reasons=[*decided.reasons, steering])
    redact = session.redactor.redact
    asked = entries.Approval(
        approval_id=os.urandom(4).hex(),
        call_id=call.id,
        tool=call.name,
        subject=redact(preview.subject),
        reasons=session.redactor.redact_all(decided.english),
    )
    leaves = tool.kind == "runs" and leaves_sandbox(session, args)
    if tool.kind == "runs" and not leaves and (unreachable := _unreachable(session, tool.command(args))):
        return unreachable
    if (approval.auto_approve_ask or not approval.interactive) and not leaves:
        session.log.append(replace(asked, answer="auto"))
        session.context.approved = Approved()
        return None
    if not agent.front.can_ask:
        session.log.append(replace(asked, answer="no", because="no terminal"))
        flag = _flag_that_helps(session, tool, args) if steering is None else Text("approval.setting")

        return _nobody_to_ask(session, call, flag, decided, advice(session, tool, args))
    if preview.fault is not None:  # do not ask about what cannot work
        return preview.fault
    session.log.append(asked)
    session.reminders.jobs_uncovered |= any(reason.key == "policy.background" for reason in decided.reasons)
    # In yolo mode a line is judged only where that decides.
    judged = session.commands.judged if tool.kind == "runs" else None
    verdict = judged[1] if judged is not None and judged[0] == tool.command(args) else None
    seen = _seen(verdict)
    reply = await _reply(session, call, decided, asked.approval_id, preview)
    if reply.answer == "always" and decided.can_always:
        _remember(session, decided.always_names)
    session.log.append(replace(asked, answer=reply.answer, reason=redact(reply.reason)))
    if reply.answer != "no":
        if remote := _remote(tool):
            remote.accept()
        agent.sandbox.confirmed |= NO_SANDBOX in decided.reasons
        session.context.approved = Approved(
            preview.changes, bool(reply.amended), person=True, verdict=verdict, seen=seen
        )
        if not reply.amended:
            return None
        return await _apply_amended(session, tool, preview, reply)
    # A reason is the person's next word: the model is to act on it, not to give the matter up.
    reason = f": {reply.reason}\nGo on as the person says here." if reply.reason else ""
    return denied(f"the person refused this call{reason}", summary=Text("approval.refused"))


def _steering(tool: Tool, preview: Preview, session: Session) -> Text | None:
    """Why this change is always asked about, if it is. Memory has its own row in the presets."""
    if not preview.changes or not tool.edits_files():
        return None

    return tools.changes.steering_reason(preview.changes, session.context)


async def ask_to_go_on(session: Session, question: Sequence[Text], *, can_always: bool = True) -> str:
    """Ask about the turn, not a call; `always` means: do not ask again."""
    shown = JoinedText(question)
    subject = session.redactor.redact(str(shown))
    asked = entries.Approval(approval_id=os.urandom(4).hex(), tool="turn", subject=subject, reasons=[])
    decided = PolicyDecision("ask", [], can_always=can_always)
    call = tool_call("", "turn", "{}")
    session.log.append(asked)
    reply = await _reply(session, call, decided, asked.approval_id, Preview(""), shown)
    session.log.append(replace(asked, answer=reply.answer))
    return reply.answer


_LONGEST_LINE = 300  # characters of a command, which was shown when it was approved


async def ask_about_host(session: Session, call_id: str, line: str, host: str, remembered: str) -> str:
    """A person's decision on a host that a running command wants to reach: empty, or why not."""
    redact = session.redactor.redact
    reasons = [Text("approval.host", command=one_line(line, _LONGEST_LINE))]
    told = [redact(str(reason)) for reason in reasons]
    decided = PolicyDecision("ask", reasons, can_always=True, always_names=[remembered])
    asked = entries.Approval(approval_id=os.urandom(4).hex(), tool="network", subject=host, reasons=told)
    call = tool_call(call_id, "network", "{}")
    reply = await _reply(session, call, decided, asked.approval_id, Preview(host, "text"))
    if reply.answer == "always":
        _remember(session, [remembered])
    # Recorded when it is answered: a question that is open when coder ends is not asked again, as the command
    # has ended too.
    session.log.append(replace(asked, answer=reply.answer, reason=redact(reply.reason) or None))
    if reply.answer != "no":
        return ""
    return f"The person refused {host}{f': {reply.reason}' if reply.reason else ''} (sandbox.network)."


def _remember(session: Session, names: Sequence[str]) -> None:
    try:
        session.agent.place.allowed.add(*names)
    except ConfigError as error:  # not saved: the answer holds only this time
        session.agent.emit(Notice(error.phrase, "warning"))


async def ask_about_diff(session: Session, name: str, diff: str, reasons: Sequence[Text]) -> ApprovalReply:
    """A person's decision on changes that were made already."""
    redact = session.redactor.redact
    told = [redact(str(reason)) for reason in reasons]
    asked = entries.Approval(approval_id=os.urandom(4).hex(), tool=name, subject=redact(diff), reasons=told)
    session.log.append(asked)
    call = tool_call("", name, "{}")
    reply = await _reply(
        session, call, PolicyDecision("ask", [*reasons]), asked.approval_id, Preview(diff, "diff")
    )
    session.log.append(replace(asked, answer=reply.answer, reason=redact(reply.reason) or None))
    return reply


async def _reply(
    session: Session,
    call: ToolCall,
    decided: PolicyDecision,
    approval_id: str,
    preview: Preview,
    subject: AnyText = "",
) -> ApprovalReply:
    """The person sees what will run, secrets included: a placeholder could hide anything."""
    agent = session.agent
    subject = subject or preview.subject
    future: asyncio.Future[ApprovalReply] = asyncio.get_running_loop().create_future()
    agent.approvals[approval_id] = future
    if agent.hooks is not None:
        engine.hook_points.notify(
            session, f"coder waits for an answer: {call.name} {one_line(str(subject), 200)}".strip()
        )
    agent.emit(
        ApprovalRequested(
            approval_id=approval_id,
            call_id=call.id,
            tool=call.name,
            subject=subject,
            subject_kind=preview.kind,
            reasons=[*decided.for_person],
            can_always=decided.can_always,
            always_names=list(decided.always_names),
            changes=list(preview.operations),
        )
    )
    answer = "cancelled"
    try:
        reply = await future
        if reply.answer not in _ALLOWING:  # Python checks no field: what is no known word allows nothing
            reply = replace(reply, answer="no")
        answer = reply.answer
        return reply
    finally:
        del agent.approvals[approval_id]
        agent.emit(ApprovalResolved(approval_id=approval_id, answer=answer))


def _flag_that_helps(session: Session, tool: Tool, args: Mapping[str, Any]) -> AnyText:
    """A flag that would allow this call; a setting if there is none."""
    for flag, mode, preset in _FLAGS:
        if decide_call(session, tool, args, mode, preset).decision == "allow":
            return flag
    return Text("approval.setting")


def _nobody_to_ask(
    session: Session, call: ToolCall, flag: AnyText, decided: PolicyDecision, instead: str
) -> ToolResult:
    agent = session.agent
    hint = Text("approval.nobody", tool=call.name, flag=flag)
    if session.turn is None or hint not in session.turn.hints:  # once a turn
        agent.emit(Notice(hint, "warning"))
    if session.turn is not None:
        session.turn.hints.add(hint)
    reasons = " ".join(decided.english)
    return denied(
        f"this needs a person's approval ({reasons}) and nobody can be asked in this run. {instead}",
        summary=Text("approval.nobody_short"),
    )


_MOST_SHOWN = 8000  # characters of the applied diff that the model is shown


async def _apply_amended(session: Session, tool: Tool, preview: Preview, reply: ApprovalReply) -> ToolResult:
    """Apply what the person took of a proposed change, as a patch, instead of the call. Only files of the
    original change may be touched. The plan mode may have come while the person decided: then nothing is
    applied."""
    patch = {"patch": reply.amended}
    if preview.kind != "diff" or not tool.edits_files():
        return failed("the person answered with an amended diff, but this call changes no files by a diff")
    if session.agent.mode == "plan":
        return failed("nothing was applied: plan mode is on and changes no files")
    known = {name for change in preview.operations for name in (change.path, change.moved_from)}
    if strange := sorted(set(Patch.paths(patch)) - known):
        return failed(f"nothing was applied: the amended diff names other files: {', '.join(strange)}")
    result = await Patch().run(patch, session.context, lambda _text: None)
    applied = diff_of(renumbered(hunks_of(reply.amended))) or reply.amended
    applied = applied[:_MOST_SHOWN] + ("\n…" if len(applied) > _MOST_SHOWN else "")
    told = (
        f"The person did not take this change as it was.\n{reply.reason}\nApplied instead:\n{applied}"
        if result.ok
        else f"The person did not take this change as it was, and theirs does not apply.\n{reply.reason}"
    )
    return replace(result, for_model=f"{result.for_model}\n\n{told}")


_PROPOSE = "Do the rest without it, and propose it to the person in your answer."
_LONGEST = 300  # characters of a line that is suggested
# Tools that make the change of a shell command, and how.
_EDIT = ("edit", "edit makes this change (replace_all: everywhere in a file)")
_PATCH = ("patch", "patch moves and deletes files")
_WRITE = ("write", "write makes files, with the folders above them")
_INSTEAD = {
    "sed": _EDIT,
    "gsed": _EDIT,
    "perl": _EDIT,
    "mv": _PATCH,
    "rm": _PATCH,
    "git mv": _PATCH,
    "git rm": _PATCH,
    "tee": _WRITE,
    "touch": _WRITE,
    "mkdir": _WRITE,
    "cp": _WRITE,
}


def advice(session: Session, tool: Tool, args: Mapping[str, Any]) -> str:
    """The way that works, as far as one is known, and what to do without one."""
    ways = _ways(session, tool, args) if tool.kind == "runs" and session.agent.mode != "yolo" else ()
    return " ".join([*dict.fromkeys(ways), _PROPOSE])


def _ways(session: Session, tool: Tool, args: Mapping[str, Any]) -> Iterator[str]:
    line = tool.command(args)
    verdict = verdict_on(session, line)
    acting = [segment for segment in verdict.segments if not segment.read_only]
    for segment in acting:
        name, told = _tool_for(segment)
        if name and not verdict.outside and _allows(session, name):
            yield f"Here {told} without approval."
        if segment.check is not None and segment.check.doubt is not None:
            yield from _known_words(session, tool, line, segment.check.doubt.values.get("word"))
    if any(temporary_directory(write.path) for write in verdict.outside):
        yield f"The scratch folder for temporary files is {session.agent.place.workspace.scratch} ($TMPDIR)."


def _tool_for(segment: Segment) -> tuple[str, str]:
    """The tool that makes the change of a command, and what it does."""
    if segment.rule.key == "policy.why.writes":
        return _WRITE
    first, *rest = segment.command.split() or [""]
    name = base_name(first)
    if name in ("sed", "gsed", "perl") and not any(re.match(r"-\w*i|--in-place", word) for word in rest):
        return "", ""
    return _INSTEAD.get(name) or _INSTEAD.get(" ".join([name, *rest[:1]]), ("", ""))


def _allows(session: Session, name: str) -> bool:
    agent = session.agent
    decided = decide(name, agent.preset, agent.mode, overrides=agent.config.permission.tools)
    return name in agent.tools and decided.decision == "allow"


def _known_words(session: Session, tool: Tool, line: str, word: object) -> Iterator[str]:
    """The check without the word that is not known, if it then runs unasked."""
    for pattern in (rf" {re.escape(str(word))}(?!\S)", rf" -\S+ {re.escape(str(word))}(?!\S)"):
        shorter = re.sub(pattern, "", line, count=1)
        if shorter != line and len(shorter) <= _LONGEST:
            decided = decide_call(session, tool, {"command": shorter})
            if decided.decision == "allow" and decided.check:
                yield f"`{one_line(shorter, _LONGEST)}` runs unasked."
                return
