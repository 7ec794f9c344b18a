"""The sandbox that commands of the model run in: as strong as this machine allows, and said aloud.

The ladder: bubblewrap → Landlock with seccomp → none; on macOS Seatbelt → none. Which rung holds is tried out
for real, once, and kept. A rung decides how; what may be touched is the same on all (`sandbox_places`).
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from coder.policy.sandbox.bwrap import bwrap_arguments, with_filter
from coder.policy.sandbox.places import AccessRules, places_for
from coder.process.child import Supervised
from coder.texts import Phrase

if TYPE_CHECKING:
    from coder.policy.sandbox.repositories import Repositories, Settled

Rung = Literal["bwrap", "landlock", "seatbelt", "none"]
# Not `pts`: the person's own terminal is there, to be read and written.
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "fd")
_SHARED_MEMORY = "/dev/shm"  # noqa: S108 - what locks between processes are made of, not a file of ours
_FOLDER = os.path.dirname(__file__)
# The folder comes last on the path: its other modules must not stand in for the standard library's.
_START = "import sys; sys.path.append(sys.argv[1]); from launch import main; main()"
_SYSTEM_FOLDERS = (
    "/usr/local/bin",
    "/usr/bin",
    "/bin",
    "/usr/local/sbin",
    "/usr/sbin",
    "/sbin",
    "/run/current-system/sw/bin",
)


class Hitch(msgspec.Struct, frozen=True):
    """Why a rung does not hold: a phrase, in a form that can be kept."""

    key: str
    values: dict[str, str] = {}
    rung: str = ""

    def phrase(self) -> Phrase:
        said = Phrase(self.key, **self.values)
        return Phrase("sandbox.why.of", rung=self.rung, why=said) if self.rung else said


class SandboxLevel(msgspec.Struct, frozen=True):
    """What holds on this machine. `hitches`: why no stronger rung does."""

    rung: Rung = "none"
    program: str = ""
    hitches: tuple[Hitch, ...] = ()
    cuts_network: bool = True
    filters: bool = False  # the strong rung alone: seccomp closes what belongs to no namespace
    connects: bool = False  # and commands have Unix sockets of their own: their connections are made for them

    @property
    def reason(self) -> tuple[Phrase, ...]:
        return tuple(hitch.phrase() for hitch in self.hitches)

    def describe(self) -> Phrase:
        """For `doctor`, `/status` and the first use."""
        if self.rung == "none":
            return Phrase("sandbox.level.none", reason=self.reason or "-")
        return Phrase(f"sandbox.level.{self.rung}", program=self.program)

    def describe_for_model(self, *, network: bool) -> str:
        """One sentence for the prompt."""
        if self.rung == "none":
            return "Commands run without a sandbox."
        online = "the network is on" if network else "the network is off"
        return (
            "Commands run in a sandbox: they write only in the workspace (not in .git/config, .git/hooks, "
            f".coder) and $TMPDIR, secrets of the home folder are hidden, {online}; lines that only read run "
            "unasked, with everything but $TMPDIR read-only and no network."
        )


def probe(cache_dir: Path, path: str | None = None, workspace: Path | str = "/nonexistent") -> SandboxLevel:
    """The strongest rung that works here, tried once and kept in `cache_dir` ($CODER_HOME)."""
    from coder.policy.sandbox.probe import probe as find

    return find(cache_dir, path, workspace)


class Sandbox:
    """Puts itself in front of a command: `ToolContext.wrap_command = Sandbox(...).wrap`."""

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
    ) -> None:
        """`home` is $CODER_HOME, closed but for `readable`; `environment` the command's (HOME, PATH and
        TMPDIR are looked at). `plan`: nothing may be written but a temporary folder that goes with the
        command; no network."""
        self.level = level
        self.workspace = workspace
        self.home = home
        self.writable = list(writable)
        self.readable = list(readable)
        self.network = network and not plan
        self.plan = plan
        self.environment = os.environ if environment is None else environment
        self._repositories: Repositories | None = None

    def places(self, *, git_settings: bool = False) -> AccessRules:
        found = self._repositories
        return places_for(
            self.workspace,
            self.home,
            self.writable,
            self.plan,
            self.environment,
            readable=self.readable,
            git_settings=git_settings,
            # The weaker rung cannot lock: there they are put back, as far as needed, by `settle`.
            nested=found.locked() if found is not None and self.level.rung != "landlock" else (),
        )

    def look(self, repositories: Iterable[str], *, git_settings: bool = False) -> None:
        """Before a command that may change files: the repositories further down in the workspace (each
        `.git`, and folders that may be bare ones). `git_settings` as for `wrap`. `settle` follows."""
        from coder.policy.sandbox.repositories import Repositories

        if self.level.rung == "none":  # what a person let out, or could not keep in, is theirs to allow
            return
        if self._repositories is None:
            self._repositories = Repositories(os.path.realpath(self.workspace))
        self._repositories.look(repositories, settings=git_settings)

    def settle(self, repositories: Iterable[str]) -> Settled:
        """After it: put back what it should not have changed in them, and say what else it left."""
        from coder.policy.sandbox.repositories import Settled

        return Settled() if self._repositories is None else self._repositories.settle(repositories)

    def scratch(self) -> str:
        """The temporary folder that writing commands of this workspace share; it outlives them."""
        return self.places().scratch

    def wrap(self, argv: list[str], *, git_settings: bool = False) -> list[str]:
        """The command line that runs `argv` inside: to be started as it is, for it may be `Mediated`. Raises
        OSError where no temporary folder can be had."""
        places = self.places(git_settings=git_settings)
        path = system_first(self.environment.get("PATH", "")) if self.plan else ""
        if self.level.rung == "bwrap":
            return self._bwrap_line(argv, places, path)
        if self.level.rung == "seatbelt":
            from coder.policy.sandbox.seatbelt import seatbelt_line

            return seatbelt_line(self.level.program, argv, places, network=self.network, path=path)
        if not sys.platform.startswith("linux"):
            return ["/usr/bin/env", f"PATH={path}", *argv] if path else argv
        shut_in = self.level.rung == "landlock"
        return launcher_line(argv, places, network=self.network, shut_in=shut_in, path=path)

    def _bwrap_line(self, argv: list[str], places: AccessRules, path: str) -> list[str]:
        network = self.network or not self.level.cuts_network
        line = [*bwrap_arguments(self.level.program, places, network=network, search=path), *argv]
        if not self.level.filters:
            return line
        if self.plan:
            return with_filter(line, self.home, "none")
        if not self.level.connects:
            return with_filter(line, self.home, "no-unix")
        from coder.policy.sandbox.connect import mediated

        return mediated(with_filter(line, self.home, "unix"))

    def planted(self, absent: Sequence[str]) -> list[str]:
        """Of what was `absent` before a command, what it made: taken away again, and named. The weaker rung
        does this by itself; the strong one can lock only what is there."""
        found = []
        for path in absent if self.level.rung == "bwrap" else ():
            if os.path.lexists(path):
                with contextlib.suppress(OSError):
                    os.unlink(path)
                found.append(path)
        return found

    def note(self, output: str) -> Phrase | None:
        """What holds here that may be behind an error in this output; None where nothing does."""
        if self.level.rung == "none":
            return None
        from coder.policy.sandbox.notes import note

        return note(self, output)


def system_first(path: str) -> str:
    """PATH with the system's folders in front: what a project brings does not stand in for them."""
    folders = [folder for folder in _SYSTEM_FOLDERS if os.path.isdir(folder)]
    return os.pathsep.join(dict.fromkeys([*folders, *filter(os.path.isabs, path.split(os.pathsep))]))


def launcher_line(
    argv: list[str], places: AccessRules, *, network: bool, shut_in: bool, path: str = ""
) -> list[str]:
    """`argv` under the launcher. Without `shut_in` it restricts nothing and only ends what is left behind."""
    from marshal import dumps

    # A workspace inside /tmp has neighbours there; then the whole of it cannot be given away.
    own_temp = bool(places.seen_in_temp)
    read_only = not places.writable
    writable = [*places.writable, places.scratch, _SHARED_MEMORY, *([] if own_temp else places.temp)]
    spec = {
        "cwd": places.workspace,
        "hidden": places.hidden,
        "readable": [places.workspace, *places.readable],
        "writable": [] if read_only else writable,
        "devices": [f"/dev/{name}" for name in _DEVICES],
        "guarded": [*map(_guarded, places.locked), *places.absent] if shut_in else [],
        "temp": places.scratch if shut_in and own_temp else "",
        "fresh": os.path.dirname(places.scratch) if shut_in and read_only else "",
        "path": path,
        "network": network,
        "shut_in": shut_in,
        "read_only": read_only,
    }
    return Supervised([sys.executable, "-I", "-S", "-c", _START, _FOLDER, dumps(spec).hex(), *argv])


def _guarded(locked: str) -> str:
    """Of coder's own folder the settings: its record grows while the command runs."""
    return os.path.join(locked, "config.json") if locked.endswith("/.coder") else locked
