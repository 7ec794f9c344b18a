"""Access rules of a sandboxed command as plain paths, independent of the mechanism.

Every backend is built from the same rules: they differ in strength, not in intent."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from coder.base.files import make_private
from coder.base.safe_open import repository_of
from coder.policy.sandbox.caches import Caches, Layer, Overlay, settings_without_credentials, within
from coder.policy.secrets.secret_places import further_homes, own_directories, secrets_in
from coder.policy.workspace import TEMP, scratch_of

if TYPE_CHECKING:
    from coder.policy.network.door import Door


_OCTAL = re.compile(rb"\\([0-7]{3})")
_seen: dict[bytes, list[tuple[bytes, str, str]]] = {}  # the last mount table, parsed


def aliases(paths: Sequence[str]) -> list[str]:
    """Where else each of these real paths can be reached."""
    table = _mounts()
    found = []
    for path in paths:
        # Of two mounts at one path the later one is visible.
        device, root, top = max(
            (mount for mount in table if within(path, [mount[2]])),
            key=lambda mount: len(mount[2]),
            default=(b"", "", ""),
        )
        inner = _join(root, path[len(top.rstrip("/")) :])
        for other, base, point in table:
            if other == device and (base, point) != (root, top) and within(inner, [base]):
                alias = _join(point, inner[len(base.rstrip("/")) :])
                with suppress(OSError):
                    found += [alias] if alias != path and os.path.samefile(alias, path) else []
    return found


def _mounts() -> list[tuple[bytes, str, str]]:
    """Device, root and mount point of each mount, the last first, so that it wins among equals."""
    try:
        with open("/proc/self/mountinfo", "rb") as file:
            text = file.read()
    except OSError:
        return []
    if text not in _seen:
        _seen.clear()
        rows = [line.split(b" ", 5) for line in text.splitlines()]
        _seen[text] = [(row[2], _plain(row[3]), _plain(row[4])) for row in reversed(rows) if len(row) > 5]
    return _seen[text]


def _plain(field: bytes) -> str:
    return os.fsdecode(_OCTAL.sub(lambda match: bytes([int(match[1], 8)]), field))


def _join(directory: str, rest: str) -> str:
    return (directory.rstrip("/") + "/" + rest.strip("/")).rstrip("/") or "/"


_MOST_BYTES = 4096
_TOOL_CACHES = {
    "PYTHONPYCACHEPREFIX": "pycache",
    "MYPY_CACHE_DIR": "mypy",
    "RUFF_CACHE_DIR": "ruff",
    "PYTEST_ADDOPTS": "-o cache_dir={TMPDIR}/pytest",
}
_JAVA_OPTIONS = ("GRADLE_OPTS", "MAVEN_OPTS")
_CLOSED: list[str] = []
_OPEN: list[Path] = []


def close_places(paths: Iterable[str], but: Iterable[Path]) -> None:
    """Hide these from the commands of this process too; `but`: exceptions inside."""
    _CLOSED.extend(paths)
    _OPEN.extend(but)


class AccessRules(msgspec.Struct, frozen=True):
    """Absolute, real paths. `writable` begins with the workspace; empty if nothing may be written."""

    workspace: str
    writable: list[str]
    hidden: list[str]
    readable: list[str]  # exceptions inside `hidden`
    locked: list[str]  # read-only inside the workspace
    absent: list[str]  # must not be created: git would read settings from them
    pinned: list[str]  # directories that contain `locked` ones: must not be moved
    temp: list[str]  # the shared temporary directories, each replaced by `scratch`
    scratch: str  # `TMPDIR` of the workspace's commands
    seen_in_temp: list[str]  # exceptions inside `temp`
    emptied: list[str] = []  # directories that look empty: coder's records
    empty: str = ""  # an empty directory to show in their place
    caches: Caches = Caches()
    in_temp: dict[str, str] = {}  # variables, and what they name below the command's TMPDIR
    replaced: list[tuple[str, str]] = []  # hidden files, and what is shown in their place
    granted: Mapping[str, int] = {}  # those of `writable` that were opened when the person was asked
    staged: Sequence[Staged] = ()


def empty_directory(state: Path) -> str:
    """A directory that nobody can write to; "" if it cannot be made."""
    path = state / "empty"
    try:
        if not path.is_dir():
            make_private(state)
            path.mkdir(mode=0o555)
    except OSError:
        return ""
    return str(path)


class Staged(NamedTuple):
    """A directory outside the workspace that `stage` stands for. `names`: its entries, which the command sees
    but cannot change, each with its target if it is a symlink."""

    directory: str
    stage: str
    names: dict[str, str]
    descriptor: int  # of the directory


class LineAccess(msgspec.Struct, frozen=True):
    """What the person allowed one line beyond the rules for all. `git_settings`: to change the repository's.
    `granted`: existing files and directories outside the workspace that it may write, with descriptors."""

    git_settings: bool = False
    granted: Mapping[str, int] = {}
    staged: Sequence[Staged] = ()
    plain: bool = False  # known commands only, which must be the system's
    caches: bool = True  # package managers may be among its commands
    tool_caches: bool = False  # of a line in plan mode: tools write their caches to its TMPDIR
    door: Door | None = None  # by which alone it reaches the network


ORDINARY = LineAccess()


def places_for(
    workspace: Path,
    home: Path,
    writable: Sequence[str],
    plan: bool,
    environment: Mapping[str, str],
    *,
    readable: Iterable[Path] = (),
    access: LineAccess = ORDINARY,
    nested: Iterable[str] = (),
    layer: Layer | None = None,
    mounts: Callable[[Sequence[Overlay]], bool] | None = None,
    records: Iterable[Path] = (),
    state: Path | None = None,
    locks: bool = True,
) -> AccessRules:
    """The current rules; computed per command, as files come and go. `plan`: read-only. `readable`:
    exceptions inside `home`. `nested`: control files of nested repositories. `layer`: where package managers
    write, in overlays as far as the backend `mounts` them. `records`: coder's own, of which commands see
    nothing. `state`: where files of the sandbox itself are kept. `locks`: the backend can make a part
    read-only."""
    root = os.path.realpath(workspace)
    person = os.path.realpath(environment.get("HOME") or Path.home())
    own = os.path.realpath(home)
    named = [person + one[1:] if one == "~" or one.startswith("~/") else one for one in writable]
    real = dict.fromkeys(os.path.realpath(os.path.join(root, one)) for one in named)
    listed = list(filter(os.path.exists, real))
    temp = [t for t in _temporary(environment) if not within(t, [root, *listed])]
    needed = [root, person, own, *environment.get("PATH", "").split(os.pathsep)]
    locked, pinned, absent = ([], [], []) if plan else _locked(root, access.git_settings)
    shared = None if plan else _repository_outside(root, person, locks=locks)
    if shared is not None:
        locked += [path for path in shared.closed if os.path.lexists(path)]
        settings = (path for path in shared.closed if path.endswith(("/config.worktree", "/commondir")))
        absent += [path for path in settings if not os.path.lexists(path)]
    locked += [path for path in nested if not plan and path not in locked]
    caches = Caches() if layer is None else layer.caches(person, environment, [root, *listed], mounts)
    if layer is not None and not locks:  # nothing is mounted over /tmp, and Java does not look at TMPDIR
        for variable in _JAVA_OPTIONS:
            given = caches.environment.get(variable) or environment.get(variable, "")
            caches.environment[variable] = f"{given} -Djava.io.tmpdir={scratch_of(root)}".lstrip()
    open_to_write = [] if plan else [root, *listed, *access.granted, *caches.moved]
    if shared is not None:
        open_to_write += shared.writable
    shown = [path for path in map(os.path.realpath, [*readable, *_OPEN]) if path not in open_to_write]
    kept = map(os.path.realpath, records)
    return AccessRules(
        workspace=root,
        writable=open_to_write,
        hidden=_hidden(person, own, {root, *listed}),
        readable=[path for path in shown if os.path.isdir(path)],
        locked=locked,
        absent=absent,
        pinned=pinned,
        temp=temp,
        scratch=scratch_of(root),
        seen_in_temp=list(dict.fromkeys(first_below(temp, needed))),
        emptied=[one for one in kept if os.path.isdir(one) and not within(root, [one])],
        empty="" if state is None else empty_directory(state),
        caches=caches,
        in_temp=_TOOL_CACHES if plan and access.tool_caches else {},
        replaced=[] if state is None else settings_without_credentials(person, state),
        granted=access.granted,
        staged=access.staged,
    )


def _hidden(person: str, own: str, kept: set[str]) -> list[str]:
    named = [*secrets_in(person), own, *own_directories(), *_CLOSED]
    for home in further_homes():
        named += secrets_in(home)
    real = dict.fromkeys(os.path.realpath(path) for path in named if os.path.lexists(path))
    real.update(dict.fromkeys(aliases(list(real))))
    return [path for path in real if path not in kept and path != "/" and os.path.exists(path)]


def _locked(root: str, git_settings: bool) -> tuple[list[str], list[str], list[str]]:
    """What controls programs outside the sandbox: git's hooks and settings (which name programs:
    `core.fsmonitor`, `core.hooksPath`), the `.git` file that points to them, coder's own directory."""
    locked, pinned, absent = [], [], []
    named = os.path.join(root, ".git")
    git = os.path.realpath(named)
    if os.path.isfile(named) and not os.path.islink(
        named
    ):  # a worktree or submodule: git's directory is elsewhere
        locked.append(named)
    elif os.path.isdir(git) and within(git, [root]):
        pinned.append(git)
        found = [os.path.join(git, name) for name in ("config", "config.worktree", "commondir")]
        kept = found[1:] if git_settings else found
        locked += [path for path in kept if os.path.isfile(path) and not os.path.islink(path)]
        absent += [path for path in found[1:] if not os.path.lexists(path)]
        hooks = os.path.join(git, "hooks")
        try:
            os.makedirs(hooks, exist_ok=True)
        except OSError:
            hooks = ""
        if hooks and not os.path.islink(hooks):
            locked.append(hooks)
    own = os.path.join(root, ".coder")
    if os.path.isdir(own) and not os.path.islink(own):
        locked.append(own)
    return locked, pinned, absent


class Shared(NamedTuple):
    """What git writes of a repository outside the workspace, and what of that stays closed."""

    writable: list[str]
    closed: list[str]


def _repository_outside(root: str, person: str, *, locks: bool) -> Shared | None:
    """The repository that the workspace is a worktree or a directory of, if it is not the home's. Without
    `locks` the git directory of a plain one stays closed, since git makes files beside its settings."""
    top = os.fspath(repository_of(Path(root)) or root)
    if top != root and within(person, [top]):
        return None
    found = linked_worktree(top, locks=locks)
    git = f"{top}/.git"
    if found is not None or top == root or not locks:
        return found
    if os.path.islink(git) or not os.path.isfile(f"{git}/HEAD"):
        return None
    with suppress(OSError):  # what is missing cannot be closed
        os.makedirs(f"{git}/hooks", exist_ok=True)
    names = ("config", "config.worktree", "commondir", "hooks", "modules", "worktrees")
    return Shared([git], [f"{git}/{name}" for name in names])


def linked_worktree(root: str, *, locks: bool) -> Shared | None:
    """The main repository's part if `root` is one of its worktrees, else None. The main repository must name
    the workspace as its worktree: a project could claim any repository as its own. Without `locks` only its
    objects and branches can be written."""
    try:
        pointer = _first_line(f"{root}/.git", b"gitdir: ")
        own = os.path.realpath(os.path.join(root, pointer))
        back = os.path.realpath(os.path.join(own, _first_line(f"{own}/gitdir")))
        common = os.path.realpath(os.path.join(own, _first_line(f"{own}/commondir")))
    except (OSError, ValueError):
        return None
    if back != f"{root}/.git" or os.path.dirname(own) != f"{common}/worktrees" or within(common, [root]):
        return None
    if not locks:
        parts = [f"{common}/objects", f"{common}/refs", f"{common}/logs", own]
        steering = [f"{own}/commondir", f"{own}/gitdir", f"{own}/config.worktree"]
        return Shared(parts, steering)
    with suppress(OSError):  # what is missing cannot be closed
        os.makedirs(f"{common}/hooks", exist_ok=True)
    names = ("config", "config.worktree", "commondir", "hooks", "HEAD", "index", "modules", "worktrees")
    closed = [f"{common}/{name}" for name in names]
    closed += [f"{own}/{name}" for name in ("commondir", "gitdir", "config.worktree")]
    return Shared([common, own], closed)


def _first_line(path: str, prefix: bytes = b"") -> str:
    """The path in a file of git's. Raises OSError, or ValueError if it holds something else."""
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
        content = file.read(_MOST_BYTES)
    if not content.startswith(prefix) or not content.strip():
        raise ValueError(path)
    return os.fsdecode(content.removeprefix(prefix).rstrip(b"\r\n"))


def _temporary(environment: Mapping[str, str]) -> list[str]:
    named = [*TEMP, environment.get("TMPDIR", "")]
    real = dict.fromkeys(os.path.realpath(path) for path in named if path and os.path.isdir(path))
    return [path for path in real if path != "/"]


def first_below(temp: Sequence[str], needed: Sequence[str]) -> Iterator[str]:
    """For each needed path in a temporary directory, that directory's entry."""
    for path in needed:
        for directory in temp:
            if path and path != directory and within(path, [directory]):
                yield os.path.join(directory, path[len(directory) :].strip("/").split("/")[0])
