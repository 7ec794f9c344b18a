"""Discover the editor's companion by the files and variables of Gemini CLI's extensions.

`<tmp>/gemini/ide/gemini-ide-server-<pid>-<port>.json` holds port, token and the open directories;
`GEMINI_CLI_IDE_SERVER_PORT` in the editor's terminal selects among several windows.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping
from pathlib import Path

import msgspec

from coder.base.safe_open import open_at

PORT = "GEMINI_CLI_IDE_SERVER_PORT"
WORKSPACE = "GEMINI_CLI_IDE_WORKSPACE_PATH"
TOKEN = "GEMINI_CLI_IDE_AUTH_TOKEN"  # noqa: S105 - the name of a variable, not a token
PID = "GEMINI_CLI_IDE_PID"

_PREFIX, _SUFFIX = "gemini-ide-server-", ".json"
_MAX_FILE = 65_536  # bytes; real ones have a few hundred
_MAX_FILES = 200  # crashed editors leave theirs behind
_MAX_DEPTH = 32  # of the process tree, as in the protocol's own client


class IdeInfo(msgspec.Struct, frozen=True, rename="camel"):
    """The editor's name."""

    name: str = ""
    display_name: str = ""


class Companion(msgspec.Struct, frozen=True, rename="camel"):
    """A companion's port, token and directories."""

    port: int | str
    workspace_path: str = ""
    auth_token: str = ""
    ide_info: IdeInfo | None = None

    @property
    def number(self) -> int:
        """The port; 0 where invalid."""
        text = str(self.port)
        number = int(text) if text.isascii() and text.isdigit() and len(text) < 6 else 0
        return number if number < 65_536 else 0

    @property
    def name(self) -> str:
        info = self.ide_info
        return (info.display_name or info.name if info else "") or "IDE"


def find_companions(cwd: Path, environ: Mapping[str, str]) -> list[Companion]:
    """Companions that have `cwd` open, best match first."""
    found = [one for one in _from_files(environ) if one.number and covers(one.workspace_path, cwd)]
    port = environ.get(PORT, "")
    if len(found) > 1:
        found.sort(key=lambda one: str(one.port) != port)
    named = Companion(port, environ.get(WORKSPACE, ""), environ.get(TOKEN, ""))
    if named.number and covers(named.workspace_path, cwd):
        known = any(one.number == named.number for one in found)
        found += [] if known else [named]
    return found


def covers(workspace_path: str, cwd: Path) -> bool:
    """Whether `cwd` is inside a directory that the editor has open."""
    real = Path(os.path.realpath(cwd))
    directories = [text for text in workspace_path.split(os.pathsep) if text]
    return any(real.is_relative_to(os.path.realpath(directory)) for directory in directories)


def _from_files(environ: Mapping[str, str]) -> list[Companion]:
    try:
        directory = _own_directory(_temporary(environ), "gemini", "ide")
    except OSError:
        return []
    try:
        return _in_directory(directory, environ)
    finally:
        os.close(directory)


def _own_directory(base: Path, *names: str) -> int:
    """A descriptor of the directory. Raises OSError if another user can write to it or has put a link in its
    way: the temporary directory is shared, and what a companion says goes to the model."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    descriptor = os.open(base, flags)
    for name in names:
        try:
            below = os.open(name, flags | os.O_NOFOLLOW, dir_fd=descriptor)
        finally:
            os.close(descriptor)
        descriptor, info = below, os.fstat(below)
        if info.st_uid not in (os.getuid(), 0) or info.st_mode & stat.S_IWOTH:
            os.close(descriptor)
            raise PermissionError(errno.EPERM, "others can write there", name)
    return descriptor


def _in_directory(directory: int, environ: Mapping[str, str]) -> list[Companion]:
    names = os.listdir(directory)
    ranked = [(pid, name) for name in names[:_MAX_FILES] if (pid := _pid_of(name))]
    if not ranked:
        return []
    parents = _ancestors(environ)
    ranked.sort(key=lambda one: (one[0] not in parents, not _alive(one[0]), -one[0]))
    return [companion for _, name in ranked if (companion := _read(name, directory))]


def _temporary(environ: Mapping[str, str]) -> Path:
    """As Node's `os.tmpdir()`, which the extensions use."""
    named = environ.get("TMPDIR") or environ.get("TMP") or environ.get("TEMP") or "/tmp"  # noqa: S108 - as above
    return Path(named)


def _pid_of(name: str) -> int:
    """The process id in a discovery file's name; 0 for other files."""
    if not (name.startswith(_PREFIX) and name.endswith(_SUFFIX)):
        return 0
    pid, _, port = name[len(_PREFIX) : -len(_SUFFIX)].partition("-")
    return int(pid) if pid.isdecimal() and len(pid) < 12 and (not port or port.isdecimal()) else 0


def _read(name: str, directory: int) -> Companion | None:
    try:
        descriptor = open_at(name, directory)
        with os.fdopen(descriptor, "rb") as stream:
            if os.fstat(descriptor).st_uid not in (os.getuid(), 0):
                return None
            return msgspec.json.decode(stream.read(_MAX_FILE), type=Companion)
    except (OSError, msgspec.DecodeError):
        return None


def _ancestors(environ: Mapping[str, str]) -> set[int]:
    """Our ancestor processes, or the one that the person names: one of them is the editor."""
    named = environ.get(PID, "")
    if named.isdecimal() and int(named):
        return {int(named)}
    found: set[int] = set()
    pid = os.getppid()
    while pid > 1 and pid not in found and len(found) < _MAX_DEPTH:
        found.add(pid)
        pid = _parent(pid)
    return found


def _parent(pid: int) -> int:
    """From `/proc`; without it, only the direct parent is known."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        return int(status.rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return 0


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return True
