"""`/diff review [turn N]`: go through the hunks of the session or of a turn, and keep or take back each.

The question is an approval about a diff (`tool` `review`): `yes` keeps all of it, with `amended` those
hunks alone, or runs of changed lines of them; `no` takes all of it back. A cancel changes nothing, and
`/redo` does again what was taken back.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable

import msgspec

from coder import tools
from coder.base.process.git import driver_names, git_line
from coder.base.process.programs import Runs
from coder.base.process.run import ProcessOutcome, run_process
from coder.base.safe_open import read_whole
from coder.engine.agent import Agent
from coder.engine.approval import ask_about_diff
from coder.engine.commands.mode_commands import Reply
from coder.engine.commands.undo import keep_outcome, outcome_lines
from coder.history.undo.journal import UndoOutcome
from coder.history.undo.review_hunks import FileHunks, Places
from coder.policy.sandbox.backends import Sandbox, probe
from coder.policy.verification import is_cache
from coder.protocol.ops import ApprovalReply
from coder.texts import AnyText, JoinedText, Text
from coder.tools.text.hunks import Hunk, diff_of, hunks_of

_NAMED = 50  # hunks that the record and the model are told of


async def review_command(agent: Agent, args: str) -> Reply:
    """`args`: nothing, or `turn N`."""
    journal, shown = agent.session.undo.journal, agent.place.workspace.show
    turn = 0
    if args:
        number = args.removeprefix("turn").strip()
        turn = int(number[:9]) if args.startswith("turn") and number.isascii() and number.isdigit() else 0
        if turn not in journal.turns():
            known = ", ".join(map(str, journal.turns())) or "–"
            return Reply(
                Text("diff.no_turn", turn=number or "?", turns=known), ok=False, data={"usage": True}
            )
    files, unkept = await asyncio.to_thread(journal.hunks, turn, shown)
    lines = [Text("diff.not_kept", path=shown(path)) for path in unkept]
    hunks = [hunk for file in files for hunk in file.hunks]
    if not hunks:
        return Reply(JoinedText([*lines, Text("diff.none_by_session")]))
    diff = diff_of(hunks)
    if not agent.can_ask:
        return Reply(
            JoinedText([*lines, diff, Text("record.review_needs_person")]), data={"hunks": len(hunks)}
        )
    reply = await ask_about_diff(agent.session, "review", diff, [*lines, Text("record.review_question")])
    parts = _taken_back(files, reply)
    names = [f"{hunk.path} {hunk.head}" for file, places in parts for hunk in _at(file, places)]
    if not names:
        return Reply(Text("record.review_kept"), data={"kept": len(hunks), "taken_back": 0})
    return await _take_back(agent, parts, names, len(hunks), reply.reason)


def _taken_back(files: list[FileHunks], reply: ApprovalReply) -> list[tuple[FileHunks, Places]]:
    """Of each file the places of the hunks that the person does not keep, or not whole."""
    if reply.answer != "no" and not reply.amended:
        return []
    amended = hunks_of(reply.amended) if reply.answer != "no" else []
    kept = {(hunk.names, hunk.start): hunk for hunk in amended}
    found: list[tuple[FileHunks, Places]] = []
    for file in files:
        places: dict[int, list[int] | None] = {}
        for place, hunk in zip(file.places, file.hunks, strict=True):
            own = kept.get((hunk.names, hunk.start))
            if own is None or own.text != hunk.text:
                runs = hunk.kept_runs(own) if own is not None else []
                places[place] = [at for at, has in enumerate(runs) if not has] if any(runs) else None
        if places:
            found.append((file, places))
    return found


def _at(file: FileHunks, places: Places) -> list[Hunk]:
    """These hunks, or the pieces of them that have the runs."""
    found: list[Hunk] = []
    for place, runs in places.items():
        hunk = file.hunks[file.places.index(place)]
        found += [hunk] if runs is None else [hunk.pieces()[run] for run in runs]
    return found


async def _take_back(
    agent: Agent, parts: list[tuple[FileHunks, Places]], names: list[str], count: int, reason: str
) -> Reply:
    # Shielded from cancellation: an interrupted undo is completed only by the next one.
    work = asyncio.ensure_future(asyncio.to_thread(agent.session.undo.journal.take_back, parts))
    try:
        outcome = await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait([work])
        if work.exception() is None:
            _tell(agent, work.result(), names, reason)
        raise
    except OSError as error:
        return Reply(Text("undo.failed", reason=f"{error.strerror}: {error.filename}"), ok=False)
    _tell(agent, outcome, names, reason)
    data: dict[str, object] = {"kept": count - len(names), "taken_back": 0 if outcome.refused else len(names)}
    return Reply(JoinedText(outcome_lines(agent, outcome, "undo")), ok=not outcome.refused, data=data)


def _tell(agent: Agent, outcome: UndoOutcome, names: list[str], reason: str) -> None:
    keep_outcome(agent, "undo", outcome, force=False, hunks=names[:_NAMED], reason=reason)


_KEEP = 400_000  # bytes of a full diff; more than that nobody reads on a screen
_UNTRACKED = 50
_OWN = ".coder/.gitignore"  # made by coder itself, so nothing of anybody's work


class Shown(msgspec.Struct, frozen=True):
    """What `/diff` says, and the paths that changed. Not `ok`: it was asked for what is not there."""

    text: AnyText
    files: list[str] = []
    ok: bool = True


async def show_diff(agent: Agent, args: str) -> Shown:
    """`args`: nothing for a summary, `full` for every line, a path for those of one file or directory,
    `session` or `turn N` for what the session or one turn of it changed."""
    if args.split()[:1] == ["turn"] and not _is_there(agent, args):
        return await asyncio.to_thread(_of_turn, agent, args.removeprefix("turn").strip())
    if args == "session" and not _is_there(agent, args):
        return await asyncio.to_thread(_of_session, agent)
    inside = await _git(agent, "rev-parse", "--is-inside-work-tree")
    if inside is None or inside.exit_code != 0:
        return _by_undo(agent, args)
    has_commit = await _git(agent, "rev-parse", "--verify", "-q", "HEAD")
    base = ["HEAD"] if has_commit is not None and has_commit.exit_code == 0 else ["--cached"]
    wanted = "." if args in ("", "full") else args
    names = await _git(agent, "diff", "--name-only", "-z", "--relative", *base, "--", wanted)
    others = await _git(agent, "ls-files", "--others", "--exclude-standard", "-z", "--", wanted)
    if names is None or others is None or names.exit_code != 0:
        reason = names.stderr.strip() if names is not None else "git"
        return Shown(Text("diff.failed", reason=reason), ok=False)
    changed = names.stdout.split("\0")[:-1]
    untracked = [path for path in others.stdout.split("\0")[:-1] if path != _OWN]
    if not changed and not untracked:
        return await _nothing(agent, wanted)
    text = await (_full if args else _summary)(agent, base, wanted, untracked)
    return Shown(text, [*changed, *untracked])


async def _nothing(agent: Agent, wanted: str) -> Shown:
    """No change there; or no such place, which is another thing to know."""
    if wanted == ".":
        return Shown(Text("diff.none"))
    known = await _git(agent, "ls-files", "-z", "--", wanted)
    if (known is not None and known.stdout) or _is_there(agent, wanted):
        return Shown(Text("diff.none_in", path=wanted))
    return Shown(Text("diff.no_file", path=wanted), ok=False)


async def _summary(agent: Agent, base: list[str], wanted: str, untracked: list[str]) -> AnyText:
    stat = await _git(agent, "diff", "--stat", "--relative", *base, "--", wanted)
    lines: list[AnyText] = [stat.stdout.rstrip("\n")] if stat and stat.stdout.strip() else []
    named = [path for path in untracked if not is_cache(path)]
    lines += [Text("diff.untracked", path=path) for path in named[:_UNTRACKED]]
    if len(named) > _UNTRACKED:
        lines.append(Text("diff.more", n=len(named) - _UNTRACKED))
    return JoinedText([*lines, *_caches(untracked), Text("diff.hint")])


async def _full(agent: Agent, base: list[str], wanted: str, untracked: list[str]) -> AnyText:
    safely = ("--no-ext-diff", "--no-textconv")
    diff = await _git(agent, "diff", *safely, "--relative", *base, "--", wanted)
    parts: list[AnyText] = [diff.stdout.rstrip("\n")] if diff is not None and diff.stdout else []
    named = [path for path in untracked if not is_cache(path)]
    for path in named[:_UNTRACKED]:
        added = await _git(agent, "diff", *safely, "--no-index", "--", "/dev/null", path)
        if added is not None:
            parts.append(added.stdout.rstrip("\n"))
    if len(named) > _UNTRACKED:
        parts.append(Text("diff.more", n=len(named) - _UNTRACKED))
    return JoinedText([*parts, *_caches(untracked)])


def _is_there(agent: Agent, path: str) -> bool:
    return os.path.lexists(agent.root / path)


def _is_folder(agent: Agent, path: str) -> bool:
    """One that the session made: its files are listed themselves."""
    return (agent.root / path).is_dir()


def _by_undo(agent: Agent, args: str) -> Shown:
    """Without git there is no base to compare with but what the session's own edits replaced."""
    changes = agent.session.undo.journal.pending_changes()
    shown = [agent.place.workspace.show(path) for path in changes]
    if args and args != "full":
        directory = args.removesuffix("/") + "/"
        shown = [path for path in shown if path == args or path.startswith(directory)]
        if not shown and not _is_there(agent, args):
            return Shown(Text("diff.no_file", path=args), ok=False)
    if not shown:
        return Shown(Text("diff.none_without_git"))
    if args:
        return Shown(_by_journal(agent, shown), shown)
    named = (f"  {path}" for path in shown if not is_cache(path))
    return Shown(JoinedText([Text("diff.by_session"), *named, *_caches(shown)]), shown)


def _caches(paths: Iterable[str]) -> list[AnyText]:
    count = sum(map(is_cache, paths))
    return ["  " + Text("undo.caches", n=count)] if count else []


def _of_session(agent: Agent) -> Shown:
    shown = [agent.place.workspace.show(path) for path in agent.session.undo.journal.pending_changes()]
    return Shown(_by_journal(agent, shown), shown) if shown else Shown(Text("diff.none_by_session"))


def _of_turn(agent: Agent, number: str) -> Shown:
    journal = agent.session.undo.journal
    turn = int(number[:9]) if number.isascii() and number.isdigit() else 0
    found = journal.contents_of(turn)
    if not found:
        known = ", ".join(map(str, journal.turns())) or "–"
        return Shown(Text("diff.no_turn", turn=number or "?", turns=known), ok=False)

    lines: list[AnyText] = []
    names = {agent.place.workspace.show(path): pair for path, pair in found.items()}
    for name, pair in names.items():
        if pair is not None and not is_cache(name):
            lines += tools.changes.diff_bytes(*pair, name, name).lines
        elif not is_cache(name) and not _is_folder(agent, name):
            lines.append(Text("diff.not_kept", path=name))
    lines += _caches(names)
    return Shown(JoinedText(lines or [Text("diff.none")]), list(names))


def _by_journal(agent: Agent, wanted: list[str]) -> AnyText:
    """Every line that the session changed, from what undo keeps; of what it does not keep the names."""
    before = {
        agent.place.workspace.show(path): (path, kept)
        for path, kept in agent.session.undo.journal.contents_before().items()
    }
    lines: list[AnyText] = []
    for name in wanted:
        if is_cache(name) or (_is_folder(agent, name) and before.get(name, (None, None))[1] is None):
            continue
        if name not in before:
            lines.append(Text("diff.not_kept", path=name))
            continue
        path, kept = before[name]
        try:
            now = read_whole(path, _KEEP, path.parent)  # resolved: not through a link that took its place
        except FileNotFoundError:
            now = None
        except (OSError, ValueError):
            lines.append(Text("diff.not_kept", path=name))
            continue
        lines += tools.changes.diff_bytes(kept, now, name, name).lines
    lines += _caches(wanted)
    return JoinedText(lines or [Text("diff.none")])


async def _git(agent: Agent, *args: str) -> ProcessOutcome | None:
    """None if there is no git."""
    context = agent.session.context
    settings = ("-c", "core.quotePath=false", "-c", "diff.ignoreSubmodules=dirty")
    sandbox = await _sandbox(agent)
    # In the sandbox of `plan` filters cannot change anything; without one none of them runs.
    drivers = () if sandbox else await asyncio.to_thread(driver_names, agent.root, agent.root, into=False)
    found = None
    if drivers is not None:
        found = git_line([*settings, *args], context.environment, agent.root, drivers=drivers)
    if found is None:
        return None
    line, environment = found
    try:
        return await run_process(
            sandbox.wrap(line) if sandbox else line,
            runs=Runs.IN_SANDBOX if sandbox else Runs.HARDENED,
            cwd=context.workspace.root,
            environment=environment,
            timeout_ms=30_000,
            keep_bytes=_KEEP,
            spill_to=context.outputs / "diff.txt",
            spill_limit=0,
            on_output=lambda _text: None,
        )
    except (OSError, ValueError):  # a NUL in a path, say
        return None


async def _sandbox(agent: Agent) -> Sandbox | None:
    if agent.config.sandbox.mode == "off":
        return None
    level = agent.sandbox.level
    if level is None:
        level = await asyncio.to_thread(
            probe, agent.place.home, agent.place.environment.get("PATH"), agent.root
        )
    if level.backend == "none":
        return None
    return Sandbox(level, agent.root, agent.place.home, plan=True, environment=agent.place.environment)
