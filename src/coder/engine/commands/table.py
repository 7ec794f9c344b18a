"""The built-in `/` commands: a table of names and functions.

A command answers with text; front ends only show it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import msgspec

from coder import engine
from coder.base.addons import addons, function
from coder.config.schema import OPERATING_MODES, key_names
from coder.engine.agent import Agent
from coder.engine.commands.extensions import (
    hooks_command,
    mcp_command,
    memory_answer,
    ps_command,
    skills_answer,
    stop_command,
)
from coder.engine.commands.mode_commands import (
    InstantLine,
    Prompt,
    Reply,
    custom_mode,
    definition_of,
    init_prompt,
    mode_names,
    modes_command,
    offered_commands,
    review_prompt,
    server_prompt,
)
from coder.engine.commands.review import review_command, show_diff
from coder.engine.commands.rewind import rewind_command
from coder.engine.commands.sessions import new_command, rename_command, resume_command, sessions_command
from coder.engine.commands.settings import model_command, permissions_command
from coder.engine.commands.status import budget_text, context_text, effort_text, loop_text, status_command
from coder.engine.commands.undo import redo_command, undo_command
from coder.engine.compact import compact_text
from coder.protocol import entries
from coder.protocol.events import CommandDone
from coder.texts import AnyText, JoinedText, Text, catalogue
from coder.tools.todo import as_text
from coder.tools.tool import Tool


class Command(msgspec.Struct, frozen=True):
    """A name, its arguments as `/help` shows them, and what it does. Its help text is `help.<name>`.
    `prompt`: it is a message to the model instead, and a custom mode of that name runs in its place."""

    name: str
    arguments: str
    run: Callable[[Agent, str], Awaitable[Reply]] | None = None
    prompt: Callable[[str], Prompt] | None = None


_ALIKE = 0.6  # of a mistyped name and the one that is suggested: `/foo` is not `/yolo`
_READS = frozenset({"status", "cost", "context", "todos", "diff", "help", "ps"})


def is_read_only(line: str) -> bool:
    """Whether a line is a command that changes nothing, which may be answered while a turn runs."""
    name, _, args = line[1:].partition(" ")
    return line.startswith("/") and name in _READS and not (name == "diff" and _is_review(args))


async def run_slash_command(agent: Agent, raw: str) -> CommandDone | InstantLine | Prompt:
    """Built-in names win; then custom modes, then prompts of MCP servers. Those that are a turn are handed
    back."""
    name, args = [*raw[1:].split(maxsplit=1), "", ""][:2]
    command = COMMANDS.get(name)
    session, messages = agent.session, agent.session.conversation.messages
    before = len(messages)
    if command is not None and args.strip() and not command.arguments:
        reply = Reply(Text("command.no_arguments", name=name), ok=False, data={"usage": True})
    elif command is not None and command.run is not None:
        reply = await command.run(agent, args.strip())
    else:
        custom = await custom_mode(agent, raw) or await server_prompt(agent, raw)
        if custom is None and command is not None and command.prompt is not None:
            return command.prompt(args.strip())
        if isinstance(custom, InstantLine | Prompt):
            return custom
        reply = (
            custom
            or await _of_package(agent, name, args)
            or Reply(await _unknown(agent, name), ok=False, data={"usage": True})
        )
    # `/new` and `/resume` have changed the session by now: their answer belongs to the new one.
    if not (reply.data.get("exit") or reply.data.get("unrecorded")):
        hide = agent.session.redactor.redact
        entry = entries.Command(kind="slash", input=hide(raw), command=hide(name), ok=reply.ok)
        agent.session.log.append(entry, hide(str(reply.text)))
    now = session.conversation.messages
    if session is agent.session and (now is not messages or len(now) != before):
        session.write_snapshot()
    return CommandDone(command=raw, text=reply.text, ok=reply.ok, data=reply.data)


async def _of_package(agent: Agent, name: str, args: str) -> Reply | None:
    answer = await engine.plugins.run_command(agent.session, name, args.strip())
    return None if answer is None else Reply(answer[0], ok=answer[1])


async def _unknown(agent: Agent, name: str) -> AnyText:
    from difflib import get_close_matches

    offered = [one.command[1:] for one in await offered_commands(agent)]
    near = get_close_matches(name, [*COMMANDS, *await mode_names(agent), *offered], n=3, cutoff=_ALIKE)
    names = ", ".join(f"/{n}" for n in near) or "/help"
    return f"Unknown command: /{name}\n" + Text("command.nearest", names=names)


async def _help(agent: Agent, args: str) -> Reply:
    if args:
        return await _help_on(agent, args.removeprefix("/"))
    rows = [(f"/{c.name} {c.arguments}".rstrip(), Text(f"help.{c.name}")) for c in COMMANDS.values()]
    width = max(len(usage) for usage, _ in rows)
    lines: list[AnyText] = [f"{usage.ljust(width)}  " + text for usage, text in rows]
    if offered := await offered_commands(agent, described=True):
        lines += [
            "",
            *(_line_of(one.command, one.arguments, one.description or one.source) for one in offered),
        ]
    keys = key_names(agent.config.ui.keys)
    return Reply(JoinedText([*lines, "", Text("help.keys", **keys)]))


async def _help_on(agent: Agent, name: str) -> Reply:
    if command := COMMANDS.get(name):
        return Reply(_line_of(f"/{name}", command.arguments, Text(f"help.{name}")))
    if mode := await definition_of(agent, name):
        return Reply(_line_of(mode.command, mode.usage, mode.description or mode.display_name))
    for one in await offered_commands(agent, described=True):
        if one.command == f"/{name}":
            return Reply(_line_of(one.command, one.arguments, one.description or one.source))
    return Reply(await _unknown(agent, name), ok=False, data={"usage": True})


def _line_of(command: str, arguments: str, about: AnyText) -> AnyText:
    return f"{command} {arguments}".rstrip() + "  " + about


async def _mode(agent: Agent, args: str) -> Reply:
    if not args:
        return Reply(Text("mode.current", mode=agent.mode, names=", ".join(OPERATING_MODES)))
    mode = next((m for m in OPERATING_MODES if m == args), None)
    if mode is None:
        return Reply(Text("mode.unknown", name=args, names=", ".join(OPERATING_MODES)), ok=False)
    agent.mode = mode
    agent.session.record_state()
    if agent.mcp is not None:
        await engine.mcp_session.follow_mode(agent)
    return Reply(Text(f"mode.set.{mode}"))


def _mode_named(mode: str) -> Callable[[Agent, str], Awaitable[Reply]]:
    async def run(agent: Agent, args: str) -> Reply:
        return await _mode(agent, mode)

    return run


async def _tools(agent: Agent, args: str) -> Reply:
    width = max(len(name) for name in agent.tools)
    return Reply(
        JoinedText(JoinedText([name.ljust(width), _about(tool)], "  ") for name, tool in agent.tools.items())
    )


def _about(tool: Tool) -> AnyText:
    """Our own tools in the person's language; others by what they tell the model."""
    key = f"tool.about.{tool.spec.name}"
    if key in catalogue("en", key):
        return Text(key)
    return tool.spec.function.description.split(". ")[0].rstrip(".")


async def _skills(agent: Agent, args: str) -> Reply:
    answer = skills_answer(agent.skills)
    return Reply(answer.text, answer.ok)


async def _memory(agent: Agent, args: str) -> Reply:
    answer = memory_answer(agent.memory, args)
    if answer.note:
        agent.session.reminders.add(answer.note)
    return Reply(answer.text, answer.ok)


async def _todos(agent: Agent, args: str) -> Reply:
    todos = agent.session.context.todos
    if not todos or (len(todos) == 1 and todos == agent.session.engine_todos):  # which repeats the message
        return Reply(Text("todos.none"))
    return Reply(as_text(todos), data={"todos": [msgspec.structs.asdict(todo) for todo in todos]})


async def _compact(agent: Agent, args: str) -> Reply:
    text, ok = await compact_text(agent.session)
    return Reply(text, ok)


def _is_review(args: str) -> bool:
    return args.split()[:1] == ["review"]


async def _diff(agent: Agent, args: str) -> Reply:
    if _is_review(args):
        return await review_command(agent, args.removeprefix("review").strip())
    shown = await show_diff(agent, args)
    return Reply(shown.text, shown.ok, data={"files": shown.files} if shown.ok else {"usage": True})


async def _context(agent: Agent, args: str) -> Reply:
    return Reply(context_text(agent))


async def _budget(agent: Agent, args: str) -> Reply:
    text, ok = budget_text(agent, args)
    return Reply(text, ok)


async def _effort(agent: Agent, args: str) -> Reply:
    text, ok = effort_text(agent, args)
    return Reply(text, ok)


async def _loop(agent: Agent, args: str) -> Reply:
    text, ok = loop_text(agent, args)
    return Reply(text, ok)


async def _fork(agent: Agent, args: str) -> Reply:
    return Reply(Text("fork.linear"), ok=False)


async def _exit(agent: Agent, args: str) -> Reply:
    return Reply("", data={"exit": True})


async def _of_addon(path: str, agent: Agent, args: str) -> Reply:
    reply: Reply = await function(path)(agent, args)
    return reply


COMMANDS = {
    command.name: command
    for command in (
        Command("help", "[NAME]", _help),
        Command("model", "[NAME]", model_command),
        Command("effort", "[LEVEL|default]", _effort),
        Command("permissions", "[PRESET|revoke NAME]", permissions_command),
        Command("mode", "[NAME]", _mode),
        *(Command(mode, "", _mode_named(mode)) for mode in OPERATING_MODES),
        Command("modes", "[off NAME|show NAME|reload]", modes_command),
        Command("tools", "", _tools),
        Command("mcp", "[restart NAME]", mcp_command),
        Command("hooks", "", hooks_command),
        Command("ps", "", ps_command),
        Command("stop", "[ID]", stop_command),
        Command("skills", "", _skills),
        Command("memory", "[add FACT|forget N]", _memory),
        Command("todos", "", _todos),
        Command("init", "[HINTS]", prompt=init_prompt),
        Command("review", "[WHAT]", prompt=review_prompt),
        Command("new", "", new_command),
        Command("clear", "", new_command),
        Command("resume", "[ID]", resume_command),
        Command("rename", "NAME", rename_command),
        Command("sessions", "", sessions_command),
        Command("compact", "", _compact),
        Command("diff", "[full|PATH|session|turn N|review [turn N]]", _diff),
        Command("undo", "[N|N..|turn N|show|force]", undo_command),
        Command("redo", "[N|force]", redo_command),
        Command("rewind", "[N] [conversation|force]", rewind_command),
        Command("status", "", status_command),
        Command("cost", "", status_command),
        Command("context", "", _context),
        Command("budget", "[USD|off]", _budget),
        Command("loop", "[on|off]", _loop),
        Command("fork", "", _fork),
        Command("exit", "", _exit),
        Command("quit", "", _exit),
        *(
            Command(name, command.arguments, partial(_of_addon, command.run))
            for addon in addons()
            for name, command in addon.slash_commands.items()
        ),
    )
}
