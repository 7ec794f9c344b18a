"""Plan an undo before any write.

For each path, consecutive changes of the turn are joined into one. Where the path still has the last state,
the first is restored. Where a person has edited it since, a three-way merge reverts the turn's change; where
that does not merge cleanly, the path is in conflict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from coder.base.diff import DiffBlock, line_blocks
from coder.base.safe_open import scan_directory
from coder.base.text import split_lines
from coder.history.undo.apply_steps import (
    PathState,
    PathStep,
    content_digest,
    decoded_path,
    path_state,
    temporarily_readable,
    text_of,
)

MERGED_BYTES = 1 << 20  # up to this size the state after a change is kept too, as the merge base
ContentLookup = Callable[[str], bytes | None]  # kept bytes by their digest
Result = tuple[PathState, bytes | None, bool]  # a path's goal, its bytes, and whether lines were merged
_DEFAULT_DIR_MODE = 0o755


class JournalChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line of a manifest. `made`: created directories; `at`: nanoseconds; `shared`: perhaps another's."""

    path: str
    before: PathState
    after: PathState
    made: list[str] = []
    lost: bool = False  # the old content was not kept: it can only be reported
    by_tool: bool = False  # exact: nobody else can have made it
    at: int = 0
    shared: bool = False


class UndoPlan(msgspec.Struct, frozen=True):
    """One step per path. `conflicts`: edited since and not mergeable; `kept`: left alone, because a directory
    is not empty or force cannot help; `shared`: would change, but may be another session's."""

    steps: dict[str, PathStep]
    conflicts: list[str]
    kept: list[str]
    shared: list[str]


class PlannedTree:
    """Overlay: the state of paths on disk as the steps planned so far would leave it."""

    def __init__(self) -> None:
        self._planned: dict[str, tuple[PathState, bytes]] = {}

    def apply(self, steps: Iterable[PathStep]) -> None:
        self._planned |= {step.path: (step.goal, step.content) for step in steps if not step.is_noop}

    def state(self, text: str) -> tuple[PathState, bytes]:
        """Raises OSError if the path is not readable."""
        found = self._planned.get(text)
        if found is not None:
            return found
        path = decoded_path(text)
        if self._planned and self._parent_replaced(path):
            return PathState(), b""
        return path_state(path)

    def _parent_replaced(self, path: Path) -> bool:
        """Whether a parent directory would be removed or replaced."""
        for parent in path.parents:
            above = self._planned.get(text_of(parent))
            if above is not None:
                return above[0].kind != "folder" or path_state(parent)[0].kind != "folder"
        return False

    def inside(self, directory: str) -> list[str]:
        found = {path: None for path in self._planned if path.rpartition("/")[0] == directory}
        if path_state(decoded_path(directory))[0].kind == "folder":
            found |= dict.fromkeys(map(text_of, _listed(decoded_path(directory))))
        return [path for path in found if path not in self._planned or not self.state(path)[0].absent]


def _listed(directory: Path) -> list[Path]:
    try:
        with scan_directory(directory) as (found, _):
            return [directory / entry.name for entry in found]
    except PermissionError:
        with temporarily_readable(directory), scan_directory(directory) as (found, _):
            return [directory / entry.name for entry in found]


def plan_undo(
    changes: list[JournalChange],
    tree: PlannedTree,
    content: ContentLookup,
    *,
    force: bool = False,
    begun: Iterable[JournalChange] = (),
    resuming: bool = True,
) -> UndoPlan:
    """Plan the undo of these changes. `begun`: interrupted moves; `resuming`: this call continues them."""
    steps: dict[str, PathStep] = {}
    conflicts: list[str] = []
    shared: list[str] = []
    interrupted = {move.path: move for move in begun}
    for path, own in by_path(changes).items():
        try:
            now, held = tree.state(path)
        except OSError:  # unreadable: leave it
            conflicts.append(path)
            continue
        move = interrupted.get(path)
        done = _completed(move, now) if resuming else None
        ended = done or _walk_back(_runs(own), *_settled_state(move, now, held), content)
        step = _step(path, now, ended or (own[0].before, None, False), content)
        if any(change.shared for change in own) and not (step and step.is_noop):
            shared.append(path)
        elif ended is None or step is None:
            conflicts.append(path)
        steps[path] = step or PathStep(path, now, now, held)
    _add_missing_directories(steps, tree)
    kept = _keep_nonempty(steps, tree)
    blocked = [path for path in steps if _is_blocked(steps[path], steps, tree)]
    if force:
        for path in blocked:
            steps[path] = _unchanged(steps[path])
        # Unreadable, or the old content is lost: force does not help.
        refused = [path for path in (*conflicts, *shared) if path not in blocked]
        unrecoverable = [path for path in refused if path not in steps or steps[path].is_noop]
        left = [*kept, *blocked, *(path for path in unrecoverable if path not in kept)]
        return UndoPlan(steps, [path for path in conflicts if path not in left], left, shared)
    blocked = [path for path in blocked if path not in conflicts and path not in shared]
    return UndoPlan(steps, [*conflicts, *blocked], kept, shared)


def _add_missing_directories(steps: dict[str, PathStep], tree: PlannedTree) -> None:
    """Add steps for missing parent directories of restored paths, so that redo removes them again."""
    for step in [step for step in steps.values() if not step.is_noop and not step.goal.absent]:
        for parent in map(text_of, decoded_path(step.path).parents):
            known = steps.get(parent)
            left_missing = known is not None and known.is_noop and known.goal.absent
            if not left_missing and (known is not None or not _missing(parent, tree)):
                break
            steps[parent] = PathStep(parent, PathState(), PathState(None, _DEFAULT_DIR_MODE, "folder"))


def _missing(path: str, tree: PlannedTree) -> bool:
    try:
        return tree.state(path)[0].absent
    except OSError:
        return False


def _completed(move: JournalChange | None, now: PathState) -> Result | None:
    """The result where an interrupted undo has already moved this path."""
    if move is None or not now.same(move.after) or now.kind == "folder":
        return None
    return (now, None, False) if now.mode == move.after.mode else None


def is_intermediate(move: JournalChange, now: PathState) -> bool:
    """Whether `now` is an intermediate state of the move, or of its way back: a path that changes its kind is
    absent in between, and a directory is writable while it is filled."""
    of_another_kind = move.before.kind != move.after.kind
    if now.absent:
        return of_another_kind and not move.before.absent and not move.after.absent
    goals = (move.after,) if now == move.before else (move.after, move.before)
    return now.kind == "folder" and any(
        goal.kind == "folder" and (of_another_kind or now.mode == goal.mode | 0o700) for goal in goals
    )


def _settled_state(move: JournalChange | None, now: PathState, held: bytes) -> tuple[PathState, bytes | None]:
    """Treat an intermediate state as the end of the move."""
    return (move.after, None) if move is not None and is_intermediate(move, now) else (now, held)


def by_path(changes: Iterable[JournalChange]) -> dict[str, list[JournalChange]]:
    """The changes of each path in order, created directories included."""
    found: dict[str, list[JournalChange]] = {}
    for change in changes:
        for directory in change.made:
            found.setdefault(directory, []).append(
                JournalChange(directory, PathState(), PathState(None, 0, "folder"))
            )
        if not change.lost:
            found.setdefault(change.path, []).append(change)
    return found


def reverted_since(changes: Iterable[JournalChange], later: Iterable[JournalChange]) -> set[str]:
    """Paths that were back at their state before `changes` since: what they hold now is someone else's."""
    seen: dict[str, list[PathState]] = {}
    for change in later:
        seen.setdefault(change.path, []).extend((change.before, change.after))
    return {
        path
        for path, own in by_path(changes).items()
        if not own[0].before.same(own[-1].after)
        and any(own[0].before.same(state) for state in seen.get(path, ()))
    }


def _runs(changes: list[JournalChange]) -> list[list[PathState]]:
    """States of the path in runs of consecutive changes, split where someone else changed it in between."""
    runs: list[list[PathState]] = []
    for change in changes:
        if runs and runs[-1][-1].same(change.before):
            runs[-1].append(change.after)
        else:
            runs.append([change.before, change.after])
    return runs


def _walk_back(
    runs: list[list[PathState]], now: PathState, held: bytes | None, content: ContentLookup
) -> Result | None:
    """From the current state to before the first run, through any state of a run; None on conflict."""
    state, current, merged = now, held if now.blob is not None else None, False
    at = len(runs)
    while at:
        before, after = runs[at - 1][0], runs[at - 1][-1]
        own = next(
            ((n, one) for n in reversed(range(at)) if (one := _newest_match(state, runs[n][1:]))), None
        )
        begun = next((n for n in range(at) if runs[n][0].same(state)), -1)
        if own is not None:
            before = runs[own[0]][0]
            state, current, at = _with_mode(before, state, own[1], before), None, own[0]
        elif begun >= 0:  # reverted already, or never changed
            state, at = _with_mode(state, state, after, runs[begun][0]), begun
        elif before.same(after):
            state, at = _with_mode(state, state, after, before), at - 1
        else:
            result = _merged(before, after, state, current, content)
            if result is None:
                return None
            state = _with_mode(PathState(content_digest(result), state.mode), state, after, before)
            current, merged, at = result, True, at - 1
    return state, current, merged


def _newest_match(state: PathState, states: list[PathState]) -> PathState | None:
    """The newest of `states` with this content, preferably with the same permission bits."""
    same = [one for one in reversed(states) if one.same(state)]
    return next((one for one in same if one.mode == state.mode), same[0] if same else None)


def _with_mode(goal: PathState, state: PathState, after: PathState, before: PathState) -> PathState:
    """`goal` with the mode of `before`, unless the mode was changed since."""
    one_missing = goal.absent or state.absent or before.absent
    if one_missing or goal.kind == "link" or before.kind != state.kind:
        return goal
    # 0: unknown, since the umask applied
    as_left = after.kind == state.kind and not after.absent and after.mode in (state.mode, 0)
    return PathState(goal.blob, before.mode if as_left else state.mode, goal.kind)


def _merged(
    before: PathState, after: PathState, now: PathState, held: bytes | None, content: ContentLookup
) -> bytes | None:
    if any(side.kind != "file" or side.blob is None for side in (before, after, now)):
        return None
    base, theirs = content(after.blob or ""), content(before.blob or "")
    ours = held if held is not None else content(now.blob or "")
    if base is None or ours is None or theirs is None or len(ours) > MERGED_BYTES:
        return None
    return three_way(base, ours, theirs)


def _step(path: str, now: PathState, ended: Result, content: ContentLookup) -> PathStep | None:
    """None if the content to restore is lost."""
    goal, held, merged = ended
    if goal.kind == "other":  # FIFOs and sockets cannot be restored
        return PathStep(path, now, now)
    if held is None and goal.blob is not None:
        held = content(goal.blob)
        if held is None:
            return None
    return PathStep(path, now, goal, held or b"", merged)


def _unchanged(step: PathStep) -> PathStep:
    return msgspec.structs.replace(step, goal=step.now, merged=False)


def _keep_nonempty(steps: dict[str, PathStep], tree: PlannedTree) -> list[str]:
    """Keep directories that would not be empty. Innermost first."""
    kept = []
    for path in sorted(steps, reverse=True):
        step = steps[path]
        if step.now.kind == "folder" and step.goal.absent and _has_leftovers(path, steps, tree):
            steps[path] = _unchanged(step)
            kept.append(path)
    return kept


def _has_leftovers(directory: str, steps: dict[str, PathStep], tree: PlannedTree) -> bool:
    try:
        inside = tree.inside(directory)
    except OSError:
        return True
    return any(path not in steps or not steps[path].goal.absent for path in inside)


def _is_blocked(step: PathStep, steps: dict[str, PathStep], tree: PlannedTree) -> bool:
    """Whether a parent is no longer a directory, or the path is now a directory with other contents."""
    if step.is_noop:
        return False
    for parent in decoded_path(step.path).parents:
        above = steps.get(text_of(parent))
        if above is not None and above.goal.kind == "folder":
            continue
        try:
            held = tree.state(text_of(parent))[0]
        except OSError:
            return True
        if held.kind != "folder" and not held.absent:
            return True
    if step.now.kind == "folder" and step.goal.kind != "folder" and not step.goal.absent:
        return _has_leftovers(step.path, steps, tree)
    return False


def three_way(base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
    """`ours` with the change from `base` to `theirs`; None on conflict or for binary content."""
    if any(b"\0" in side for side in (base, ours, theirs)):
        return None
    # Latin-1 round-trips every byte, whatever the real encoding.
    old, mine, other = (split_lines(side.decode("latin-1")) for side in (base, ours, theirs))
    left, right = line_blocks(old, mine), line_blocks(old, other)
    merged: list[str] = []
    at = 0
    while left or right:
        if _same(left, right, mine, other):
            left.pop(0)
            block, lines = right.pop(0), other
        elif left and right and _touch(left[0], right[0]):
            return None
        elif not right or (left and left[0][0] < right[0][0]):
            block, lines = left.pop(0), mine
        else:
            block, lines = right.pop(0), other
        start, end, new_start, new_end = block
        merged += old[at:start]
        merged += lines[new_start:new_end]
        at = end
    merged += old[at:]
    return "".join(merged).encode("latin-1")


def _same(left: list[DiffBlock], right: list[DiffBlock], mine: list[str], other: list[str]) -> bool:
    if not (left and right):
        return False
    (a, b, c, d), (e, f, g, h) = left[0], right[0]
    return (a, b) == (e, f) and mine[c:d] == other[g:h]


def _touch(left: DiffBlock, right: DiffBlock) -> bool:
    """Overlapping or adjacent: neighbouring lines often belong together."""
    return left[0] <= right[1] and right[0] <= left[1]
