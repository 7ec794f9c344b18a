"""The workspace boundary: paths are made absolute and resolved, and containment is checked on real paths."""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Sequence
from functools import cache, cached_property
from pathlib import Path
from urllib.parse import unquote, urlsplit

from coder.base.files import digest
from coder.base.safe_open import read_whole, real_path
from coder.base.text import utf8_safe
from coder.tools.tool import ClosedPlace, OutsideWorkspace

TEMP = ("/tmp", "/var/tmp")  # noqa: S108 - shared directories, not files of ours


def scratch_of(root: str | Path) -> str:
    """The scratch directory of a workspace, created if missing; it outlives the session. Raises OSError."""
    path = private_base() / digest(os.fsencode(os.path.realpath(root)), 8)
    path.mkdir(mode=0o700, exist_ok=True)
    return str(path)


def private_base() -> Path:
    """A directory that only this user can write."""
    base = Path(os.path.realpath(_base())) / f"coder-{os.getuid()}"
    try:
        base.mkdir(0o700)
    except FileExistsError:
        info = os.lstat(base)
        # Another user may have planted a directory or symlink there.
        if info.st_uid != os.getuid() or info.st_mode & 0o170077 != 0o040000:
            return _fresh_base()
    return base


def state_directory(home: Path) -> Path:
    """Where the sandbox keeps its files: $CODER_HOME, or a private temporary directory if that cannot be
    written, as in a container whose user owns no home."""
    above = home
    while not above.exists() and above != above.parent:
        above = above.parent
    return home if os.access(above, os.W_OK | os.X_OK) else private_base() / "home"


@cache
def _fresh_base() -> Path:
    from tempfile import mkdtemp

    return Path(mkdtemp(prefix="coder-"))


def _base() -> str:
    return os.environ.get("TMPDIR") or TEMP[0]


def temporary_directory(path: str) -> str:
    """The shared temporary directory that `path`, as written, lies in; "" if none."""
    found = (directory.rstrip("/") for directory in (_base(), *TEMP))
    return next(
        (directory for directory in found if path == directory or path.startswith(f"{directory}/")), ""
    )


_MOST_BYTES = 4095
_OWN_RECORD = ("config.json", "history", "sessions")


class DirectoryWorkspace:
    """A workspace directory with its scratch directory. `readable`: further directories that may be read,
    never written."""

    def __init__(self, root: Path, readable: Sequence[Path] = (), *, person: str = "", own: str = "") -> None:
        self._person, self._own = person, own
        self._root = Path(os.path.realpath(root))
        self._readable = [Path(os.path.realpath(directory)) for directory in readable]

    @property
    def scratch(self) -> str:
        """The scratch directory; "" if it cannot be created."""
        try:
            return scratch_of(self._root)
        except OSError:
            return ""

    @property
    def root(self) -> Path:
        return self._root

    def also_reading(self, directory: Path) -> DirectoryWorkspace:
        """The same with one more readable directory."""
        readable = [*self._readable, directory]
        return DirectoryWorkspace(self._root, readable, person=self._person, own=self._own)

    @property
    def _records(self) -> list[str]:
        """Records of sessions: large, and of no use to a model."""
        return [f"{self._root}/.coder/{name}" for name in ("history", "sessions")]

    @cached_property
    def closed(self) -> Collection[str]:
        """The places inside that no file tool opens or walks into."""
        from coder.policy.secrets.secret_places import closed_inside

        return [*closed_inside(os.fspath(self._root), self._person, self._own), *self._records]

    def resolve(self, path: str, *, write: bool = False) -> Path:
        """The absolute, resolved path; raises `OutsideWorkspace` if access is denied."""
        wanted = self._absolute(path)
        real = self._real(wanted, path)
        if not write and any(real.is_relative_to(directory) for directory in self._readable):
            return real
        if real.is_relative_to(self._root):
            self._refuse_closed(wanted, real, path, self.closed)
            if write:
                self._refuse_own_files(real, path)
                self._refuse_own_files(Path(os.path.normpath(wanted)), path)
            return real
        scratch = self.scratch
        if scratch and real.is_relative_to(scratch):
            return real
        raise OutsideWorkspace(
            f"{utf8_safe(path)} is outside the workspace {utf8_safe(str(self._root))}. "
            f"Use a path inside the workspace{self._instead(wanted, scratch)}."
        )

    def chosen(self, path: str) -> Path:
        """A file that the person named, which may be outside. Raises `ClosedPlace` for the places of secrets,
        and `OutsideWorkspace` where the path leads through the workspace: a link there is not theirs."""
        from coder.policy.secrets.secret_places import closed_inside

        wanted = Path(os.path.normpath(self._absolute(path)))
        real = self._real(wanted, path)
        if any(Path(os.path.realpath(parent)).is_relative_to(self._root) for parent in wanted.parents):
            raise OutsideWorkspace(f"{utf8_safe(path)} leads out of the workspace.")
        self._refuse_closed(wanted, real, path, closed_inside("/", self._person, self._own))
        return real

    def _instead(self, wanted: Path, scratch: str) -> str:
        """A hint where a temporary file belongs. In the sandbox /tmp itself may be the scratch directory."""
        directory = temporary_directory(str(wanted))
        if not scratch or not directory:
            return ""
        meant = Path(scratch, os.path.relpath(wanted, directory))
        there = f"; did you mean {utf8_safe(str(meant))}?" if os.path.lexists(meant) else ""
        return f", or the scratch folder {utf8_safe(scratch)} ($TMPDIR of commands){there}"

    def show(self, path: Path) -> str:
        """Relative to the workspace with `/`, or absolute if outside; always printable."""
        return utf8_safe(
            (path.relative_to(self._root) if path.is_relative_to(self._root) else path).as_posix()
        )

    def _absolute(self, path: str) -> Path:
        if not path or not path.strip():
            raise OutsideWorkspace("The path is empty. Name a file or folder in the workspace.")
        if "\0" in path:
            raise OutsideWorkspace("The path has a NUL byte in it, which no file name can have.")
        if path.startswith("file:"):
            path = self._from_url(path)
        if len(path.encode("utf-8", "surrogatepass")) > _MOST_BYTES:
            raise OutsideWorkspace(f"The path is longer than {_MOST_BYTES} bytes, which no file can have.")
        if path == "~" or path.startswith("~/"):
            path = str(Path.home()) + path[1:]
        return self._root / path

    def _from_url(self, url: str) -> str:
        try:
            parts = urlsplit(url)
        except ValueError:
            raise OutsideWorkspace(f"{utf8_safe(url)} is not a file address.") from None
        if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
            raise OutsideWorkspace(f"{utf8_safe(url)} is on another machine or is not an absolute path.")
        path = unquote(parts.path, errors="surrogateescape")
        if "\0" in path:
            raise OutsideWorkspace("The path has a NUL byte in it, which no file name can have.")
        return path

    def _real(self, wanted: Path, given: str) -> Path:
        """Resolve symlinks as far as the path exists; a new file is relative to its real parent."""
        try:
            real = os.path.realpath(wanted)
            os.lstat(real)
        except OSError as problem:
            if problem.errno == errno.ELOOP:
                raise OutsideWorkspace(f"{utf8_safe(given)} is a loop of links.") from None
            if problem.errno == errno.ENAMETOOLONG:
                raise OutsideWorkspace(f"{utf8_safe(given)} has a name too long for a file.") from None
            return Path(real_path(wanted))
        except (ValueError, UnicodeError):
            raise OutsideWorkspace(f"{utf8_safe(given)} is not a name that a file can have.") from None
        if Path(real).is_symlink():
            raise OutsideWorkspace(f"{utf8_safe(given)} is a loop of links.")
        return Path(real)

    def _refuse_closed(self, wanted: Path, real: Path, given: str, closed: Collection[str]) -> None:
        names = [f"{os.path.normpath(wanted)}/", f"{real}/"] if closed else []
        if any(name.startswith(f"{place}/") for place in self._records for name in names):
            raise ClosedPlace(
                f"{utf8_safe(given)} is coder's own record of sessions, which is closed to you."
            )
        if any(name.startswith(f"{place}/") for place in closed for name in names):
            raise ClosedPlace(
                f"{utf8_safe(given)} is in a place where secrets are kept (keys, tokens, histories), "
                "which is closed to you. Do without it, or ask the person for what you need from it."
            )

    def _refuse_own_files(self, path: Path, given: str) -> None:
        """The agent must not rewrite git's internals, loosen its own policy or change its record."""
        if not path.is_relative_to(self._root):
            return
        parts = tuple(part.casefold() for part in path.relative_to(self._root).parts)
        if ".git" in parts or any(path.is_relative_to(directory) for directory in self._git_elsewhere()):
            raise OutsideWorkspace(
                f"{utf8_safe(given)} belongs to git's own files, which only git writes. Use git commands."
            )
        if len(parts) >= 2 and parts[0] == ".coder" and parts[1] in _OWN_RECORD:
            raise OutsideWorkspace(
                f"{utf8_safe(given)} holds coder's own settings or record, which the agent may not change."
            )

    def _git_elsewhere(self) -> list[Path]:
        """git's directory under another name: `.git` is a symlink, or a pointer file."""
        git = self._root / ".git"
        try:
            if git.is_file():
                named = os.fsdecode(read_whole(git, _MOST_BYTES, self._root))
                git = self._root / named.removeprefix("gitdir:").strip()
            elif not git.is_symlink():
                return []
            directory = Path(os.path.realpath(git))
        except (OSError, ValueError):
            return []
        return [directory] if self._root in directory.parents else []
