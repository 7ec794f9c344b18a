"""System reminders: facts for the model beside the person's words, which save it steps.

Constants of the session are in the system message. Changes follow with the next message or after tool
results: earlier messages are never edited, so that the provider's prompt cache holds.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from coder.base.text import shown
from coder.config.schema import NetworkRules
from coder.context.prompt import PLAN_COMMANDS, environment_text, first_text_bytes, mode_note
from coder.engine.agent import Agent
from coder.engine.session import Session
from coder.engine.verify.choice import project_check
from coder.policy.decide import decide, matrix
from coder.policy.shell.verdict import ShellVerdict
from coder.protocol.events import Notice

# `bash` and `task` have two rows in the policy's table.
_NAMES = {
    "bash, read-only": "commands that only look",
    "bash, otherwise": "commands that do more than look",
    "task": "task with agent general",
    "task, explore": "task with agent explore",
}
_ONLY_LOOKS = "lines that only look run; all others, tests too, are denied"
_SCRATCH_ROOM, _WRITABLE_ROOM = 120, 80  # bytes: the first request is to stay short
_NESTED_ROOM = 8_192  # bytes of one nested AGENTS.md
_NESTED_MOST = 8  # of them are told at once
_NOT_OURS = frozenset({"node_modules", "vendor", "third_party", "site-packages"})


def environment_of(agent: Agent) -> str:
    """For the system message: facts that hold for the whole session."""
    if agent.explores:
        return environment_text(agent.root, commands=_ONLY_LOOKS)
    commands = "" if agent.few_tools else _commands(agent)
    return environment_text(agent.root, test_command=_check(agent), commands=commands)


def _check(agent: Agent) -> str:
    workflow = agent.config.workflow
    return project_check(workflow.verify_commands, agent.root, workflow.verify_allow)


def _commands(agent: Agent) -> str:
    """By the settings alone: the sandbox is probed only at the first command."""
    sandbox, scratch = agent.config.sandbox, shown(agent.place.workspace.scratch)
    path = f" {scratch}" if len(scratch.encode("utf-8", "replace")) <= _SCRATCH_ROOM else ""
    place = f"the scratch folder{path} ($TMPDIR: kept, open to file tools too)"
    if sandbox.mode == "off":
        return f"run without a sandbox; temporary files belong in {place}"
    more = ", ".join(sandbox.writable)
    if len(more.encode("utf-8", "replace")) > _WRITABLE_ROOM:
        more = f"{len(sandbox.writable)} further folders of the person's choice"
    network = "on" if sandbox.network is True else "off"
    if isinstance(sandbox.network, NetworkRules):
        hosts = ", ".join(sandbox.network.allow) or "no host"
        if len(hosts.encode("utf-8", "replace")) > _WRITABLE_ROOM:
            hosts = f"{len(sandbox.network.allow)} hosts of sandbox.network.allow"
        rest = "others are asked about" if sandbox.network.otherwise == "ask" else "others are refused"
        network = f"by the proxy of HTTPS_PROXY only, to {hosts}; {rest}"
    *first, last = filter(None, ("the workspace", place, more))
    places = f"{', '.join(first)} and {last}"
    return (
        f"run in a sandbox: outside plan mode they may write {places}; the rest of the disk is read-only "
        f"(/tmp is private), .git/config and hooks are closed; network {network}. "
        "Read-only lines run unasked, and can write only $TMPDIR, offline"
    )


def look_at_git_again(session: Session) -> None:
    """After a rewind, or for another session: what was told before may no longer hold."""
    state = session.agent.git_state
    if state is not None and state.told and not session.reminders.git:
        state.start()


async def settle_sandbox(session: Session) -> None:
    """Find the sandbox before plan mode's rules are told, which depend on it."""
    agent = session.agent
    if agent.mode == "plan" and agent.config.sandbox.mode != "off":
        await agent.sandbox.find()


async def settle_git(session: Session) -> None:
    """Wait briefly for the git query of the session's start."""
    state = session.agent.git_state
    if state is not None and not session.reminders.git and not state.done:
        await asyncio.to_thread(state.wait)
        state.late = state.late or not state.done


def with_notes(session: Session, text: str) -> str:
    """Append reminders of what changed since the last message."""
    agent = session.agent
    notes = []
    rules = rules_note(session)
    if session.reminders.rules != rules:
        session.reminders.rules = rules
        notes.append(rules)
    state = agent.git_state
    if state is not None and not session.reminders.git and state.done:
        session.reminders.git = state.told = True
        if state.text:
            notes.append(f"When the session began: {state.text}" if state.late else state.text)
    if agent.ide is not None and (seen := agent.ide.next_note()):
        notes.append(seen)
    notes += session.jobs.notes(session.id)
    notes += session.reminders.next_notes
    session.reminders.next_notes.clear()
    return f"{text}\n\n<note>\n{chr(10).join(notes)}\n</note>" if notes else text


def rules_note(session: Session) -> str:
    """The operating mode, and what this run asks about or denies."""
    agent = session.agent
    confined = agent.runs_anything_in_plan
    rows = matrix(agent.preset, agent.mode, agent.config.permission.tools, confined=confined)
    known = {*agent.tools, *(["MCP tools"] if agent.mcp is not None else [])}
    named = [(_NAMES.get(name, name), word) for name, word in rows if name.partition(",")[0] in known]
    asked = [name for name, decision in named if decision == "ask"]
    denied = [name for name, decision in named if decision == "deny"]
    approval = agent.config.approval
    if approval.auto_approve_ask or not approval.interactive:
        asked = []
    can_ask = session.agent.can_ask
    if asked and not can_ask:
        asked, denied = [], [name for name, decision in named if decision != "allow"]
    note = mode_note(agent.mode, asked, denied, can_ask=can_ask or not denied)
    if agent.mode == "plan" and ("bash, otherwise", "allow") in rows and "bash" in agent.tools:
        note += f" {PLAN_COMMANDS}"
    if "bash" in agent.tools and _runs_checks(agent):
        check = _check(agent)
        project = f"`{check}`, the project's check, parts of it, and other t" if check else "T"
        note += f" {project}ests, linters and type checkers run unasked."
    return note


def _runs_checks(agent: Agent) -> bool:
    """Whether a check runs unasked because it is one."""
    a_check = ShellVerdict([], read_only=False, risks=[])
    overrides = agent.config.permission.tools
    return decide("bash", agent.preset, agent.mode, overrides=overrides, shell=a_check, verifying=True).check


def tell_changed_rules(session: Session) -> None:
    """Before a step: the person may have changed the operating mode while the turn runs."""
    rules = rules_note(session)
    if session.reminders.rules != rules:
        session.reminders.rules = rules
        session.history.add_note(f"<note>\nFrom now on: {rules}\n</note>", "rules")


def tell_nested_instructions(session: Session) -> None:
    """After calls: add the `AGENTS.md` of nested directories that were accessed, each once."""
    agent = session.agent
    touched = session.context.files.take_touched()
    directories = dict.fromkeys(directory for path in touched for directory in _directories(agent.root, path))
    new = [directory for directory in directories if directory not in session.reminders.directories]
    told: list[str] = []
    for directory in sorted(new, key=lambda directory: len(directory.parts)):
        session.reminders.directories.add(directory)
        path = directory / "AGENTS.md"
        data, fault = (
            first_text_bytes(path, agent.root, _NESTED_ROOM) if len(told) < _NESTED_MOST else (b"", None)
        )
        if fault is not None:
            agent.emit(Notice(fault, "warning"))
        if text := data.decode("utf-8", errors="replace").strip():
            told.append(
                f"Instructions for {agent.place.workspace.show(directory)}/, from its AGENTS.md:\n{text}"
            )
    if told:
        text = "\n\n".join(told).replace("</note", "&lt;/note")
        session.history.add_note(f"<note>\n{text}\n</note>", "instructions")


def _directories(root: Path, path: Path) -> list[Path]:
    """The directories between the workspace and a file in it, except vendored code."""
    try:
        parts = path.relative_to(root).parts[:-1]
    except ValueError:
        return []
    if any(part in _NOT_OURS or part.startswith(".") for part in parts):
        return []
    return [root.joinpath(*parts[: at + 1]) for at in range(len(parts))]
