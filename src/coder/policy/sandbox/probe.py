"""Capability probe: which backend of the sandbox works here, tried for real and cached.

Lazy: the first command that needs it pays, once per kernel, user and program."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING

import msgspec

from coder.base.files import make_private, write_durably
from coder.base.process.programs import DEVNULL, PIPE, Runs, TimeoutExpired, start
from coder.policy.sandbox.backends import Hitch, Sandbox, SandboxLevel, launcher_line
from coder.policy.sandbox.bubblewrap import find_bwraps
from coder.policy.sandbox.caches import remove_tree
from coder.policy.sandbox.seatbelt import PROGRAM
from coder.policy.secrets.secret_places import HOME_SECRETS
from coder.policy.workspace import state_directory

if TYPE_CHECKING:
    from coder.config.schema import SandboxBackend

_FILE = "sandbox.json"
_SECONDS = 10
_SECRET = "probe-secret"  # noqa: S105 - a decoy for the probe, not a password
# Kernel settings that disable user namespaces at run time.
_SWITCHES = (
    "/proc/sys/user/max_user_namespaces",
    "/proc/sys/kernel/unprivileged_userns_clone",
    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
)
_TRIAL = 'echo in > "$1/in" || exit 9; echo out > "$2/out"; cat "$2/$3/key"; exit 0'
# A Unix socket in the workspace must accept a connection; or coder is asked about one by TCP, and refuses it.
_CONNECTING = {
    "bwrap": (
        "import _socket as s; a = s.socket(1); a.bind('in.sock'); a.listen(); s.socket(1).connect('in.sock')"
    ),
    "landlock": "import _socket as s; raise SystemExit(s.socket().connect_ex(('192.0.2.1', 1)) != 101)",
}


class _Cached(msgspec.Struct, frozen=True):
    """The cached result and the key it is valid for."""

    key: list[str]
    level: SandboxLevel


def probe(
    cache_dir: Path,
    path: str | None = None,
    workspace: Path | str = "/nonexistent",
    backend: SandboxBackend = "auto",
) -> SandboxLevel:
    """The strongest backend that works here, or the chosen one. `cache_dir`: $CODER_HOME. `path`: where to
    find `bwrap`, never in the workspace."""
    if sys.platform != "darwin" and not sys.platform.startswith("linux"):
        return SandboxLevel(hitches=(Hitch("sandbox.why.system", {"system": sys.platform}),))
    programs = [] if backend == "landlock" else _programs(path, workspace)
    cache_dir = state_directory(cache_dir)
    if (known := _cached_level(cache_dir, programs, backend)) is not None:
        return known
    level = _strongest(programs, cache_dir, backend)
    with contextlib.suppress(OSError):
        make_private(cache_dir)
        write_durably(cache_dir / _FILE, msgspec.json.encode(_Cached(_key(programs, backend), level)))
    return level


def kept(
    cache_dir: Path, path: str | None, workspace: Path | str, backend: SandboxBackend = "auto"
) -> SandboxLevel | None:
    """The cached result if it is still valid, else None."""
    programs = [] if backend == "landlock" else _programs(path, workspace)
    return _cached_level(state_directory(cache_dir), programs, backend)


def _programs(path: str | None, workspace: Path | str) -> list[str]:
    if sys.platform == "darwin":
        return [PROGRAM] if os.access(PROGRAM, os.X_OK) else []
    return find_bwraps(os.environ.get("PATH", "") if path is None else path, workspace)


def _cached_level(cache_dir: Path, programs: list[str], backend: SandboxBackend) -> SandboxLevel | None:
    try:
        found = msgspec.json.decode((cache_dir / _FILE).read_bytes(), type=_Cached)
    except (OSError, msgspec.DecodeError):
        return None
    return found.level if found.key == _key(programs, backend) else None


def forget(cache_dir: Path) -> None:
    """Invalidate the cache, for example after a backend has failed."""
    (cache_dir / _FILE).unlink(missing_ok=True)


def _key(programs: list[str], backend: SandboxBackend) -> list[str]:
    key = ["8", backend, os.uname().release, os.uname().machine, str(os.getuid()), *programs]
    key += [str(Path(program).stat().st_mtime_ns) for program in programs]
    for switch in _SWITCHES:
        try:
            key.append(Path(switch).read_text(encoding="ascii").strip())
        except OSError:
            key.append("")
    return key


def _strongest(programs: list[str], cache_dir: Path, backend: SandboxBackend) -> SandboxLevel:
    if sys.platform == "darwin":
        return _seatbelt(programs[0] if programs else None, cache_dir)
    hitches: tuple[Hitch, ...] = ()
    if not programs and backend != "landlock":
        hitches = (Hitch("sandbox.why.missing", {"name": "bwrap"}),)
    working: SandboxLevel | None = None
    for program in programs:
        level = _bubblewrap(program, cache_dir)
        if level.overlays:
            return level
        if level.backend == "bwrap":
            working = working or level
        hitches = hitches or level.hitches
    if working is not None:
        return working
    if backend == "bubblewrap":
        return SandboxLevel("none", hitches=hitches)
    from coder.policy.sandbox.launch import SCOPES_FROM, landlock_abi

    level = SandboxLevel("landlock", hitches=hitches, scopes=landlock_abi() >= SCOPES_FROM)
    hitch = trial(level, cache_dir, network=False)
    if hitch is not None:
        return SandboxLevel("none", hitches=(*hitches, hitch))
    return _if_it_works(level, cache_dir, connects=True)


def _if_it_works(level: SandboxLevel, cache_dir: Path, **further: bool) -> SandboxLevel:
    """The level with a further capability, if it passes its trial."""
    better = msgspec.structs.replace(level, **further)
    return better if trial(better, cache_dir, network=True) is None else level


def _bubblewrap(program: str, cache_dir: Path) -> SandboxLevel:
    """The level of this bwrap; "none" if it does not work."""
    level = SandboxLevel("bwrap", program)
    hitch = trial(level, cache_dir, network=False)
    if hitch is not None:
        if trial(level, cache_dir, network=True) is not None:
            return SandboxLevel("none", hitches=(hitch,))
        level = SandboxLevel("bwrap", program, (hitch,), cuts_network=False)
    return _if_it_works(connecting(filtering(level, cache_dir), cache_dir), cache_dir, overlays=True)


def _seatbelt(program: str | None, cache_dir: Path) -> SandboxLevel:
    if program is None:
        return SandboxLevel(hitches=(Hitch("sandbox.why.missing", {"name": PROGRAM}),))
    level = SandboxLevel("seatbelt", program)
    hitch = trial(level, cache_dir, network=False)
    return level if hitch is None else SandboxLevel("none", hitches=(hitch,))


def filtering(level: SandboxLevel, cache_dir: Path) -> SandboxLevel:
    """The bwrap backend with a seccomp filter, if the kernel supports it."""
    from coder.policy.sandbox.seccomp import strong_filter

    if not strong_filter("no-unix") or not os.access("/bin/sh", os.X_OK):
        return level
    return _if_it_works(level, cache_dir, filters=True)


def connecting(level: SandboxLevel, cache_dir: Path) -> SandboxLevel:
    """The bwrap backend with mediated Unix sockets, if they work."""
    # Mediation needs no_new_privs, which breaks a setuid bwrap.
    if not level.filters or Path(level.program).stat().st_mode & stat.S_ISUID:
        return level
    return _if_it_works(level, cache_dir, connects=True)


def trial(level: SandboxLevel, cache_dir: Path, *, network: bool) -> Hitch | None:
    """None if this backend works as intended; else what went wrong."""
    try:
        make_private(cache_dir)
        place = Path(mkdtemp(prefix="probe-", dir=cache_dir))
    except OSError as error:
        return Hitch("sandbox.why.place", {"why": error.strerror or str(error)}, level.backend)
    try:
        problem = _run_trial(level, place, network)
        return None if problem is None else msgspec.structs.replace(problem, backend=level.backend)
    finally:
        remove_tree(place)


def _run_trial(level: SandboxLevel, place: Path, network: bool) -> Hitch | None:
    workspace, outside = place / "inside", place / "outside"
    secret = outside / HOME_SECRETS[0]
    workspace.mkdir()
    secret.mkdir(parents=True)
    (secret / "key").write_text(_SECRET, encoding="ascii")
    environment = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(outside)}
    if level.overlays:
        (outside / ".cache").mkdir()
    sandbox = Sandbox(
        level, workspace, place / "none", network=network, environment=environment, caches=level.overlays
    )
    script = f'"$4" -I -S -c "$5" || exit 9; {_TRIAL}' if level.connects else _TRIAL
    if level.overlays:
        script = f'echo x > "$2/.cache/made" || exit 8; {script}'
    # Not a virtual environment's symlink: it may be in /tmp, which is replaced in the sandbox.
    python = os.path.realpath(sys.executable)
    words = [str(workspace), str(outside), HOME_SECRETS[0], python, _CONNECTING.get(level.backend, "")]
    shell = ["/bin/sh", "-c", script, "sh", *words]
    try:
        by_door = level.connects and level.backend == "landlock"
        line = _mediated(shell, sandbox) if by_door else sandbox.wrap(shell)
        status, stdout, stderr = _run(line, environment)
    except OSError as error:
        return Hitch("sandbox.why.failed", {"line": error.strerror or str(error)})
    except TimeoutExpired:
        return Hitch("sandbox.why.late", {"seconds": str(_SECONDS)})
    finally:
        remove_tree(Path(sandbox.scratch()))
    if status != 0 or not (workspace / "in").exists():
        lines = stderr.decode("utf-8", errors="replace").strip().splitlines()
        if not lines:
            return Hitch("sandbox.why.status", {"code": str(status)})
        return Hitch("sandbox.why.failed", {"line": lines[-1][:200]})
    if (outside / "out").exists() or (outside / ".cache" / "made").exists():
        return Hitch("sandbox.why.writes")
    return Hitch("sandbox.why.reads") if _SECRET.encode() in stdout else None


def _mediated(argv: list[str], sandbox: Sandbox) -> list[str]:
    """By Landlock, with a door that leads nowhere."""
    from coder.policy.sandbox.connect import TcpRule, mediated

    line = launcher_line(argv, sandbox.places(), network="door", shut_in=True)
    return mediated(line, TcpRule(frozenset()))


def _run(line: list[str], environment: dict[str, str]) -> tuple[int, bytes, bytes]:
    with start(
        line,
        runs=Runs.IN_SANDBOX,
        environment=environment,
        stdin=DEVNULL,
        stdout=PIPE,
        stderr=PIPE,
        start_new_session=True,
    ) as process:
        try:
            stdout, stderr = process.communicate(timeout=_SECONDS)
        except TimeoutExpired:
            process.kill()
            raise
        return process.returncode, stdout, stderr
