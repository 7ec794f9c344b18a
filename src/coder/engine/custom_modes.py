"""Custom modes in a session: their state, their ops, and the commands that they run."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from coder import engine
from coder.config.trust import TrustStore
from coder.context.prompt import project_instructions
from coder.engine.agent import Agent
from coder.engine.session import Session
from coder.engine.turn_state import NOTHING_ASKED, Asks
from coder.protocol.events import Notice
from coder.protocol.messages import tool_call
from coder.protocol.modes import CustomModesListed, SetModeState, TriggerInstantMode
from coder.texts import AnyText, JoinedText, Text

if TYPE_CHECKING:
    from coder.extend.modes.discover import Catalogue
    from coder.extend.modes.mode_state import ModeKeeper
    from coder.extend.modes.render import Ran
    from coder.protocol.modes import InstantModeExecuted, ModeDefinition, ModeError, ModeStateChanged

_COMMAND_TIMEOUT_MS = 30_000  # a mode's command holds up the person who just pressed Enter


async def begin_modes(session: Session) -> None:
    """Enable the default modes, or restore those of a resumed session."""
    try:
        await _begin(session)
    finally:
        session.modes_begun.set()


async def _begin(session: Session) -> None:
    """Imports nothing unless a directory for modes exists."""
    agent = session.agent
    if session.mode_state is None and not _any_directory(agent):
        return
    await asyncio.to_thread(_load_room)
    keeper = keeper_of(session)
    await keeper.catalogue.prepare()
    if session.mode_state is not None:
        changed: ModeStateChanged | None = await keeper.restore(session.mode_state)
    elif session.log.turn == 0:
        changed = await keeper.start()
    else:
        changed = None
    if changed is not None:
        _take(session, keeper, changed)
        for text in error_texts(changed.errors):  # nobody asked for anything yet that could be answered
            agent.emit(Notice(text, "warning"))


def _load_room() -> None:
    """Import in a thread, while the prompt is drawn."""


def _any_directory(agent: Agent, names: Sequence[str] = ("modes",)) -> bool:
    # os.path, for which a directory above us that we may not look into holds nothing; pathlib would raise
    codex = agent.place.environment.get("CODEX_HOME") or "~/.codex"
    homes = [agent.place.home, Path(os.path.expanduser(codex))]  # noqa: PTH111 - no raise
    places = [p / name for p in (agent.root, *agent.root.parents) for name in (".coder", ".codex")]
    return any(os.path.isdir(place / name) for place in (*homes, *places) for name in names)  # noqa: PTH112 - no raise


def keeper_of(session: Session) -> ModeKeeper:
    """Created lazily; definitions are read once per session."""
    if session.modes is None:
        from coder.engine.commands.table import COMMANDS
        from coder.extend.modes.discover import Catalogue, places
        from coder.extend.modes.mode_state import ModeKeeper
        from coder.extend.modes.render import reader

        agent = session.agent
        fixed = {name for name, command in COMMANDS.items() if command.prompt is None}

        async def run(mode: ModeDefinition, command: str) -> Ran:
            return await _run_for_mode(session, mode, command)

        session.modes = ModeKeeper(
            Catalogue(places(agent.root, agent.place.environment, agent.place.home), fixed),
            reader(agent.place.workspace),
            run,
            project_instructions(agent.root, agent.place.home),
        )
    return session.modes


# the ops


async def list_modes(session: Session) -> None:
    """May run during a turn: reads files in a thread, and imports nothing if there are none."""
    agent = session.agent
    await _tell_modes(agent)
    if agent.mcp is not None:
        agent.mcp.watch_prompts(lambda: _tell_modes(agent))


async def _tell_modes(agent: Agent) -> None:
    from coder.engine.commands.mode_commands import offered_commands

    modes: list[ModeDefinition] = []
    if _any_directory(agent, ("modes", "prompts")):
        catalogue = keeper_of(agent.session).catalogue
        await catalogue.prepare()
        modes = catalogue.definitions
    agent.emit(CustomModesListed(modes, await offered_commands(agent)))


async def set_modes(session: Session, op: SetModeState) -> ModeStateChanged:
    keeper = keeper_of(session)
    changed = await keeper.set_state(op)
    _take(session, keeper, changed)
    return changed


async def reload_modes(session: Session) -> ModeStateChanged:
    """Read the definitions again, also for the menu."""
    keeper = keeper_of(session)
    changed = await keeper.reload()
    _take(session, keeper, changed)
    await _tell_modes(session.agent)
    return changed


def _take(session: Session, keeper: ModeKeeper, changed: ModeStateChanged) -> None:
    """Replace the conversation's instructions only if their text changed."""
    if changed.changed:
        session.history.instruct(keeper.user_instructions, keeper.record())
    session.agent.emit(changed)


async def instant_prompt(
    session: Session, op: TriggerInstantMode, leftover: str = ""
) -> tuple[InstantModeExecuted, Asks]:
    """Render the prompt that becomes the person's message; has no side effects on error.

    `leftover` is what the line held besides: whoever typed it may want it as a message.
    """
    keeper = keeper_of(session)
    await keeper.catalogue.prepare()
    executed = msgspec.structs.replace(await keeper.trigger(op), leftover=leftover)
    session.agent.emit(executed)
    mode = keeper.catalogue.find(op.mode_id)
    if mode is None:
        return executed, NOTHING_ASKED
    return executed, Asks(mode.definition.model, mode.definition.reasoning_effort)


async def enable_modes(agent: Agent, lines: Sequence[str]) -> list[AnyText]:
    """Enable `--mode "/name args"` in order; returns error messages.

    This is before the front end reads events, so that nobody could answer a question.
    """
    agent.wanted.set()
    await agent.session.modes_begun.wait()  # else what is on by default would take the place of these
    front, agent.front = agent.front, msgspec.structs.replace(agent.front, can_ask=False)
    try:
        return await _enabled(agent, lines)
    finally:
        agent.front = front


async def _enabled(agent: Agent, lines: Sequence[str]) -> list[AnyText]:
    problems: list[AnyText] = []
    for line in lines:
        invocation = keeper_of(agent.session).from_line(line)
        definition = invocation.definition
        if definition and definition.error:
            problems.append(definition.error.message)
            continue
        if definition and line.split()[0] != (command := definition.command) and definition.shadowed_by:
            problems.append(Text("modes.built_in_flag", name=definition.mode_id, command=command))
            continue
        if isinstance(invocation.op, SetModeState):
            problems += error_texts((await set_modes(agent.session, invocation.op)).errors)
        elif isinstance(invocation.op, TriggerInstantMode):
            problems.append(Text("modes.instant_as_flag", mode=invocation.op.mode_id))
        problems += error_texts(invocation.errors)
        if invocation.leftover:
            problems.append(Text("modes.leftover_flag", text=invocation.leftover))
    return problems


def error_texts(errors: Sequence[ModeError]) -> list[AnyText]:
    return [error.message for error in errors]


# `!command` in a mode's body


def mode_commands(catalogue: Catalogue) -> dict[str, Any]:
    """The project modes' commands, in the form that trust is granted for."""
    return {f"modes{mode_id}": commands for mode_id, commands in catalogue.project_commands().items()}


async def project_mode_commands(session: Session) -> dict[str, Any]:
    """As `mode_commands`, read-only; imports nothing unless a directory for modes exists."""
    if not _any_directory(session.agent):
        return {}
    catalogue = keeper_of(session).catalogue
    await catalogue.prepare()
    return mode_commands(catalogue)


async def _run_for_mode(session: Session, mode: ModeDefinition, command: str) -> Ran:
    """The command is from a file, not from the person: requires trust, then the ordinary policy."""
    from coder.extend.modes.render import Ran, Refused

    agent = session.agent
    if mode.scope.kind == "project":
        await _trusted(session, mode, command)
    tool = agent.tools["bash"]
    args: Mapping[str, Any] = {"command": command, "timeout_ms": _COMMAND_TIMEOUT_MS}
    decided = engine.approval.decide_call(session, tool, args)
    if decided.decision == "deny":
        raise Refused(JoinedText(decided.for_person, " "))
    if decided.decision == "ask":
        refusal = await engine.approval.ask_person(session, tool_call("", "bash", "{}"), tool, args, decided)
        if refusal is not None:
            raise Refused(refusal.said)

    # Whatever it does to files is taken back with the turn that follows on it.
    session.undo.begin_turn(session.log.turn + 1)
    asked = decided.decision == "ask"
    result = await engine.isolation.run_command(
        session,
        tool,
        args,
        lambda _text: None,
        read_only=not asked and engine.approval.known_read_only(session, command),
    )
    session.context.approved = None
    if result.ok:
        return Ran(str(result.meta["stdout"]))
    if "exit_code" not in result.meta:
        raise Refused(result.for_model.removeprefix("error: ")[:500])
    code, late = result.meta["exit_code"], result.meta["duration_ms"] >= _COMMAND_TIMEOUT_MS
    printed = "\n".join(filter(None, (str(result.meta[s]).rstrip("\n") for s in ("stdout", "stderr"))))
    how = (
        f"no end after {_COMMAND_TIMEOUT_MS // 1000} s, so it was stopped" if late else f"exit status {code}"
    )
    return Ran(printed, how)


async def _trusted(session: Session, mode: ModeDefinition, command: str) -> None:
    from coder.extend.modes.render import Refused

    agent = session.agent
    store = TrustStore(agent.place.home)
    relevant = mode_commands(keeper_of(session).catalogue)
    status = store.status(agent.root, relevant)
    if status == "trusted":
        return
    if session.agent.can_ask:
        asked = [Text("modes.trust_question", mode=mode.mode_id, command=command)]
        if status == "changed":
            changes = store.difference(agent.root, relevant, whole=True).texts()
            asked = [Text("trust.changed_question", directory=agent.root), *changes, *asked]
        answer = await engine.approval.ask_to_go_on(session, asked)
        if answer == "always":
            # This question was about modes: it lets no setting of the project in.
            store.trust_also(agent.root, relevant)
        if answer != "no":
            return
    raise Refused(Text("modes.untrusted"))
