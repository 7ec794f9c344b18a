"""`/mcp`: the MCP servers, what became of each, and starting one again."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import msgspec

from coder import extend
from coder.base.process.jobs import BackgroundJob
from coder.base.text import one_line, shortened
from coder.context.memory import Memory, note_of
from coder.engine.agent import Agent
from coder.engine.commands.mode_commands import Reply
from coder.extend.mcp.shapes import McpError, tool_name
from coder.extend.skills import SkillInfo, Skills
from coder.texts import AnyText, JoinedText, Text
from coder.tools.save_memory import NotSaved, Scope
from coder.tools.tool import MCP_PREFIX

if TYPE_CHECKING:
    from coder.extend.hooks import Hook, Run
    from coder.extend.mcp.servers import Server, Servers


_MOST_RESOURCES = 20  # of a server, in a list


async def mcp_command(agent: Agent, args: str) -> Reply:
    servers = agent.mcp
    if servers is None:
        return Reply(Text("servers.none"))
    word, _, name = args.partition(" ")
    if not args:
        if agent.front.kind != "interactive":  # nobody could look again: each start has its time limit
            await servers.settled()
        lines = [*server_lines(servers), *await offer_lines(servers)]
        return Reply(JoinedText(lines), data={"servers": server_data(servers)})
    if word != "restart" or not name.strip():
        return Reply(Text("servers.usage"), ok=False, data={"usage": True})
    return await _restart(agent, servers, name.strip())


def mcp_rows(agent: Agent) -> list[tuple[str, AnyText]]:
    """A row for `/status`; none where there are no servers."""
    if agent.mcp is None:
        return []
    states = [f"{name} " + Text(f"servers.state.{one.state}") for name, one in agent.mcp.all.items()]
    return [("mcp", JoinedText(states, ", "))]


async def _restart(agent: Agent, servers: Servers, name: str) -> Reply:
    server = servers.all.get(name)
    if server is None:
        names = ", ".join(servers.all)
        return Reply(Text("servers.no_server", name=name, names=names), ok=False)
    if agent.mode == "plan":
        return Reply(Text("servers.in_plan", name=name), ok=False)
    if server.state == "off":
        return Reply(Text("servers.switched_off", name=name), ok=False)
    await server.close()
    server.start()
    await server.settled()
    if server.fault is not None:
        return Reply(server.fault, ok=False)
    return Reply(JoinedText([Text("servers.restarted", name=name), *_lines(server)]))


def server_lines(servers: Servers) -> list[AnyText]:
    """For a person: a line a server, below it what it can do or why it does not run."""
    return [line for server in servers.all.values() for line in _lines(server)]


def _lines(server: Server) -> list[AnyText]:
    words: list[AnyText] = [Text(f"servers.state.{server.state}")]
    if server.connection is not None:
        words += [Text("servers.tools", n=len(server.remotes)), server.connection.server]
    lines: list[AnyText] = [f"{server.name}: " + JoinedText(filter(None, words), " · ")]
    if server.state == "ready":
        lines += [f"  {_shown_name(server.name, remote.name)}" for remote in server.remotes]
    elif server.fault is not None:
        lines.append("  " + server.fault)
    return lines


async def offer_lines(servers: Servers) -> list[AnyText]:
    """The prompts and resources that each offers, as they are typed."""
    found = await asyncio.gather(*(_offers(server) for server in servers.all.values()))
    return [line for lines in found for line in lines]


async def _offers(server: Server) -> list[AnyText]:
    connection, timeout = server.connection, server.settings.timeout_ms
    lines: list[AnyText] = []
    if connection is None:
        return lines
    try:
        for prompt in await connection.prompts(timeout_ms=timeout):
            typed = f"/{server.name}:{prompt.name} {prompt.usage}".rstrip()
            lines.append(f"  {typed}  {prompt.description}".rstrip())
        resources = await connection.resources(timeout_ms=timeout)
    except McpError as fault:
        return [*lines, "  " + fault.phrase]
    lines += [f"  @{server.name}:{one.uri}  {one.name}".rstrip() for one in resources[:_MOST_RESOURCES]]
    if len(resources) > _MOST_RESOURCES:
        lines.append("  " + Text("servers.more_resources", n=len(resources) - _MOST_RESOURCES))
    return lines


def _shown_name(server: str, tool: str) -> str:
    """With the model's name for it where that is another: permissions and records have it."""
    name = tool_name(server, tool)
    return tool if name == f"{MCP_PREFIX}{server}__{tool}" else f"{tool} ({name})"


def server_data(servers: Servers) -> list[dict[str, object]]:
    """For programs."""
    return [
        {
            "name": server.name,
            "state": server.state,
            "server": server.connection.server if server.connection is not None else "",
            "protocol": server.connection.version if server.connection is not None else "",
            "tools": [remote.name for remote in server.remotes],
            "fault": str(server.fault) if server.fault is not None and server.state != "ready" else "",
        }
        for server in servers.all.values()
    ]


async def hooks_command(agent: Agent, args: str) -> Reply:
    if agent.hooks is None:
        return Reply(Text("hooks.none", file=agent.place.home / "config.json"))
    return Reply(JoinedText(_line(hook, agent.hooks.runs.get(hook)) for hook in agent.hooks.hooks))


def _line(hook: Hook, run: Run | None) -> AnyText:
    parts: list[AnyText] = [
        hook.event,
        hook.matcher or "*",
        one_line(hook.command, 100),
        f"({hook.source})",
    ]
    if not extend.hooks.is_valid(hook.matcher):
        parts.append(Text("hooks.bad_matcher"))
    if not hook.active:
        parts.append(Text("hooks.untrusted"))
    elif run is None:
        parts.append(Text("hooks.never_run"))
    else:
        clock = time.strftime("%H:%M:%S", time.localtime(run.at))
        last = Text("hooks.last_run", at=clock, outcome=run.outcome, ms=run.duration_ms)
        parts.append(last + f": {one_line(run.said, 200)}" if run.said else last)
    return JoinedText(parts, "  ")


_WIDTH = 160  # characters of a description; the whole stands in its file


class Answer(msgspec.Struct, frozen=True):
    """Text for the person; `note` is for the model, with the person's next message."""

    text: AnyText
    ok: bool = True
    note: str = ""


def skills_answer(skills: Skills) -> Answer:
    """All skills with where they come from, then the broken ones with file and reason."""
    skills.scan()
    found = skills.all()
    width = max((len(skill.name) for skill in found), default=0)
    lines: list[AnyText] = [
        f"{skill.name.ljust(width)}  [" + Text(f"skills.origin.{skill.origin}") + "] " + _about(skill)
        for skill in found
    ]
    broken = skills.broken()
    if broken:
        lines += ["", Text("skills.broken", n=len(broken))]
        lines += [f"  {one.file}: " + one.reason for one in broken]
    return Answer(JoinedText(lines or [Text("skills.none")]))


def _about(skill: SkillInfo) -> AnyText:
    """A skill of a person's is told in their words, our own in their language."""
    return (
        Text(f"skills.about.{skill.name}")
        if skill.origin == "built-in"
        else shortened(skill.description, _WIDTH)
    )


def memory_answer(memory: Memory, args: str) -> Answer:
    """`/memory`, `/memory add [--home] FACT`, `/memory forget N`."""
    word, _, rest = args.strip().partition(" ")
    try:
        if not word or (word in ("show", "list") and not rest.strip()):
            return _shown(memory)
        if word == "add":
            return _added(memory, rest.strip())
        if word in ("forget", "remove"):
            return _forgotten(memory, rest.strip())
    except NotSaved as reason:
        return Answer(Text("memory.not_saved", reason=reason.phrase), ok=False)
    return Answer(Text("memory.usage"), ok=False)


def _shown(memory: Memory) -> Answer:
    facts = memory.facts()
    if not facts:
        return Answer(Text("memory.none", project=memory.path("project"), home=memory.path("home")))
    lines: list[AnyText] = []
    scope: Scope | None = None
    for fact in facts:
        if fact.scope != scope:
            scope = fact.scope
            lines.append(Text(f"memory.{scope}") + f" ({memory.path(scope)})")
        lines.append(f"  {fact.number}. {fact.text}")
    return Answer(JoinedText(lines))


def _added(memory: Memory, text: str) -> Answer:
    scope: Scope = "home" if text == "--home" or text.startswith("--home ") else "project"
    fact = text.removeprefix("--home").strip() if scope == "home" else text
    if not fact:
        return Answer(Text("memory.usage"), ok=False)
    saved = memory.save(fact, scope)
    if not saved.added:
        return Answer(Text("memory.known", fact=saved.fact))
    return Answer(Text("memory.added", fact=saved.fact, path=saved.path), note=note_of(saved))


def _forgotten(memory: Memory, text: str) -> Answer:
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 7 else 0
    if not number:
        return Answer(Text("memory.usage"), ok=False)
    fact = memory.forget(number)
    if fact is None:
        return Answer(Text("memory.missing", number=number), ok=False)
    note = f"The person removed from the memory; it no longer holds: {fact.text}"
    return Answer(Text("memory.forgotten", fact=fact.text), note=note)


_ENDED_SHOWN = 10
_LINE = 120  # characters of a command or an output line


async def ps_command(agent: Agent, args: str) -> Reply:
    jobs = list(agent.session.jobs)
    ended = [job for job in jobs if not job.running][-_ENDED_SHOWN:]
    shown = [*(job for job in jobs if job.running), *ended]
    if not shown:
        return Reply(Text("job.none"))
    return Reply(JoinedText(map(_job_line, shown)), data={"jobs": [job.id for job in shown]})


def _job_line(job: BackgroundJob) -> AnyText:
    seconds = _time(job.seconds)
    if job.running:
        state = Text("job.runs", time=seconds)
    elif job.stopped_by:
        state = Text("job.was_stopped", time=seconds)
    else:
        state = Text("job.has_ended", time=seconds, code=job.exit_code)
    last = job.recent(1)[:_LINE]
    text = f"{job.id}  " + state + f"  {' '.join(job.command.split())[:_LINE]}"
    return text + f"\n   {last}" if last else text


def _time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


async def stop_command(agent: Agent, args: str) -> Reply:
    jobs = agent.session.jobs
    wanted = jobs.running
    if args:
        found = jobs.get(args.strip().removeprefix("job").strip())
        if found is None:
            ids = ", ".join(job.id for job in wanted)
            text = Text("job.no_such", id=args, ids=ids) if ids else Text("job.none_running")
            return Reply(text, ok=False, data={"usage": True})
        wanted = [found] if found.running else []
    if not wanted:
        return Reply(Text("job.none_running"))
    for job in wanted:
        job.stop("person")
    names = ", ".join(f"{job.id} ({job.command})" for job in wanted)
    return Reply(Text("job.stopped", jobs=names), data={"stopped": [job.id for job in wanted]})
