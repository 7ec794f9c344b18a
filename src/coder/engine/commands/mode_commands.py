"""`/name` of a custom mode, and `/modes`."""

from __future__ import annotations

import asyncio

import msgspec

from coder import engine
from coder.engine.agent import Agent
from coder.engine.custom_modes import error_texts, keeper_of, reload_modes, set_modes
from coder.engine.setup import built_in_commands, installed
from coder.protocol.entries import InstantMode
from coder.protocol.events import CommandDone
from coder.protocol.modes import (
    InstantModeExecuted,
    ModeDefinition,
    ModeError,
    OfferedCommand,
    RenderedMode,
    SetModeState,
    TriggerInstantMode,
)
from coder.texts import AnyText, JoinedText, Text

_REVIEW = """\
Review {what}.

Look at the changes with git (status, diff, log) and read the code around each of them before you judge it.
Report what is wrong, worst first: defects, cases that were forgotten, security, data loss, tests that are
missing or cannot fail, names that mislead. For each: file and line, what goes wrong and when, and what would
mend it. No praise, no summary of the change, nothing that a formatter would do. If you find nothing, say
so, and what you looked at. Change no file."""
_UNCOMMITTED = (
    "the uncommitted changes in this repository (staged, unstaged and untracked; if there are none, the last "
    "commit)"
)
_INIT = """\
Write AGENTS.md in the workspace's root: what an agent that knows nothing of this project needs to work in
it. If there is one, keep what is right and mend the rest.

Look first: README, build and CI files, tests, the layout. Then at most 60 lines: what the project is, in
two sentences; the commands to build, check and test it, and to run one test alone; where things are; rules
that cannot be seen in a single file. Only what you have seen in the project, no general advice."""


class Prompt(msgspec.Struct, frozen=True):
    """A typed line that stands for a message: the message, what the person said of it, and where it came
    from (also a prompt of an MCP server)."""

    text: str
    said: str
    instant: InstantMode


def init_prompt(args: str) -> Prompt:
    text = f"{_INIT}\n\n{args}" if args else _INIT
    return Prompt(text, args, InstantMode(mode_id="/init"))


def review_prompt(args: str) -> Prompt:
    return Prompt(_REVIEW.format(what=args or _UNCOMMITTED), args, InstantMode(mode_id="/review"))


class Reply(msgspec.Struct, frozen=True):
    """What a command answers: text for the person, fields for programs."""

    text: AnyText
    ok: bool = True
    data: dict[str, object] = {}


class InstantLine(msgspec.Struct, frozen=True):
    """A typed line that starts an instant mode, and what it held besides."""

    op: TriggerInstantMode
    leftover: str = ""


async def server_prompt(agent: Agent, line: str) -> Reply | Prompt | None:
    """What `/server:prompt args` comes to; None if no server has that name."""
    if agent.mcp is None or ":" not in line.split(maxsplit=1)[0]:
        return None

    found = await engine.mcp_session.prompt_line(agent, line)
    if found is None:
        return None
    if found.fault:
        return Reply(found.fault, ok=False)
    return Prompt(found.text, found.said, InstantMode(mode_id=found.command, values=found.values))


def refusal(op: TriggerInstantMode, executed: InstantModeExecuted) -> CommandDone:
    """Why an instant mode was not run, for whoever shows answers to lines."""
    data = _fillable(executed.mode_id, executed.errors)
    data["values"] = {name: given.value for name, given in op.variables.items() if not isinstance(given, str)}
    return CommandDone(executed.mode_id, JoinedText(error_texts(executed.errors)), ok=False, data=data)


def _fillable(mode_id: str, errors: list[ModeError]) -> dict[str, object]:
    """`form`: a front end that has one can ask for the values (`fill`), or offer them (`adjust`)."""
    data: dict[str, object] = {"mode_id": mode_id}
    if any(error.code in ("missing", "invalid") and error.mode_id == mode_id for error in errors):
        data["form"] = "fill"
    return data


async def custom_mode(agent: Agent, line: str) -> Reply | InstantLine | None:
    """What `/name args` comes to; None if no custom mode has that name."""
    keeper = keeper_of(agent.session)
    await keeper.catalogue.prepare()
    invocation = keeper.from_line(line)
    if invocation.definition is None:
        return None
    if invocation.op is None:
        return Reply(JoinedText(error_texts(invocation.errors)), ok=False)
    if isinstance(invocation.op, TriggerInstantMode):
        return InstantLine(invocation.op, invocation.leftover)
    name = invocation.definition.mode_id
    if line.split()[1:] == ["off"] and not _takes_off(invocation.definition):
        return await _switch_off(agent, name)
    again = keeper.is_on(name) and len(line.split()) == 1
    changed = await set_modes(agent.session, invocation.op)
    if changed.errors:
        lines, data = [*error_texts(changed.errors)], _fillable(name, changed.errors)
    else:
        on = next(m for m in keeper.enabled if m.mode_id == name)
        lines, data = [Text("modes.on", mode=name) + _values(on)], {"mode_id": name}
    if not changed.errors and again and invocation.definition.variables:
        data["form"] = "adjust"
    if invocation.leftover:  # never sent by itself: whoever typed it may want it as a message
        lines.append(Text("modes.leftover", text=invocation.leftover))
        data["leftover"] = invocation.leftover
    return Reply(JoinedText(lines), ok=not changed.errors, data=data)


async def mode_names(agent: Agent) -> list[str]:
    """What can be typed for custom modes and saved prompts, without `/`."""
    catalogue = keeper_of(agent.session).catalogue
    await catalogue.prepare()
    return [definition.command[1:] for definition in catalogue.definitions if definition.command]


async def definition_of(agent: Agent, name: str) -> ModeDefinition | None:
    """Of the custom mode or saved prompt that `/name` is."""
    catalogue = keeper_of(agent.session).catalogue
    await catalogue.prepare()
    found = catalogue.find(name)
    return found.definition if found else None


def _takes_off(definition: ModeDefinition) -> bool:
    """Whether `off` is a value of the first variable."""
    first = definition.variables[0] if definition.variables else None
    return first is not None and (first.type == "boolean" or "off" in first.enum)


async def _switch_off(agent: Agent, name: str) -> Reply:
    keeper = keeper_of(agent.session)
    found = keeper.catalogue.find(name)
    mode_id = found.definition.mode_id if found else "/" + name.removeprefix("/")
    if not keeper.is_on(mode_id):
        return Reply(Text("modes.not_on", mode=mode_id), ok=False)
    changed = await set_modes(agent.session, SetModeState(keeper.target_without(mode_id)))
    if changed.errors:
        return Reply(JoinedText(error_texts(changed.errors)), ok=False)
    return Reply(Text("modes.off", mode=mode_id))


async def _show(agent: Agent, line: str) -> Reply:
    """What a mode renders to with these values, or its current ones."""
    definition, rendered, errors = await keeper_of(agent.session).preview(line)
    if definition is None or rendered is None:
        return Reply(JoinedText(error_texts(errors)), ok=False)
    notes = ["! " + warning for warning in (*definition.warnings, *rendered.warnings)]
    return Reply(JoinedText([rendered.text or Text("modes.renders_nothing"), *notes]))


async def _reload(agent: Agent) -> Reply:
    changed = await reload_modes(agent.session)
    definitions = keeper_of(agent.session).catalogue.definitions
    usable = sum(bool(d.command) and d.error is None for d in definitions)
    said = Text("modes.reloaded", n=usable, on=len(changed.enabled_modes))
    broken = [d.error for d in definitions if d.error is not None and d.error not in changed.errors]
    lines = [f"{error.mode_id}: " + error.message for error in broken]
    return Reply(JoinedText([said, *error_texts(changed.errors), *lines]), ok=not changed.errors)


async def modes_command(agent: Agent, args: str) -> Reply:
    """`/modes` lists them, `off NAME` takes one out, `show NAME` previews one, `reload` reads the files."""
    keeper = keeper_of(agent.session)
    await keeper.catalogue.prepare()
    word, _, rest = args.partition(" ")
    match word, rest.strip():
        case "off", name if name:
            return await _switch_off(agent, name)
        case "show", line if line:
            return await _show(agent, line)
        case "reload", "":
            return await _reload(agent)
    if args:
        return Reply(Text("modes.usage"), ok=False, data={"usage": True})
    return Reply(JoinedText([Text("mode.current", mode=agent.mode, names=_OPERATING), *_listed(agent)]))


_OPERATING = "plan, default, auto-edit, yolo"


def _kind_key(definition: ModeDefinition) -> str:
    if definition.error is not None:
        return "modes.state_broken"
    return "modes.kind_prompt" if definition.category == "prompt" else f"modes.kind_{definition.kind}"


def _values(mode: RenderedMode) -> str:
    """Its variables as labels, as the mode bar shows them."""
    labels = (f"[{v.name}={'?' if v.value is None else v.value}]" for v in mode.variables)
    return "".join(f" {label}" for label in labels)


def _listed(agent: Agent) -> list[AnyText]:
    keeper = keeper_of(agent.session)
    values = {mode.mode_id: _values(mode) for mode in keeper.enabled}
    lines: list[AnyText] = []
    for definition in keeper.catalogue.definitions:
        on = values.get(definition.mode_id) if definition.command else None  # else another has its name
        mark = " " if on is None else "●"
        state: AnyText = definition.error.message if definition.error else definition.description
        if definition.shadowed_by:
            state = Text("modes.state_shadowed", scope=definition.shadowed_by)
        name = (definition.command or definition.mode_id) + (on or "")
        words = [
            f"{mark} {name}",
            definition.scope.label,
            Text(_kind_key(definition)),
            *([state] if state else []),
        ]
        lines.append(JoinedText(words, "  "))
    return lines or [Text("modes.list_none", home=agent.place.home)]


async def offered_commands(agent: Agent, *, described: bool = False) -> list[OfferedCommand]:
    """A server's prompts are known once somebody shows them (`Servers.watch_prompts`); packages are loaded
    only to be `described`."""
    packages = await asyncio.to_thread(installed, agent.root) if agent.plugins is None else agent.plugins
    found = [
        OfferedCommand(f"/{name}:{one.name}", f"(mcp:{name})", one.description, one.usage)
        for name, server in (agent.mcp.all.items() if agent.mcp is not None else ())
        for one in server.prompts
    ]
    offered = [one for one in packages if one.group == "coder.commands"]
    if offered:
        fixed = built_in_commands()
        found += [
            OfferedCommand(
                f"/{one.name}",
                f"(package:{one.package})",
                await engine.plugins.about(one) if described else "",
            )
            for one in offered
            if one.name not in fixed and "/" not in one.name
        ]
    return found
