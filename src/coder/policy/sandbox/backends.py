"""The sandbox for the model's commands: the strongest backend that works on this machine.

Linux: bubblewrap, else Landlock with seccomp. macOS: Seatbelt. A capability probe tries each once and caches
the result. A backend decides how; the access rules are the same on all (`places`)."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from coder.base.process.child import Supervised
from coder.base.process.programs import Closeable, HeldLine, Prepared
from coder.policy.sandbox.bubblewrap import bwrap_arguments, can_mount, with_filter
from coder.policy.sandbox.caches import Layer, Overlay, take_layer, within
from coder.policy.sandbox.places import ORDINARY, AccessRules, LineAccess, first_below, places_for
from coder.policy.sandbox.seatbelt import seatbelt_line
from coder.policy.workspace import state_directory
from coder.texts import Text

if TYPE_CHECKING:
    from coder.config.schema import SandboxBackend
    from coder.policy.network.door import Door
    from coder.policy.sandbox.repositories import Repositories, Settled


Backend = Literal["bwrap", "landlock", "seatbelt", "none"]
# Not `pts`: it contains the person's own terminal.
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "fd")
_SHARED_MEMORY = "/dev/shm"  # noqa: S108 - POSIX shared memory and semaphores, not a file of ours
_DIRECTORY = os.path.dirname(__file__)
# Last on the path: its other modules must not shadow the standard library's.
_START = "import sys; sys.path.append(sys.argv[1]); from launch import main; main()"
_SYSTEM_DIRECTORIES = (
    *("/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin"),
    "/run/current-system/sw/bin",
)


class Hitch(msgspec.Struct, frozen=True):
    """Why a backend does not work, as a text in a serializable form."""

    key: str
    values: dict[str, str] = {}
    backend: str = ""

    def text(self) -> Text:
        why = Text(self.key, **self.values)
        return Text("sandbox.why.of", backend=self.backend, why=why) if self.backend else why


class SandboxLevel(msgspec.Struct, frozen=True):
    """What works on this machine. `hitches`: why no stronger backend does."""

    backend: Backend = "none"
    program: str = ""
    hitches: tuple[Hitch, ...] = ()
    cuts_network: bool = True
    filters: bool = False  # bwrap only: seccomp closes what belongs to no namespace
    connects: bool = False  # connections are mediated: of bwrap to Unix sockets, of landlock to a door
    overlays: bool = False  # bwrap only: caches are layered over the person's own
    scopes: bool = False  # landlock only: signals and abstract sockets are confined too (ABI 6)

    @property
    def reason(self) -> tuple[Text, ...]:
        return tuple(hitch.text() for hitch in self.hitches)

    @property
    def has_doors(self) -> bool:
        """Whether a command's network can be limited to a door."""
        cuts = {"bwrap": self.cuts_network, "landlock": self.connects, "seatbelt": True}
        return cuts.get(self.backend, False)

    @property
    def confines(self) -> bool:
        """Whether any command can run read-only here without doing harm."""
        return self.backend in ("bwrap", "seatbelt") or (self.backend == "landlock" and self.scopes)

    def describe(self) -> Text:
        """For `doctor`, `/status` and the first use."""
        if self.backend == "none":
            return Text("sandbox.level.none", reason=self.reason or "-")
        return Text(f"sandbox.level.{self.backend}", program=self.program)


def probe(
    cache_dir: Path,
    path: str | None = None,
    workspace: Path | str = "/nonexistent",
    backend: SandboxBackend = "auto",
) -> SandboxLevel:
    """The strongest backend that works here, or the chosen one; cached in `cache_dir` ($CODER_HOME)."""
    from coder.policy.sandbox.probe import probe as find

    return find(cache_dir, path, workspace, backend)


class Sandbox:
    """Wraps command lines: `ToolContext.wrap_command = Sandbox(...).wrap`."""

    def __init__(
        self,
        level: SandboxLevel,
        workspace: Path,
        home: Path,
        *,
        writable: Sequence[str] = (),
        readable: Sequence[Path] = (),
        network: bool = True,
        plan: bool = False,
        environment: Mapping[str, str] | None = None,
        records: Sequence[Path] = (),
        caches: bool = False,
    ) -> None:
        """`home` is $CODER_HOME, hidden but for `readable`; `environment` the command's (HOME, PATH and
        TMPDIR matter). `plan`: read-only, with a private TMPDIR and no network. `records`: directories that
        look empty. `caches`: package managers may write to theirs."""
        self.level = level
        self.workspace = workspace
        self.home = home
        self.writable = list(writable)
        self.readable = list(readable)
        self.network = network and not plan
        self.plan = plan
        self.environment = os.environ if environment is None else environment
        self.records = list(records)
        self.caches = caches and not plan and level.backend != "none"
        self.unlayered: list[str] = []  # caches over which none could be mounted
        self.state = state_directory(home)
        self._repositories: Repositories | None = None

    def places(self, access: LineAccess = ORDINARY, layer: Layer | None = None) -> AccessRules:
        """What a command may do now."""
        found = self._repositories
        return places_for(
            self.workspace,
            self.home,
            self.writable,
            self.plan,
            self.environment,
            readable=self.readable,
            access=access,
            # Landlock cannot lock: there `settle` restores them.
            nested=found.locked() if found is not None and self.level.backend != "landlock" else (),
            layer=layer,
            mounts=self._can_mount if self.level.overlays else None,
            records=self.records,
            state=self.state,
            locks=self.level.backend != "landlock",
        )

    def _can_mount(self, overlays: Sequence[Overlay]) -> bool:
        """Whether these can be mounted, which not every file system supports; tried once."""
        works = can_mount(self.level.program, tuple(overlays))
        if not works and len(overlays) == 1 and overlays[0].path not in self.unlayered:
            self.unlayered.append(overlays[0].path)
        return works

    def look(self, repositories: Iterable[str], *, git_settings: bool = False) -> None:
        """Snapshot the nested repositories (each `.git`, and directories that may be bare ones) before a
        command that may change files. `git_settings` as for `wrap`. `settle` follows."""
        from coder.policy.sandbox.repositories import Repositories

        if self.level.backend == "none":  # unsandboxed commands may change them
            return
        if self._repositories is None:
            self._repositories = Repositories(os.path.realpath(self.workspace))
        self._repositories.look(repositories, settings=git_settings)

    def settle(self, repositories: Iterable[str]) -> Settled:
        """Afterwards: restore what the command must not change in them, and report what else it left."""
        from coder.policy.sandbox.repositories import Settled

        return Settled() if self._repositories is None else self._repositories.settle(repositories)

    def scratch(self) -> str:
        """The scratch directory of this workspace; it outlives the commands."""
        return self.places().scratch

    def wrap(self, argv: list[str], access: LineAccess = ORDINARY) -> list[str]:
        """The command line that runs `argv` in the sandbox. Do not start a copy: it may be `Prepared`. Raises
        OSError if there is no temporary directory."""
        cached = self.caches and access.caches
        layer = take_layer(self.state, os.path.realpath(self.workspace)) if cached else None
        door = access.door
        line = self._line(argv, self.places(access, layer), door, plain=access.plain)
        if layer is None and door is None and not access.granted:
            return line
        held = line if isinstance(line, HeldLine) else Prepared(line)
        held.held = Held(one for one in (layer, door) if one is not None)
        held.descriptors = (*access.granted.values(), *(door.descriptors if door is not None else ()))
        return held

    def _line(self, argv: list[str], places: AccessRules, door: Door | None, *, plain: bool) -> list[str]:
        # Without a sandbox nothing but PATH keeps a project's programs out of unasked lines.
        unconfined = self.plan and self.level.backend == "none"
        path = system_first(self.environment.get("PATH", "")) if unconfined or plain else ""
        if self.level.backend == "bwrap":
            return self._bwrap_line(argv, places, path, door)
        if self.level.backend == "seatbelt":
            return seatbelt_line(self.level.program, argv, places, network=self.network, path=path, door=door)
        if not sys.platform.startswith("linux"):
            return ["/usr/bin/env", f"PATH={path}", *argv] if path else argv
        shut_in = self.level.backend == "landlock"
        if door is None and (self.network or self.plan or not self.level.connects):
            return launcher_line(argv, places, network=self.network, shut_in=shut_in, path=path)
        from coder.policy.sandbox.connect import TcpRule, mediated

        variables = {} if door is None else door.variables
        line = launcher_line(argv, places, network="door", shut_in=True, path=path, variables=variables)
        if door is None:
            return mediated(line, TcpRule(frozenset()))
        return mediated(line, TcpRule(door.rules.local | {door.port}, door.saw_bypass))

    def _bwrap_line(self, argv: list[str], places: AccessRules, path: str, door: Door | None) -> list[str]:
        before = bwrap_arguments(
            self.level.program,
            places,
            network=door is None and (self.network or not self.level.cuts_network),
            variables={} if door is None else door.variables,
            filtered=self.plan and self.level.filters,
            search=path,
            by_descriptor=self.level.overlays,  # both came with 0.11, or earlier
        )
        line = [*before, *(argv if door is None else door.inside(argv))]
        if not self.level.filters:
            return line
        if self.plan:
            return with_filter(line, self.state, "none")
        if not self.level.connects:
            return with_filter(line, self.state, "no-unix")
        from coder.policy.sandbox.connect import TcpRule, mediated

        tcp = None if door is None else TcpRule(None, door.saw_bypass)
        return mediated(with_filter(line, self.state, "unix"), tcp)

    def planted(self, absent: Sequence[str]) -> list[str]:
        """Remove and return those of the `absent` paths that a command has created. Landlock does this by
        itself; bwrap can only lock existing files."""
        found = []
        for path in absent if self.level.backend == "bwrap" else ():
            if os.path.lexists(path):
                with contextlib.suppress(OSError):
                    os.unlink(path)
                found.append(path)
        return found

    def note(self, output: str, written: Iterable[str] = ()) -> Text | None:
        """A rule of the sandbox that may explain an error in this output, or None. `written`: paths that the
        line names to write."""
        return None if self.level.backend == "none" else note(self, output, written)


class Held(list[Closeable]):
    """What a line uses while it runs."""

    def close(self) -> None:
        for one in self:
            one.close()


@cache
def system_first(path: str) -> str:
    """PATH with the system directories first, so that a project cannot shadow their programs."""
    directories = [directory for directory in _SYSTEM_DIRECTORIES if os.path.isdir(directory)]
    return os.pathsep.join(dict.fromkeys([*directories, *filter(os.path.isabs, path.split(os.pathsep))]))


def launcher_line(
    argv: list[str],
    places: AccessRules,
    *,
    network: bool | Literal["door"],
    shut_in: bool,
    path: str = "",
    variables: Mapping[str, str] | None = None,
) -> list[str]:
    """`argv` under the launcher. Without `shut_in` it restricts nothing and only kills leftover processes.
    `variables`: of its environment."""
    from marshal import dumps

    read_only = not places.writable
    writable = [*places.writable, places.scratch, _SHARED_MEMORY]
    # Rules on files below cannot take back what one on the workspace grants, so records stay readable to
    # commands that may create files in it.
    emptied = places.emptied if read_only else []
    environment = dict(places.caches.environment)
    if npmrc := next((copy for path, copy in places.replaced if path.endswith("/.npmrc")), ""):
        environment["npm_config_userconfig"] = npmrc
    spec = {
        "cwd": places.workspace,
        "hidden": places.hidden,
        "emptied": emptied,
        "readable": [places.workspace, *places.readable, *environment.values()],
        "environment": {**environment, **(variables or {})},
        "in_temp": places.in_temp,
        "writable": [] if read_only else writable,
        "granted": {path: _identity(os.fstat(opened)) for path, opened in places.granted.items()},
        "devices": [f"/dev/{name}" for name in _DEVICES],
        "guarded": [*map(_guarded, places.locked), *places.absent] if shut_in else [],
        "temp": places.scratch if shut_in else "",
        "fresh": os.path.dirname(places.scratch) if shut_in and read_only else "",
        "path": path,
        "filter": _weak_filter(network, read_only) if shut_in else b"",
        "shut_in": shut_in,
    }
    return Supervised([sys.executable, "-I", "-S", "-c", _START, _DIRECTORY, dumps(spec).hex(), *argv])


@cache
def _weak_filter(network: bool | Literal["door"], read_only: bool) -> bytes:
    """Made here, once: the launcher starts for every command."""
    from coder.policy.sandbox.launch import landlock_abi
    from coder.policy.sandbox.seccomp import weak_filter

    return weak_filter(network=network, read_only=read_only, truncates=landlock_abi() >= 3)


def _identity(info: os.stat_result) -> tuple[int, int]:
    return info.st_dev, info.st_ino


def _guarded(locked: str) -> str:
    """Only the settings of `.coder`: its record grows while the command runs."""
    return os.path.join(locked, "config.json") if locked.endswith("/.coder") else locked


_LINES, _WIDTH = 400, 2000  # of the end of an output, where errors are
_READ_ONLY = r"read-only file system|\bEROFS\b"
_NO_NETWORK = re.compile(
    r"could not resolve|name resolution|name or service not known|network is unreachable"
    r"|socket: operation not|failed to establish a new connection|no address associated"
    r"|connection refused|\bEAI_AGAIN\b|\bENETUNREACH\b|\bECONNREFUSED\b",
    re.I,
)
_REFUSED = re.compile(
    rf"{_READ_ONLY}|permission denied|operation not permitted|device or resource busy"
    r"|\bE(?:ACCES|PERM|BUSY)\b",
    re.I,
)
# A path in an error: in quotes, with a slash, or between colons.
_PATH = re.compile(
    r"['\"`‘“]([^'\"`’”\n]+)['\"`’”]|(?:^|[\s:=(\[])(~?[\w.@+-]*/[^\s:'\"`()\[\],;]*)|(?:^|: )([^:\s]+)(?=: )"
)


def note(sandbox: Sandbox, output: str, written: Iterable[str] = ()) -> Text | None:
    """The rule in question, or None. `written`: paths that the line names to write."""
    lines = [line[:_WIDTH] for line in output[-200_000:].splitlines()[-_LINES:]]
    offline = not sandbox.network and any(map(_NO_NETWORK.search, lines))
    if sandbox.plan:
        # Only a read-only mount gives EROFS; other backends give EACCES or EPERM.
        words = re.compile(_READ_ONLY, re.I) if sandbox.level.backend == "bwrap" else _REFUSED
        return Text("sandbox.note.reading") if offline or any(map(words.search, lines)) else None
    places = sandbox.places()
    home = sandbox.environment.get("HOME", "")
    for line in filter(_REFUSED.search, lines):
        for path in _named(line, places, home):
            if within(path, places.hidden):
                return Text("sandbox.note.secret", path=path)
            if within(path, places.locked):
                return Text("sandbox.note.locked", path=path)
            if _closed(path, places):
                return _not_written(path, home)
    if path := next((path for path in written if _closed(path, places)), ""):
        return _not_written(path, home)
    return Text("sandbox.note.network") if offline else None


def _not_written(path: str, home: str) -> Text:
    """With the directory to open, which is not the home itself: of `~/.npm/_cacache/tmp/x` it is `~/.npm`."""
    person = os.path.realpath(home)
    below = os.path.relpath(path, person).split("/") if home and within(path, [person]) else []
    depth = {".config": 2, ".cache": 2, ".local": 3}.get(below[0], 1) if below else 1
    directory = "/".join(["~", *below[:depth]]) if len(below) > depth else ""
    if not below:
        directory = os.path.dirname(path)
    return Text("sandbox.note.write", path=path, directory=f'["{directory or "…"}"]')


def _closed(path: str, places: AccessRules) -> bool:
    """Whether only the sandbox prevents writing this."""
    if within(path, [*places.writable, places.scratch, "/proc", "/dev", "/sys"]):
        return False
    if within(path, places.temp) and not within(path, places.seen_in_temp):
        return False
    while not os.path.lexists(path):
        path = os.path.dirname(path)
    return os.access(path, os.W_OK)


def _named(line: str, places: AccessRules, home: str) -> Iterator[str]:
    for match in reversed(list(_PATH.finditer(line))):  # the program's name comes first
        text = next(filter(None, match.groups()))
        if "\0" in text:
            continue
        text = os.path.normpath(home + text[1:] if text.startswith("~/") else text)
        # After a `cd`, `.git/config` may be a nested repository's.
        locked = (path for path in places.locked if not os.path.isabs(text) and path.endswith(f"/{text}"))
        yield next(locked, os.path.realpath(os.path.join(places.workspace, text)))


_EXCLUDED = (".git", ".coder")


class LongSandbox(Sandbox):
    """Locks all of `.git`, unless granted: a lock on git's settings is lost when the person's git replaces
    the file, and nothing checks the repository between calls."""

    _named: Sequence[str] = ()

    def wrap(self, argv: list[str], access: LineAccess = ORDINARY) -> list[str]:
        self._named = [word for word in argv if os.path.isabs(word) and os.path.exists(word)]
        return super().wrap(argv, access)

    def places(self, access: LineAccess = ORDINARY, layer: Layer | None = None) -> AccessRules:
        found = super().places(access, layer)
        # The person named the program and its files, so they are visible.
        seen = dict.fromkeys([*found.seen_in_temp, *first_below(found.temp, self._named)])
        found = msgspec.structs.replace(found, seen_in_temp=list(seen))
        if self.level.backend == "landlock":
            return self._without_locks(found)
        git = [directory for directory in found.pinned if directory not in found.writable]
        return msgspec.structs.replace(found, locked=[*found.locked, *git])

    def _without_locks(self, found: AccessRules) -> AccessRules:
        """Landlock cannot lock, and restoring files when the server ends would undo the person's own changes:
        so the server may write the workspace's existing entries except `.git` and `.coder`. Writing all of it
        (new files at the top) must be granted."""
        root, *granted = found.writable
        if root in granted:
            return found
        with os.scandir(root) as entries:
            inside = [one.path for one in entries if not one.is_symlink() and one.name not in _EXCLUDED]
        return msgspec.structs.replace(found, writable=[*inside, *granted], locked=[], absent=[], pinned=[])
