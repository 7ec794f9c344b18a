"""The macOS backend: `sandbox-exec` with a profile in SBPL, the sandbox profile language.

Default deny; of the rules that match an operation the last one wins. Paths are passed as parameters (`-D`),
never interpolated into the profile, so that no name can inject a rule. The kernel compares them with a file's
real path in its on-disk spelling."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from coder.policy.sandbox.caches import within
from coder.policy.sandbox.places import AccessRules

if TYPE_CHECKING:
    from coder.policy.network.door import Door

_Rule = tuple[int, int, str, str, str]

PROGRAM = "/usr/bin/sandbox-exec"
_ENV = "/usr/bin/env"
# Processes, devices and services that programs need. Not reachable: keychain, pasteboard, Apple events and
# launch services (which start programs outside), other processes' memory and environment.
_BASE = """\
(version 1)
(deny default)
(allow process-exec process-fork)
(allow signal process-info* (target same-sandbox))
(allow sysctl-read)
(deny sysctl-read (sysctl-name-prefix "kern.procargs"))
(allow ipc-posix-sem)
(allow mach-lookup
  (global-name "com.apple.bsd.dirhelper")
  (global-name "com.apple.logd")
  (global-name "com.apple.system.logger")
  (global-name "com.apple.system.notification_center")
  (global-name "com.apple.system.opendirectoryd.libinfo")
  (global-name "com.apple.system.opendirectoryd.membership"))
(allow file-read* file-map-executable)
(allow file-write-data (literal "/dev/null") (literal "/dev/zero") (literal "/dev/dtracehelper"))
(allow file-ioctl (literal "/dev/dtracehelper") (literal "/dev/ptmx"))
(deny file-read* (regex #"^/dev/tty"))
(allow pseudo-tty)
(allow file-read* file-write* (literal "/dev/ptmx"))
(allow file-read* file-write* file-ioctl
  (require-all (regex #"^/dev/ttys[0-9]+$") (extension "com.apple.sandbox.pty")))
"""
# IP only: a Unix socket may belong to a service that acts for the caller (ssh-agent, Docker).
_NETWORK = """\
(allow system-socket (require-all (socket-domain AF_SYSTEM) (socket-protocol 2)))
(allow network-outbound (remote ip "*:*") (literal "/private/var/run/mDNSResponder"))
(allow network-inbound (local ip "*:*"))
(allow network-bind (local ip "*:*"))
(allow mach-lookup
  (global-name "com.apple.SystemConfiguration.DNSConfiguration")
  (global-name "com.apple.SystemConfiguration.configd")
  (global-name "com.apple.networkd")
  (global-name "com.apple.ocspd")
  (global-name "com.apple.trustd.agent"))
"""
# Outside the sandbox: a temporary directory for the lifetime of the command. $0 is its parent.
_FRESH = (
    'TMPDIR=$(mktemp -d "$0/read-XXXXXXXX") && TMPDIR=$(cd "$TMPDIR" && pwd -P) || exit 125; export TMPDIR; '
    "trap 'rm -rf \"$TMPDIR\"' EXIT; trap 'exit 143' HUP INT TERM; "
    'program=$1; shift; "$program" -D "TMPDIR=$TMPDIR" "$@"'
)


def seatbelt_line(
    program: str,
    argv: list[str],
    places: AccessRules,
    *,
    network: bool,
    path: str = "",
    door: Door | None = None,
) -> list[str]:
    """`argv` under `sandbox-exec`. `path`: overrides its PATH."""
    profile, parameters = seatbelt_profile(places, network=network, door=door)
    line = [program, *(word for name, value in parameters.items() for word in ("-D", f"{name}={value}"))]
    line += ["-p", profile, _ENV]
    variables = {} if door is None else door.variables
    line += [f"{name}={value}" for name, value in {**places.caches.environment, **variables}.items()]
    if path:
        line.append(f"PATH={path}")
    if places.writable:
        return [*line, f"TMPDIR={true_path(places.scratch)}", *argv]
    return ["/bin/sh", "-c", _FRESH, os.path.dirname(places.scratch), *line, *argv]


def seatbelt_profile(
    places: AccessRules, *, network: bool, door: Door | None = None
) -> tuple[str, dict[str, str]]:
    """The profile and its parameters. If nothing may be written it uses one more, `TMPDIR`, which the line
    sets."""
    parameters: dict[str, str] = {}

    def rule(action: str, match: str, path: str) -> str:
        name = f"P{len(parameters)}"
        parameters[name] = path
        return f'({action} ({match} (param "{name}")))\n'

    text = _BASE + (_NETWORK if network and door is None else "")
    for port in sorted(door.rules.local | {door.port}) if door is not None else ():
        text += f'(allow network-outbound (remote ip "localhost:{port}"))\n'
    if not places.writable:
        text += '(allow file-write* (subpath (param "TMPDIR")))\n'
    # The last match wins: deeper paths later, and of equals the stricter.
    for _, _, action, match, path in sorted(_rules(places)):
        text += rule(action, match, path)
    for path in _movable_parents(places):
        text += rule("deny file-write-unlink", "literal", path)
    return text, parameters


def _rules(places: AccessRules) -> Iterator[_Rule]:
    def rules(rank: int, action: str, paths: Iterable[str], match: str = "subpath") -> Iterator[_Rule]:
        for path in dict.fromkeys(map(true_path, paths)):
            yield path.rstrip("/").count("/"), rank, action, match, path

    yield from rules(0, "allow file-read*", [places.workspace, *places.readable])
    yield from rules(1, "allow file-read* file-write*", _writable(places))
    yield from rules(2, "deny file-write*", places.locked)
    yield from rules(2, "deny file-write*", places.absent, "literal")
    yield from rules(3, "deny file-read* file-write*", [*places.hidden, *places.emptied])


def _writable(places: AccessRules) -> list[str]:
    """Includes the system's temporary directories, unless something needed lies in there: its neighbours
    would be writable too."""
    if not places.writable:
        return []
    return [*places.writable, places.scratch, *([] if places.seen_in_temp else places.temp)]


def _movable_parents(places: AccessRules) -> list[str]:
    """Directories that contain a denied path and could be moved, with it, to where no rule names it."""
    writable = [true_path(path) for path in _writable(places)]
    found = dict.fromkeys(map(true_path, places.pinned))
    for path in map(true_path, (*places.locked, *places.absent, *places.hidden)):
        above = os.path.dirname(path)
        while above != "/" and within(above, writable):
            found[above] = None
            above = os.path.dirname(above)
    return list(found)


def true_path(path: str) -> str:
    """In the kernel's spelling: macOS file names are case-insensitive, sandbox rules are not."""
    real = os.path.realpath(path)
    code = getattr(fcntl, "F_GETPATH", None)
    if code is None:
        return real
    try:
        descriptor = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:  # missing, or no permission
        above, name = os.path.split(real)
        return os.path.join(true_path(above), name) if name else real
    try:
        return os.fsdecode(fcntl.fcntl(descriptor, code, bytes(1024)).rstrip(b"\0"))
    except OSError:
        return real
    finally:
        os.close(descriptor)
