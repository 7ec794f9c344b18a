"""The built-in `/` commands (seed 000 §4, seed 001 §7, SPEC §7): a table of names and functions.

A command answers with text; front ends only show it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from coder.context.for_person import memory_answer, skills_answer
from coder.engine.command_diff import show_diff
from coder.engine.command_modes import Reply, custom_mode, modes_command
from coder.engine.command_money import budget_text, context_text, loop_text
from coder.engine.compact import compact
from coder.engine.desk import Desk
from coder.engine.modes import begin_modes
from coder.engine.session import Session
from coder.engine.shelter import sandbox_text
from coder.policy.decide import OPERATING_MODES, PRESETS, matrix
from coder.protocol.events import CommandDone
from coder.protocol.modes import TriggerInstantMode
from coder.record.files import RecordError
from coder.tools.todo import as_text


class Command(msgspec.Struct, frozen=True):
    """A name, its arguments as `/help` shows them, and what it does. Its help text is `help.<name>`."""

    name: str
    arguments: str
    run: Callable[[Desk, str], Awaitable[Reply]]


async def run_slash_command(desk: Desk, raw: str) -> CommandDone | TriggerInstantMode:
    """Built-in names win; then custom modes. An instant one is handed back: its prompt is a turn."""
    name, args = [*raw[1:].split(maxsplit=1), "", ""][:2]
    command = COMMANDS.get(name)
    if command is not None:
        reply = await command.run(desk, args.strip())
    else:
        custom = await custom_mode(desk, raw)
        if isinstance(custom, TriggerInstantMode):
            return custom
        reply = custom or Reply(_unknown(desk, name), ok=False, data={"usage": True})
    meta = {"kind": "slash", "input": raw, "command": name, "ok": reply.ok}
    # `/new` and `/resume` have changed the session by now: their answer belongs to the new one.
    if not (reply.data.get("exit") or reply.data.get("unrecorded")):
        desk.session.log.append("command", reply.text, meta=meta)
    return CommandDone(command=raw, text=reply.text, ok=reply.ok, data=reply.data)


def _unknown(desk: Desk, name: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, COMMANDS, n=3, cutoff=0.5)
    text = f"Unknown command: /{name}"
    names = ", ".join(f"/{n}" for n in near) or "/help"
    return f"{text}\n{desk.say('command.nearest', names=names)}"


async def _help(desk: Desk, args: str) -> Reply:
    rows = [(f"/{c.name} {c.arguments}".rstrip(), desk.say(f"help.{c.name}")) for c in COMMANDS.values()]
    width = max(len(usage) for usage, _ in rows)
    lines = [f"{usage.ljust(width)}  {text}" for usage, text in rows]
    return Reply("\n".join([*lines, "", desk.say("help.keys")]))


async def _model(desk: Desk, args: str) -> Reply:
    if not args:
        return Reply(desk.say("model.current", model=desk.model_name))
    from coder.config.save import save_model

    desk.use_model(args)
    desk.session.record_state()
    problem = save_model(desk.root, args, desk.texts)
    return Reply("\n".join(filter(None, [desk.say("model.set", model=args), problem])))


async def _permissions(desk: Desk, args: str) -> Reply:
    if args:
        preset = next((p for p in PRESETS if p == args), None)
        if preset is None:
            return Reply(desk.say("permissions.unknown", name=args, names=", ".join(PRESETS)), ok=False)
        desk.preset = preset
        desk.session.record_state()
    rows = matrix(desk.preset, desk.mode, desk.config.permission.tools)
    width = max(len(name) for name, _ in rows)
    lines = [desk.say("permissions.head", preset=desk.preset, mode=desk.mode)]
    lines += [f"  {name.ljust(width)}  {decision}" for name, decision in rows]
    allowed = [*desk.config.permission.command_allowlist, *desk.allowed.names()]
    if allowed:
        lines.append(desk.say("permissions.allowed", names=", ".join(allowed)))
    return Reply("\n".join(lines))


async def _mode(desk: Desk, args: str) -> Reply:
    if not args:
        return Reply(desk.say("mode.current", mode=desk.mode, names=", ".join(OPERATING_MODES)))
    mode = next((m for m in OPERATING_MODES if m == args), None)
    if mode is None:
        return Reply(desk.say("mode.unknown", name=args, names=", ".join(OPERATING_MODES)), ok=False)
    desk.mode = mode
    desk.session.record_state()
    return Reply(desk.say("mode.set", mode=args))


def _mode_named(mode: str) -> Callable[[Desk, str], Awaitable[Reply]]:
    async def run(desk: Desk, args: str) -> Reply:
        return await _mode(desk, mode)

    return run


async def _tools(desk: Desk, args: str) -> Reply:
    width = max(len(name) for name in desk.tools)
    lines = []
    for name, tool in desk.tools.items():
        first = tool.spec.function.description.split(". ")[0].rstrip(".")
        lines.append(f"{name.ljust(width)}  {first}")
    return Reply("\n".join(lines))


async def _skills(desk: Desk, args: str) -> Reply:
    answer = skills_answer(desk.skills, desk.say)
    return Reply(answer.text, answer.ok)


async def _memory(desk: Desk, args: str) -> Reply:
    answer = memory_answer(desk.memory, desk.say, args)
    if answer.note:
        desk.session.next_note = answer.note
    return Reply(answer.text, answer.ok)


async def _todos(desk: Desk, args: str) -> Reply:
    todos = desk.session.context.todos
    return Reply(as_text(todos) if todos else desk.say("todos.none"))


async def _new(desk: Desk, args: str) -> Reply:
    old = desk.session
    desk.session = Session.new(desk)
    old.close()
    await begin_modes(desk.session)
    return Reply(desk.say("session.new", id=desk.session.id), data={"unrecorded": True})


async def _resume(desk: Desk, args: str) -> Reply:
    if not args:
        return Reply(_session_list(desk, 10))
    if not desk.store.exists(args):
        return Reply(desk.say("session.missing", id=args), ok=False)
    if args == desk.session.id:
        return Reply(desk.say("session.already", id=args))
    try:
        session = Session.resumed(desk, args)
    except RecordError as error:
        return Reply(str(error), ok=False)
    old, desk.session = desk.session, session
    old.close()
    await begin_modes(session)
    text = desk.say("session.resumed", id=args, title=session.title or "-", turns=session.log.turn)
    return Reply(text, data={"session_id": args})


async def _sessions(desk: Desk, args: str) -> Reply:
    return Reply(_session_list(desk, 30))


def _session_list(desk: Desk, limit: int) -> str:
    import time

    infos = desk.store.infos(limit)
    if not infos:
        return desk.say("session.none")
    return "\n".join(
        f"{info.session_id}  {time.strftime('%Y-%m-%d %H:%M', time.localtime(info.updated_at))}  "
        f"{info.turns:>3}  {info.title}"
        for info in infos
    )


async def _compact(desk: Desk, args: str) -> Reply:
    done = await compact(desk.session, forced=True)
    if done is None:
        return Reply(desk.say("compact.nothing"))
    text = desk.say("compact.done", before=done.tokens_before, after=done.tokens_after)
    return Reply(f"{text}\n\n{done.summary}")


async def _undo(desk: Desk, args: str) -> Reply:
    session = desk.session
    try:
        outcome = session.undo.undo(force=args in ("force", "--force"))
    except OSError as error:
        return Reply(desk.say("undo.failed", reason=f"{error.strerror}: {error.filename}"), ok=False)
    shown = _shown_paths(desk)
    if not outcome.turn:
        return Reply(desk.say("undo.nothing"))
    if outcome.conflicts:
        names = "\n".join(f"  {shown(path)}" for path in outcome.conflicts)
        return Reply(desk.say("undo.conflict", turn=outcome.turn, files=names), ok=False)
    changed = [shown(p) for p in (*outcome.restored, *outcome.removed)]
    session.log.append(
        "undo", meta={"undone_turn": outcome.turn, "restored": outcome.restored, "removed": outcome.removed}
    )
    session.next_note = (
        f"The person has undone the file changes of an earlier turn; these files are as before it: "
        f"{', '.join(changed) or 'none'}."
    )
    lines = [desk.say("undo.done", turn=outcome.turn)]
    lines += [f"  {desk.say('undo.restored', path=shown(path))}" for path in outcome.restored]
    lines += [f"  {desk.say('undo.removed', path=shown(path))}" for path in outcome.removed]
    lines += [f"  {desk.say('undo.copy', path=path)}" for path in outcome.kept_copies]
    return Reply("\n".join(lines))


def _shown_paths(desk: Desk) -> Callable[[str], str]:
    from pathlib import Path

    return lambda path: desk.workspace.show(Path(path))


def trust_text(desk: Desk) -> str:
    if not desk.trust_relevant:
        return desk.say("status.nothing_to_trust")
    return desk.say("status.trusted" if desk.trusted else "status.untrusted")


async def _status(desk: Desk, args: str) -> Reply:
    session = desk.session
    usage = session.usage
    tokens = session.context_tokens()
    share = 100 * tokens // desk.context_window
    rows = [
        ("session", f"{session.id} · {desk.say('status.turns', n=session.log.turn)}"),
        ("model", desk.model_name),
        ("mode", f"{desk.mode} · {desk.say('status.preset', preset=desk.preset)}"),
        ("context", desk.say("status.context", tokens=tokens, window=desk.context_window, share=share)),
        (
            "used",
            desk.say("status.used", prompt=usage.prompt, completion=usage.completion, cached=usage.cached),
        ),
        ("budget", budget_text(desk, "")[0]),
        ("sandbox", sandbox_text(session)),
        ("secrets", str(session.redactor.count if session.redactor else 0)),
        ("folder", str(desk.root)),
        ("trust", trust_text(desk)),
        ("record", str(desk.store.log_path(session.id))),
    ]
    labels = {name: desk.say(f"status.label.{name}") for name, _ in rows}
    return Reply("\n".join(f"{labels[name]}: {value}" for name, value in rows))


async def _diff(desk: Desk, args: str) -> Reply:
    text, files = await show_diff(desk, args)
    return Reply(text, data={"files": files})


async def _context(desk: Desk, args: str) -> Reply:
    return Reply(context_text(desk))


async def _budget(desk: Desk, args: str) -> Reply:
    text, ok = budget_text(desk, args)
    return Reply(text, ok)


async def _loop(desk: Desk, args: str) -> Reply:
    text, ok = loop_text(desk, args)
    return Reply(text, ok)


async def _fork(desk: Desk, args: str) -> Reply:
    return Reply(desk.say("fork.linear"), ok=False)


async def _exit(desk: Desk, args: str) -> Reply:
    return Reply("", data={"exit": True})


COMMANDS = {
    command.name: command
    for command in (
        Command("help", "", _help),
        Command("model", "[NAME]", _model),
        Command("permissions", "[PRESET]", _permissions),
        Command("mode", "[NAME]", _mode),
        *(Command(mode, "", _mode_named(mode)) for mode in OPERATING_MODES),
        Command("modes", "[off NAME]", modes_command),
        Command("tools", "", _tools),
        Command("skills", "", _skills),
        Command("memory", "[add FACT|forget N]", _memory),
        Command("todos", "", _todos),
        Command("new", "", _new),
        Command("resume", "[ID]", _resume),
        Command("sessions", "", _sessions),
        Command("compact", "", _compact),
        Command("diff", "[full|PATH]", _diff),
        Command("undo", "[force]", _undo),
        Command("status", "", _status),
        Command("context", "", _context),
        Command("budget", "[USD|off]", _budget),
        Command("loop", "[on|off]", _loop),
        Command("fork", "", _fork),
        Command("exit", "", _exit),
    )
}
