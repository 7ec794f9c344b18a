"""Caches of package managers: each project writes to a private layer over the person's own.

With overlay mounts a command sees the person's cache and writes to the layer, so nothing is downloaded twice
and no command can poison what the person's own programs use. Without them, and where the person has no such
cache yet, the tool's own variable points into the layer. A mounted layer has one user at a time, since two
overlay mounts of one upper directory are undefined: a second command gets the project's next layer."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, lru_cache
from pathlib import Path
from threading import Thread
from typing import NamedTuple

import msgspec

from coder.base.files import digest, make_private, write_durably
from coder.base.safe_open import parent_of, real_path
from coder.policy.programs import names

DIRECTORY = "caches"  # in $CODER_HOME
MOST_BYTES = 10 * 1024**3  # of all layers; the least recently used are removed first
_KEPT_DAYS = 30
_PRUNE_EVERY = 24 * 3600  # seconds
_MOVED_TO = "moved"  # of a layer: where variables point to
_NEVER_LAYERED = ("/dev", "/proc", "/run", "/sys")
_PRUNING = "prune caches"  # a thread
_MOST_AT_ONCE = 16  # layers of one project; more commands than that at a time go without

# The directory below the home, the variable that moves it (- for none; or an option in one), and the program
# that needs it.
_TABLE = """
.cache                   XDG_CACHE_HOME                 -
.npm                     npm_config_cache               npm
.local/share/pnpm/store  npm_config_store_dir           pnpm
.yarn/berry              YARN_GLOBAL_FOLDER             yarn
.bun/install/cache       BUN_INSTALL_CACHE_DIR          bun
.cargo                   CARGO_HOME                     cargo
go/pkg                   GOPATH                         go
.gradle                  GRADLE_USER_HOME               java
.m2                      MAVEN_OPTS=-Dmaven.repo.local= mvn
.ivy2                    -                              sbt
.sbt                     -                              sbt
.nuget/packages          NUGET_PACKAGES                 dotnet
.local/share/NuGet       -                              dotnet
.dotnet                  -                              dotnet
.composer                COMPOSER_HOME                  composer
.gem                     -                              gem
.local/share/gem         -                              gem
.bundle                  BUNDLE_USER_HOME               bundle
.mix                     MIX_HOME                       mix
.hex                     HEX_HOME                       mix
.cabal                   CABAL_DIR                      cabal
.stack                   STACK_ROOT                     stack
.pub-cache               PUB_CACHE                      dart
.conan2                  CONAN_HOME                     conan
.local/share/virtualenv  VIRTUALENV_OVERRIDE_APP_DATA   virtualenv
.node-gyp                -                              node
.electron-gyp            -                              node
"""
# Variables by which people move a single cache.
_MOVED = names(
    "PIP_CACHE_DIR UV_CACHE_DIR POETRY_CACHE_DIR PDM_CACHE_DIR npm_config_cache npm_config_store_dir "
    "CARGO_HOME YARN_CACHE_FOLDER GOCACHE GOMODCACHE GRADLE_USER_HOME NUGET_PACKAGES COMPOSER_CACHE_DIR "
    "PRE_COMMIT_HOME PLAYWRIGHT_BROWSERS_PATH DENO_DIR BUN_INSTALL_CACHE_DIR CCACHE_DIR SCCACHE_DIR "
    "XDG_CACHE_HOME"
)
_COPIED = {".cargo": ("config.toml", "config")}  # settings that a moved directory would lose
# Programs are installed where the person would look for them, or not at all.
_INSTALLED = {"GOPATH": ("GOBIN", "go/bin"), "CARGO_HOME": ("CARGO_INSTALL_ROOT", ".cargo")}

# Settings of registries hold credentials beside addresses: commands get the rest.
_SETTINGS = (".npmrc", ".yarnrc", ".yarnrc.yml", ".bunfig.toml", ".config/pnpm/rc", ".bundle/config")
_CREDENTIAL = re.compile(
    r"auth|token|passw|secret|username|user\b|login|email|certificate|keyfile|\bkey\b|://[^/\s]*@"
    r"|^BUNDLE_(?!BUILD__|LOCAL__|MIRROR__)\w+__",  # Bundler's credentials are named after the host
    re.IGNORECASE,
)
_MOST_SETTINGS = 64 * 1024


class Overlay(NamedTuple):
    """One cache directory; writes to it go to `upper`."""

    path: str
    upper: str
    work: str


class Caches(msgspec.Struct, frozen=True):
    """The caches of a command. `moved`: the directory that variables point into. `fixed`: parts of the
    overlays that stay read-only, since they are on PATH."""

    overlays: list[Overlay] = []
    environment: dict[str, str] = {}
    moved: list[str] = []
    fixed: list[str] = []


class Layer:
    """A layer of a project, locked until `close`."""

    def __init__(self, directory: Path, lock: int) -> None:
        self.directory = directory
        self._lock = lock

    def close(self) -> None:
        """Leave the layer to the next command."""
        self.__del__()
        _prune_if_grown(self.directory.parents[2])

    def __del__(self) -> None:
        lock, self._lock = self._lock, -1
        if lock >= 0:
            os.close(lock)

    def caches(
        self,
        home: str,
        environment: Mapping[str, str],
        writable: Sequence[str],
        mounts: Callable[[Sequence[Overlay]], bool] | None,
    ) -> Caches:
        """The caches of a command in this layer. `home`: the person's, a real path. `writable`: directories
        that it may write anyway. `mounts`: whether these overlays can be mounted; None if none can."""
        found = Caches()
        path = environment.get("PATH", "")
        searched = [os.path.realpath(entry) for entry in path.split(os.pathsep) if entry]
        kept = (home, *writable, os.path.realpath(self.directory))
        rows = []
        for name, variable, directory in _directories(home, environment):
            exists = os.path.isdir(directory)
            # Programs on PATH run outside the sandbox too: their directories are never layered.
            if (exists and within(directory, searched)) or within(directory, writable):
                continue
            own = str(self.directory / re.sub(r"[^\w.-]", "_", name))
            rows.append((name, variable, directory, own))
            above = any(within(one, [directory]) for one in kept)
            if exists and mounts and not above and not within(directory, _NEVER_LAYERED):
                overlay = Overlay(directory, _made(f"{own}/upper"), _made(f"{own}/work"))
                found.overlays.append(overlay)
        if found.overlays and mounts and not mounts(found.overlays):
            found.overlays[:] = [overlay for overlay in found.overlays if mounts([overlay])]
        layered = [overlay.path for overlay in found.overlays]
        found.fixed.extend(entry for entry in searched if within(entry, layered))
        if layered and not environment.get("UV_LINK_MODE"):
            found.environment["UV_LINK_MODE"] = "copy"  # it cannot link out of an overlay, and would warn
        for name, variable, directory, own in rows:
            given_elsewhere = variable and (os.path.isdir(directory) or _has_program(name, path))
            if directory in layered or not given_elsewhere:
                continue
            variable, _, option = variable.partition("=")
            given = f"{environment[variable]} " if option and environment.get(variable) else ""
            place = str(self.directory / _MOVED_TO / os.path.basename(own))
            found.environment[variable] = given + option + _made(place)
            found.moved[:] = [str(self.directory / _MOVED_TO)]  # one mount for all
            if variable in _INSTALLED and not environment.get(_INSTALLED[variable][0]):
                target, below = _INSTALLED[variable]
                found.environment[target] = f"{home}/{below}"
            for file in _COPIED.get(name, ()):
                # Commands write there: a link that one left is not followed.
                with (
                    suppress(OSError),
                    open(f"{directory}/{file}", "rb") as settings,
                    open(f"{place}/{file}", "xb") as copy,
                ):
                    shutil.copyfileobj(settings, copy)
        return found


def take_layer(home: Path, root: str) -> Layer | None:
    """A free layer of the project at `root`; None if it cannot be made. `home`: $CODER_HOME."""
    base = home / DIRECTORY / digest(os.fsencode(root), 8)
    for number in range(_MOST_AT_ONCE):
        directory = base / str(number)
        try:
            lock = _lock(directory)
        except OSError:
            return None
        if lock is not None:
            if number == 0:
                _prune_sometimes(home)
            return Layer(directory, lock)
    return None


def _lock(directory: Path) -> int | None:
    """None while another command has it."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    for _ in range(3):  # another process may be removing it
        with suppress(FileNotFoundError):
            descriptor = os.open(directory / "lock", flags, 0o600)
            break
        make_private(directory)
    else:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(descriptor).st_nlink:  # else it was pruned meanwhile
            os.utime(descriptor)
            return descriptor
    except BlockingIOError:
        pass
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


@cache
def _rows() -> list[tuple[str, str, str]]:
    rows = [line.split() for line in _TABLE.strip().splitlines()]
    return [(path, "" if variable == "-" else variable, program) for path, variable, program in rows]


def _directories(home: str, environment: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Name, variable and real path of each of the person's caches."""
    seen: set[str] = set()
    for variable in _MOVED:
        value = environment.get(variable, "")
        if os.path.isabs(value) and os.path.realpath(value) not in seen:
            seen.add(os.path.realpath(value))
            yield variable, variable, os.path.realpath(value)
    go = environment.get("GOPATH", "").split(os.pathsep)[0]
    for name, variable, _program in _rows():
        if variable == "GOPATH" and os.path.isabs(go):
            yield name, "", os.path.realpath(f"{go}/pkg")
            continue
        path = os.path.realpath(f"{home}/{name}")
        if path in seen or (variable and environment.get(variable)):
            continue
        # A link to somewhere else is the person's arrangement: only a directory below the home is layered.
        if path.startswith(f"{home.rstrip('/')}/"):
            yield name, variable, path


def _has_program(name: str, path: str) -> bool:
    program = next((program for row, _, program in _rows() if row == name), "-")
    return program == "-" or _which(program, path)


@lru_cache(maxsize=64)
def _which(program: str, path: str) -> bool:
    return shutil.which(program, path=path) is not None


def within(path: str, directories: Iterable[str]) -> bool:
    """Whether the path is one of these directories, or below one."""
    return any(path == one or path.startswith(one.rstrip("/") + "/") for one in directories)


def remove_links(overlays: Iterable[Overlay], mounted: Iterable[str]) -> None:
    """Remove links that commands left in a layer where something is to be mounted: bubblewrap, which is
    outside the sandbox then, would follow them. Raises OSError."""
    mounted = list(mounted)
    for path, upper, _work in overlays:
        for inner in (one[len(path) + 1 :] for one in mounted if one.startswith(f"{path}/")):
            at = upper
            for part in inner.split("/"):
                at = f"{at}/{part}"
                if os.path.islink(at):
                    os.unlink(at)


def _made(directory: str) -> str:
    make_private(Path(directory))
    return directory


# registry settings without credentials


def settings_without_credentials(home: str, directory: Path) -> list[tuple[str, str]]:
    """Each settings file of a registry in the home, and the file that commands see instead."""
    shown = []
    for name in _SETTINGS:
        path = f"{home}/{name}"
        with suppress(OSError, ValueError):
            if (content := _public_settings(path)) is None:
                continue
            copy = directory / "settings" / digest(content, 8)
            if not copy.exists():
                make_private(copy.parent)
                write_durably(copy, content)
            shown.append((os.path.realpath(path), str(copy)))
    return shown


def _public_settings(path: str) -> bytes | None:
    """The settings without lines that hold credentials; None if it is no ordinary file."""
    info = os.stat(path)
    if not stat.S_ISREG(info.st_mode) or info.st_size > _MOST_SETTINGS:
        return None
    return _kept_lines(path, info.st_mtime_ns)


@lru_cache(maxsize=16)
def _kept_lines(path: str, _changed: int) -> bytes | None:
    with open(path, encoding="utf-8") as file:
        lines = file.read().splitlines()
    kept, inside = [], False
    for line in lines:
        continued = inside and line[:1].isspace()
        inside = bool(_CREDENTIAL.search(line)) or continued  # a block of YAML goes with its first line
        if not inside:
            kept.append(line)
    return "".join(f"{line}\n" for line in kept).encode("utf-8")


# how much there is, and removing it


class LayerUse(NamedTuple):
    """A project's layers."""

    directory: Path
    bytes: int
    used: float  # when a command last took one, seconds since the epoch


def layers_in_use(home: Path) -> list[LayerUse]:
    """All projects' layers, the least recently used first."""
    found = []
    with suppress(OSError):
        for directory in (home / DIRECTORY).iterdir():
            if directory.is_dir() and not directory.is_symlink():
                times = [file.stat().st_mtime for file in (directory, *directory.glob("*/lock"))]
                found.append(LayerUse(directory, _bytes_below(directory), max(times)))
    return sorted(found, key=lambda one: one.used)


def clear_layers(home: Path, *, unused_since: float | None = None, most_bytes: int = 0) -> int:
    """Remove layers that no command is using, and return how many bytes that freed. `unused_since`: only
    those not used since then, and the oldest until at most `most_bytes` are left."""
    freed = 0
    everything = layers_in_use(home)
    total = sum(one.bytes for one in everything)
    for one in everything:
        if unused_since is not None and one.used >= unused_since and total - freed <= most_bytes:
            continue
        for layer in sorted(one.directory.iterdir()):
            freed += _clear(layer)
        with suppress(OSError):
            one.directory.rmdir()
    return freed


def _clear(layer: Path) -> int:
    try:
        lock = _lock(layer)
    except OSError:
        return 0
    if lock is None:
        return 0
    try:
        size = _bytes_below(layer)
        remove_tree(layer)
        return size
    finally:
        os.close(lock)


def remove_tree(directory: Path) -> None:
    """Remove what commands have written, however deep. Directories may lack permissions, as the kernel leaves
    an overlay's work directory. What cannot be removed stays."""
    from coder.policy.sandbox.launch import remove

    real = Path(real_path(directory.parent), directory.name)
    with suppress(OSError), parent_of(real) as above:
        remove(above, directory.name, closed=True)


def _bytes_below(directory: Path) -> int:
    total = 0
    waiting = [os.fspath(directory)]
    while waiting:
        with suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                else:
                    total += entry.stat(follow_symlinks=False).st_blocks * 512
    return total


def _prune_sometimes(home: Path) -> None:
    """Once a day, in the background."""
    mark = home / DIRECTORY / "pruned"
    now = time.time()
    with suppress(OSError):
        if mark.exists() and now - mark.stat().st_mtime < _PRUNE_EVERY:
            return
        mark.touch(mode=0o600)
        _prune(home)


_free: dict[Path, int] = {}  # bytes on the disk of the layers, when they were last measured


def _prune_if_grown(home: Path) -> None:
    """Measuring takes seconds: it waits until the disk has lost a tenth of the limit."""
    with suppress(OSError):
        disk = os.statvfs(home)
        free = disk.f_bavail * disk.f_frsize
        if _free.setdefault(home, free) - free > MOST_BYTES // 10:
            _free[home] = free
            _prune(home)
        _free[home] = max(free, _free[home])


def _prune(home: Path) -> None:
    job = {"unused_since": time.time() - _KEPT_DAYS * 24 * 3600, "most_bytes": MOST_BYTES}
    Thread(target=clear_layers, args=(home,), kwargs=job, name=_PRUNING, daemon=True).start()
