"""`/diff`: what has changed in the workspace, by git where there is a repository, else by undo's memory."""

from __future__ import annotations

from coder.engine.desk import Desk
from coder.tools.base import ToolContext
from coder.tools.process import Outcome, run_process

_KEEP = 400_000  # bytes of a full diff; more than that nobody reads on a screen
_UNTRACKED = 50
_OWN = ".coder/.gitignore"  # made by coder itself, so nothing of anybody's work


async def show_diff(desk: Desk, args: str) -> tuple[str, list[str]]:
    """The text, and the paths that changed. `args`: nothing for a summary, `full`, or a path."""
    context = desk.session.context
    inside = await _git(context, "rev-parse", "--is-inside-work-tree")
    if inside is None or inside.exit_code != 0:
        return _by_undo(desk)
    has_commit = await _git(context, "rev-parse", "--verify", "-q", "HEAD")
    base = ["HEAD"] if has_commit is not None and has_commit.exit_code == 0 else ["--cached"]
    names = await _git(context, "diff", "--name-only", "-z", *base, "--", ".")
    others = await _git(context, "ls-files", "--others", "--exclude-standard", "-z", "--", ".")
    changed = names.stdout.split("\0")[:-1] if names else []
    untracked = [path for path in (others.stdout.split("\0")[:-1] if others else []) if path != _OWN]
    if not changed and not untracked:
        return desk.say("diff.none"), []
    if args:
        return await _full(desk, base, args, untracked), [*changed, *untracked]
    stat = await _git(context, "diff", "--stat", *base, "--", ".")
    lines = [stat.stdout.rstrip("\n")] if stat and stat.stdout.strip() else []
    lines += [desk.say("diff.untracked", path=path) for path in untracked[:_UNTRACKED]]
    if len(untracked) > _UNTRACKED:
        lines.append(desk.say("diff.more", n=len(untracked) - _UNTRACKED))
    return "\n".join([*lines, desk.say("diff.hint")]), [*changed, *untracked]


async def _full(desk: Desk, base: list[str], args: str, untracked: list[str]) -> str:
    context = desk.session.context
    pathspec = "." if args == "full" else args
    diff = await _git(context, "diff", "--no-ext-diff", "--no-textconv", *base, "--", pathspec)
    if diff is None or diff.exit_code != 0:
        return desk.say("diff.failed", reason=(diff.stderr.strip() if diff else "git"))
    parts = [diff.stdout.rstrip("\n")] if diff.stdout else []
    wanted = untracked if args == "full" else [p for p in untracked if p == args]
    for path in wanted[:_UNTRACKED]:
        added = await _git(context, "diff", "--no-ext-diff", "--no-index", "--", "/dev/null", path)
        if added is not None:
            parts.append(added.stdout.rstrip("\n"))
    return "\n".join(parts) or desk.say("diff.none")


def _by_undo(desk: Desk) -> tuple[str, list[str]]:
    """Without git there is no base to compare with but what the session's own edits replaced."""
    changes = desk.session.undo.pending_changes()
    if not changes:
        return desk.say("diff.none_without_git"), []
    shown = [desk.workspace.show(path) for path in changes]
    return "\n".join([desk.say("diff.by_session"), *(f"  {path}" for path in shown)]), shown


async def _git(context: ToolContext, *args: str) -> Outcome | None:
    """None where there is no git."""
    try:
        return await run_process(
            ["git", "-c", "core.quotePath=false", "-c", "core.fsmonitor=false", "--no-pager", *args],
            cwd=context.workspace.root,
            environment={**context.environment, "GIT_OPTIONAL_LOCKS": "0", "GIT_EXTERNAL_DIFF": ""},
            timeout_ms=30_000,
            keep_bytes=_KEEP,
            spill_to=context.outputs / "diff.txt",
            spill_limit=0,
            on_output=lambda _text: None,
        )
    except OSError:
        return None
