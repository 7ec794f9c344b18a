"""What an undo would do, worked out before anything is touched.

For each path the turn's changes are laid end to end: those that follow on from one another are one change,
from what the path held first to what it held last. Where it still holds the last, it gets the first back.
Where a person has changed it since, the turn's change is merged out of theirs by lines; where that is not
clean, the path is in conflict. What may be the doing of somebody else altogether is left as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from coder.record.undo.apply import PathState, Step, digest, path_of, state_of, temporarily_readable, text_of

MERGED_BYTES = 1 << 20  # of a file whose later state is kept too, so that a change can be merged out of it
Content = Callable[[str], bytes | None]  # kept bytes by their digest
Result = tuple[
    PathState, bytes | None, bool
]  # what a path would hold, its bytes, and whether lines were merged


_DEFAULT_DIR_MODE = 0o755  # of a folder of which nothing else is known
KILLED = "/killed"  # no session is called so: a command was killed with its session, this may have come after


class Change(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of a turn's manifest. `made`: folders that did not exist before. `at`: when it was journalled
    (nanoseconds). `doubt`: whose doing it may be instead, the id of a session or `KILLED`."""

    path: str
    before: PathState
    after: PathState
    made: list[str] = []
    lost: bool = False  # what the path held was not kept: it can only be named
    by_tool: bool = False  # so that nobody else can have made it
    at: int = 0
    doubt: str = ""


class Plan(msgspec.Struct, frozen=True):
    """One step a path; the paths where someone's later change stands in the way; those that are left as they
    are, because a folder holds something else by now, or because force does not help there; and those that
    would change, but may be somebody else's doing."""

    steps: dict[str, Step]
    conflicts: list[str]
    kept: list[str]
    doubtful: dict[str, str] = {}

    @property
    def nothing_to_do(self) -> bool:
        return all(step.is_noop for step in self.steps.values())


class PlannedTree:
    """What paths hold: on the disk, or there as the steps taken so far in thought would leave it."""

    def __init__(self) -> None:
        self._planned: dict[str, tuple[PathState, bytes]] = {}

    def apply(self, steps: Iterable[Step]) -> None:
        self._planned |= {step.path: (step.goal, step.content) for step in steps if not step.is_noop}

    def state(self, text: str) -> tuple[PathState, bytes]:
        """Raises OSError where the path is closed to us."""
        found = self._planned.get(text)
        if found is not None:
            return found
        path = path_of(text)
        if self._planned and self._parent_replaced(path):
            return PathState(), b""
        return state_of(path)

    def _parent_replaced(self, path: Path) -> bool:
        """Whether a folder above would be gone, or be another one than now."""
        for parent in path.parents:
            above = self._planned.get(text_of(parent))
            if above is not None:
                return above[0].kind != "folder" or state_of(parent)[0].kind != "folder"
        return False

    def inside(self, folder: str) -> list[str]:
        """The entries of a folder."""
        found = {path: None for path in self._planned if path.rpartition("/")[0] == folder}
        if state_of(path_of(folder))[0].kind == "folder":
            found |= dict.fromkeys(map(text_of, _listed(path_of(folder))))
        return [path for path in found if path not in self._planned or not self.state(path)[0].absent]


def _listed(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except PermissionError:
        with temporarily_readable(folder):
            return list(folder.iterdir())


def plan(
    changes: list[Change],
    tree: PlannedTree,
    content: Content,
    *,
    force: bool = False,
    begun: Iterable[Change] = (),
    resuming: bool = True,
) -> Plan:
    """How to get back to before these changes. With `force` a conflict is a step like any other, and so is a
    doubt. `begun`: what one that was cut off was about to do; `resuming`: this is the same one again."""
    steps: dict[str, Step] = {}
    conflicts: list[str] = []
    doubtful: dict[str, str] = {}
    interrupted = {move.path: move for move in begun}
    for path, own in by_path(changes).items():
        try:
            now, held = tree.state(path)
        except OSError:  # closed to us: whatever it holds now, it stays
            conflicts.append(path)
            continue
        move = interrupted.get(path)
        done = _completed(move, now) if resuming else None
        ended = done or _walk_back(_runs(own), *_settled_state(move, now, held), content)
        step = _step(path, now, ended or (own[0].before, None, False), content)
        doubt = next((change.doubt for change in own if change.doubt), "")
        if doubt and not (step and step.is_noop):
            doubtful[path] = doubt
            if not force:
                steps[path] = Step(path, now, now, held)
                continue
        if ended is None or step is None:
            conflicts.append(path)
        steps[path] = step or Step(path, now, now, held)
    _add_missing_folders(steps, tree)
    doubtful = {path: doubt for path, doubt in doubtful.items() if force or steps[path].is_noop}
    kept = _keep_nonempty(steps, tree)
    blocked = [path for path in steps if _is_blocked(steps[path], steps, tree)]
    if force:
        for path in blocked:
            steps[path] = _unchanged(steps[path])
        # Closed to us, or what it held is not there any more: force does not help.
        unrecoverable = [path for path in conflicts if path not in blocked and _is_unchanged(path, steps)]
        left = [*kept, *blocked, *(path for path in unrecoverable if path not in kept)]
        return Plan(steps, [path for path in conflicts if path not in left], left, doubtful)
    return Plan(steps, conflicts + [path for path in blocked if path not in conflicts], kept, doubtful)


def _is_unchanged(path: str, steps: dict[str, Step]) -> bool:
    return path not in steps or steps[path].is_noop


def _add_missing_folders(steps: dict[str, Step], tree: PlannedTree) -> None:
    """What comes back may have been in a folder that somebody has taken away since: that one is a step as
    well, so that redo takes it away again."""
    for step in [step for step in steps.values() if not step.is_noop and not step.goal.absent]:
        for parent in map(text_of, path_of(step.path).parents):
            known = steps.get(parent)
            left_missing = known is not None and known.is_noop and known.goal.absent
            if not left_missing and (known is not None or not _missing(parent, tree)):
                break
            steps[parent] = Step(parent, PathState(), PathState(None, _DEFAULT_DIR_MODE, "folder"))


def _missing(path: str, tree: PlannedTree) -> bool:
    try:
        return tree.state(path)[0].absent
    except OSError:
        return False


def _completed(move: Change | None, now: PathState) -> Result | None:
    """Where a cut-off undo has put this path already; lines that it merged cannot be told from now alone."""
    if move is None or not now.same(move.after) or now.kind == "folder":
        return None
    return (now, None, False) if now.mode == move.after.mode else None


def is_intermediate(move: Change, now: PathState) -> bool:
    """Whether a path is what it is only for a moment, while it is being moved: what becomes something of
    another kind is not there, and a folder has other bits while it is being filled."""
    of_another_kind = move.before.kind != move.after.kind
    if now.absent:
        return of_another_kind and not move.before.absent and not move.after.absent
    filled = of_another_kind or now.mode == move.after.mode | 0o700
    return now.kind == move.after.kind == "folder" and filled


def _settled_state(move: Change | None, now: PathState, held: bytes) -> tuple[PathState, bytes | None]:
    """What a path is on the way is nobody's doing: it counts as where it was to go."""
    return (move.after, None) if move is not None and is_intermediate(move, now) else (now, held)


def by_path(changes: Iterable[Change]) -> dict[str, list[Change]]:
    """The changes of each path in their order; folders that were made are paths too."""
    found: dict[str, list[Change]] = {}
    for change in changes:
        for folder in change.made:
            found.setdefault(folder, []).append(Change(folder, PathState(), PathState(None, 0, "folder")))
        if not change.lost:
            found.setdefault(change.path, []).append(change)
    return found


def _runs(changes: list[Change]) -> list[list[PathState]]:
    """What the path held from one change to the next, in stretches in which nobody else changed it."""
    runs: list[list[PathState]] = []
    for change in changes:
        if runs and runs[-1][-1].same(change.before):
            runs[-1].append(change.after)
        else:
            runs.append([change.before, change.after])
    return runs


def _walk_back(
    runs: list[list[PathState]], now: PathState, held: bytes | None, content: Content
) -> Result | None:
    """From what a path holds now to before the first run; None where that is in conflict.

    A run's own states all lead back to its beginning: not every change that was announced was made.
    """
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
        elif begun >= 0:  # someone has put it back already, or it was never changed
            state, at = _with_mode(state, state, after, runs[begun][0]), begun
        elif before.same(after):
            state, at = _with_mode(state, state, after, before), at - 1
        else:
            result = _merged(before, after, state, current, content)
            if result is None:
                return None
            state = _with_mode(PathState(digest(result), state.mode), state, after, before)
            current, merged, at = result, True, at - 1
    return state, current, merged


def _newest_match(state: PathState, states: list[PathState]) -> PathState | None:
    """The newest of `states` that is the same; with the same permission bits, where one is."""
    same = [one for one in reversed(states) if one.same(state)]
    return next((one for one in same if one.mode == state.mode), same[0] if same else None)


def _with_mode(goal: PathState, state: PathState, after: PathState, before: PathState) -> PathState:
    """`goal` with the permission bits of before, unless someone has set others since."""
    one_missing = goal.absent or state.absent or before.absent
    if one_missing or goal.kind == "link" or before.kind != state.kind:
        return goal
    # 0: what the umask would leave of it was not known beforehand
    as_left = after.kind == state.kind and not after.absent and after.mode in (state.mode, 0)
    return PathState(goal.blob, before.mode if as_left else state.mode, goal.kind)


def _merged(
    before: PathState, after: PathState, now: PathState, held: bytes | None, content: Content
) -> bytes | None:
    if any(side.kind != "file" or side.blob is None for side in (before, after, now)):
        return None
    base, theirs = content(after.blob or ""), content(before.blob or "")
    ours = held if held is not None else content(now.blob or "")
    if base is None or ours is None or theirs is None or len(ours) > MERGED_BYTES:
        return None
    from coder.record.undo.merge import three_way

    return three_way(base, ours, theirs)


def _step(path: str, now: PathState, ended: Result, content: Content) -> Step | None:
    """None where the content that it would go back to is not there any more."""
    goal, held, merged = ended
    if goal.kind == "other":  # a pipe or a socket cannot be made again
        return Step(path, now, now)
    if held is None and goal.blob is not None:
        held = content(goal.blob)
        if held is None:
            return None
    return Step(path, now, goal, held or b"", merged)


def _unchanged(step: Step) -> Step:
    return msgspec.structs.replace(step, goal=step.now, merged=False)


def _keep_nonempty(steps: dict[str, Step], tree: PlannedTree) -> list[str]:
    """A folder that would go, and in which something would be left, stays. The innermost come first."""
    kept = []
    for path in sorted(steps, reverse=True):
        step = steps[path]
        if step.now.kind == "folder" and step.goal.absent and _has_leftovers(path, steps, tree):
            steps[path] = _unchanged(step)
            kept.append(path)
    return kept


def _has_leftovers(folder: str, steps: dict[str, Step], tree: PlannedTree) -> bool:
    try:
        inside = tree.inside(folder)
    except OSError:
        return True
    return any(path not in steps or not steps[path].goal.absent for path in inside)


def _is_blocked(step: Step, steps: dict[str, Step], tree: PlannedTree) -> bool:
    """Whether a folder above has become something else that this undo does not replace, or the path itself a
    folder with more in it than this undo takes away."""
    if step.is_noop:
        return False
    for parent in path_of(step.path).parents:
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
