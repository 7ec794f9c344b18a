"""The sandbox that commands of the model run in: as strong as this machine allows, and said aloud.

The ladder: bubblewrap → Landlock with seccomp → none. Which rung holds is tried out for real, once, and kept.
A rung decides how; what may be touched is the same on all of them (`sandbox_places`).
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, Protocol

import msgspec

from coder.policy.sandbox_bwrap import bwrap_arguments
from coder.policy.sandbox_places import Places, places_for
from coder.texts import Phrase

Rung = Literal["bwrap", "landlock", "none"]
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm", "fd")
_FOLDER = os.path.dirname(__file__)
# The folder comes last on the path: its other modules must not stand in for the standard library's.
_START = "import sys; sys.path.append(sys.argv[1]); from sandbox_launch import main; main()"


class Ended(Protocol):
    """How a command ended, as `tools.process.Outcome` tells it."""

    @property
    def exit_code(self) -> int: ...

    @property
    def stdout(self) -> str: ...

    @property
    def stderr(self) -> str: ...


class SandboxLevel(msgspec.Struct, frozen=True):
    """What holds on this machine. `reason`: why no stronger rung does."""

    rung: Rung = "none"
    program: str = ""
    reason: str = ""
    cuts_network: bool = True
    scopes: bool = False  # the strong rung alone: sockets without a file can be kept out of reach

    def describe(self) -> Phrase:
        """For `doctor`, `/status` and the first use."""
        if self.rung == "none":
            return Phrase("sandbox.level.none", reason=self.reason or "-")
        return Phrase(f"sandbox.level.{self.rung}", program=self.program)


def probe(cache_dir: Path, path: str | None = None) -> SandboxLevel:
    """The strongest rung that works here, tried once and kept in `cache_dir` ($CODER_HOME)."""
    from coder.policy.sandbox_probe import probe as find

    return find(cache_dir, path)


class Sandbox:
    """Puts itself in front of a command: `ToolContext.wrap_command = Sandbox(...).wrap`."""

    def __init__(
        self,
        level: SandboxLevel,
        workspace: Path,
        home: Path,
        *,
        writable: Sequence[str] = (),
        network: bool = True,
        plan: bool = False,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """`home` is $CODER_HOME; `environment` the command's (HOME, PATH and TMPDIR are looked at)."""
        self.level = level
        self.workspace = workspace
        self.home = home
        self.writable = list(writable)
        self.network = network and not plan
        self.plan = plan
        self.environment = os.environ if environment is None else environment

    def places(self, *, git_settings: bool = False) -> Places:
        return places_for(
            self.workspace,
            self.home,
            self.writable,
            self.plan,
            self.environment,
            git_settings=git_settings,
        )

    def scratch(self) -> str:
        """The temporary folder that commands of this workspace share; it outlives them."""
        return self.places().scratch

    def wrap(self, argv: list[str], *, git_settings: bool = False) -> list[str]:
        """The command line that runs `argv` inside. Raises OSError where no temporary folder can be had."""
        places = self.places(git_settings=git_settings)
        if self.level.rung == "bwrap":
            network = self.network or not self.level.cuts_network
            line = [*bwrap_arguments(self.level.program, places, network=network), *argv]
            # It costs the start of an interpreter: spared where there is nothing to keep out of reach.
            return _scoped(line) if network and self.level.scopes and _abstract_sockets() else line
        if not sys.platform.startswith("linux"):
            return argv
        return launcher_line(argv, places, network=self.network, shut_in=self.level.rung == "landlock")

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

    def explain_refusal(self, outcome: Ended) -> Phrase | None:
        """Why the sandbox, and nothing else, made this command fail; None where it did not."""
        if outcome.exit_code == 0 or self.level.rung == "none":
            return None
        from coder.policy.sandbox_refusal import refusal

        return refusal(self, outcome)


def _scoped(line: list[str]) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", _START, _FOLDER, "scoped", *line]


def _abstract_sockets() -> bool:
    """Whether any program here listens on a socket without a file; they go with the network."""
    try:
        with open("/proc/net/unix", "rb") as file:
            return b" @" in file.read()
    except OSError:
        return True


def launcher_line(argv: list[str], places: Places, *, network: bool, shut_in: bool) -> list[str]:
    """`argv` under the launcher. Without `shut_in` it restricts nothing and only ends what is left behind."""
    from marshal import dumps

    # A workspace inside /tmp has neighbours there; then the whole of it cannot be given away.
    own_temp = bool(places.seen_in_temp)
    spec = {
        "cwd": places.workspace,
        "hidden": places.hidden,
        "readable": [places.workspace, *places.readable],
        "writable": [*places.writable, places.scratch, *([] if own_temp else places.temp)],
        "devices": [f"/dev/{name}" for name in _DEVICES],
        "guarded": [*map(_guarded, places.locked), *places.absent] if shut_in else [],
        "temp": places.scratch if shut_in and own_temp else "",
        "network": network,
        "shut_in": shut_in,
    }
    return [sys.executable, "-I", "-S", "-c", _START, _FOLDER, dumps(spec).hex(), *argv]


def _guarded(locked: str) -> str:
    """Of coder's own folder the settings: its record grows while the command runs."""
    return os.path.join(locked, "config.json") if locked.endswith("/.coder") else locked
