"""What an approved line may write outside the workspace: exactly what the question listed.

A file is created empty before the command and mounted alone, so that nothing beside it can be written. A line
of known commands only (`mkdir`, `mv`, `rm` …), which write nothing but their operands, gets the directory of
an entry, because a single mounted file can be neither replaced nor removed. A directory that must not be
opened, such as the home, is staged instead: the command sees an empty directory in its place, with the real
entries mounted read-only in it, and the listed entries are moved to the real one afterwards."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from tempfile import mkdtemp

from coder.base.files import make_private
from coder.base.safe_open import open_directory, open_file, parent_of
from coder.policy.programs import names
from coder.policy.sandbox.caches import remove_tree, within
from coder.policy.sandbox.places import AccessRules, Staged, first_below
from coder.policy.secrets.secret_places import names_home_secret
from coder.policy.shell.verdict import OutsideWrite, ShellVerdict
from coder.policy.workspace import TEMP
from coder.texts import Text

_SYSTEM = names(
    "/bin /boot /dev /etc /lib /lib64 /opt /proc /run /sbin /sys /usr /var /Library /System /Applications"
)
# Beside dot files: directories of the home in which programs look for what they obey or run.
_HOME_STARTS = ("Library", "bin")
_STEERING = names(".git .coder .claude .codex .mcp.json AGENTS.md CLAUDE.md GEMINI.md")
_NEW = 1  # the modification time of a file that no command has touched yet
_MOST_ENTRIES = 500  # of a staged directory: each is a mount
_ABANDONED = 24 * 3600  # seconds; a command takes minutes
_STAGES = "staged"  # where the sandbox keeps its files
_PATH_ONLY = getattr(os, "O_PATH", os.O_RDONLY) | os.O_NOFOLLOW | os.O_CLOEXEC


def why_not(
    verdict: ShellVerdict,
    root: str,
    home: str,
    environment: Mapping[str, str],
    *,
    mounts: bool,
    state: Path | None = None,
) -> Text | None:
    """Why no approval lets this line write what it names outside the workspace; None if one does. `mounts`
    and `state` as for `Grants`."""
    needed = [root, home, environment.get("HOME", "")]
    for write in verdict.outside:
        reason = refusal(write.path, home, environment)
        private = mounts and within(write.path, TEMP) and not within(write.path, first_below(TEMP, needed))
        if reason is None and write.entry and verdict.plain and not private:
            reason = refusal_to_open(_opened_for(write.path), home, environment)
            if reason is not None and state is not None:
                reason = _refusal_to_stage(write, state, reason)
        if reason is not None:
            return reason
    return None


def _refusal_to_stage(write: OutsideWrite, state: Path, otherwise: Text) -> Text | None:
    directory = _opened_for(write.path)
    if directory == "/":
        return otherwise
    if write.gone and os.path.isdir(write.path):
        return Text("sandbox.outside.directory", path=write.path)
    try:
        make_private(state / _STAGES)
        same = _mount_of(directory) == _mount_of(str(state / _STAGES))
        return None if same and len(os.listdir(directory)) <= _MOST_ENTRIES else otherwise
    except OSError:
        return otherwise


def _mount_of(path: str) -> str:
    """The mount that a directory is on: nothing is moved or linked between two, even of one file system."""
    descriptor = os.open(path, os.O_DIRECTORY | _PATH_ONLY)
    try:
        with open(f"/proc/self/fdinfo/{descriptor}", encoding="ascii") as file:
            return next(line for line in file if line.startswith("mnt_id:"))
    finally:
        os.close(descriptor)


def refusal(path: str, home: str, environment: Mapping[str, str]) -> Text | None:
    """Why no approval of a line covers this path, which needs `sandbox: "off"`; None if one may. `home` is
    $CODER_HOME."""
    person = os.path.realpath(environment.get("HOME") or Path.home())
    on_path = [os.path.realpath(entry) for entry in environment.get("PATH", "").split(os.pathsep) if entry]
    parts = Path(path).parts
    below_home = os.path.relpath(path, person) if within(path, [person]) else ""
    reasons = (
        ("above", within(person, [path])),
        ("secret", names_home_secret([path], person) or within(path, [os.path.realpath(home)])),
        ("starts", below_home.startswith(".") or within(below_home, _HOME_STARTS)),
        ("starts", not _STEERING.isdisjoint(parts)),
        ("path", within(path, on_path)),
        ("system", within(path, _SYSTEM) and not within(path, TEMP)),
    )
    return next((Text(f"sandbox.outside.{why}", path=path) for why, holds in reasons if holds), None)


def refusal_to_open(directory: str, home: str, environment: Mapping[str, str]) -> Text | None:
    """Why no line gets this whole directory, what it contains included; None if one may."""
    for entry in filter(None, environment.get("PATH", "").split(os.pathsep)):
        if within(os.path.realpath(entry), [directory]):
            return Text("sandbox.outside.path", path=entry)
    held = (f"{directory}/{name}" for name in sorted(_STEERING) if os.path.lexists(f"{directory}/{name}"))
    if steering := next(held, ""):
        return Text("sandbox.outside.starts", path=steering)
    return refusal(directory, home, environment)


def _opened_for(path: str) -> str:
    """The directory that a line of known commands gets to make, rename or remove this entry."""
    above = os.path.dirname(path)
    while not os.path.isdir(above):  # `mkdir -p` makes them
        above = os.path.dirname(above)
    return above


class Seen:
    """The directories that a question's paths led to when it was asked, held open so that no other directory
    can pass for one of them."""

    def __init__(self, writes: Sequence[OutsideWrite]) -> None:
        self._directories: dict[str, tuple[str, int]] = {}
        for write in writes:
            directory = _opened_for(write.path)
            with suppress(OSError):
                self._directories[write.path] = directory, open_directory(directory)

    def open(self, path: str) -> tuple[str, int]:
        """The directory that the path is in, or will be, and a descriptor of it. Raises OSError if it is not
        the one that was seen."""
        directory, seen = self._directories.get(path, ("", -1))
        now = _opened_for(path)
        same = now == directory and os.path.realpath(path) == path
        if same and os.path.samestat(os.fstat(seen), os.stat(now, follow_symlinks=False)):
            return directory, seen
        raise OSError(f"{path} is not the place that was approved: something else is there now")

    def __del__(self) -> None:
        while self._directories:
            os.close(self._directories.popitem()[1][1])


class Grants:
    """What one approved line may write. `close` follows the command."""

    def __init__(
        self,
        writes: Sequence[OutsideWrite],
        rules: AccessRules,
        *,
        plain: bool,
        mounts: bool,
        seen: Seen | None = None,
        state: Path | None = None,
        refused: Callable[[str], object] = lambda _directory: None,
    ) -> None:
        """`plain`: the line consists of known commands. `mounts`: the sandbox has its own temporary
        directories. `seen`: the places as they were asked about. `state`: where directories are staged; None
        if the sandbox cannot. `refused`: whether a directory must not be opened. Raises OSError if the places
        have changed, or a file cannot be made."""
        self.opened: dict[str, int] = {}  # what the command may write, and a descriptor of it
        self.staged: dict[str, Staged] = {}
        self._seen = seen or Seen(writes)
        self._plain, self._state, self._refused = plain, state, refused
        self._made: list[str] = []  # empty files, to be filled
        # Entries made in the private /tmp or a staged directory, and where they belong.
        self._moved: dict[str, str] = {}
        # Second names of files that may be replaced or removed, with the files as they were.
        self._linked: dict[str, tuple[str, os.stat_result]] = {}
        self._mounted: list[str] = []  # what mounting leaves in the private /tmp
        try:
            for write in sorted(writes, key=lambda write: not write.entry):
                self._open(write, _private_path(write.path, rules) if mounts else "")
        except BaseException:
            self.close()
            raise

    def _open(self, write: OutsideWrite, private: str) -> None:
        path = write.path
        directory, descriptor = self._seen.open(path)
        if within(path, self.opened) or (private and within(private, self._moved)):
            return
        exists = os.path.lexists(path)
        if private and not os.path.lexists(private):
            if write.entry and not exists:
                self._moved[private] = path
                return
            self._mounted.append(private)
        if write.entry and not private:
            if self._plain and not self._refused(directory):
                self.opened[directory] = os.dup(descriptor)
                return
            if not os.path.isdir(path):
                if self._state is not None and directory != "/":
                    self._stage(path, directory, descriptor, self._state)
                return
            if write.gone or self._refused(path):
                return
        if not exists and not write.entry:
            if any(path.startswith(f"{new}/") for new in self._moved.values()):
                return  # in a directory that the line makes
            made = open_file(Path(path), os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            os.utime(made, (_NEW, _NEW))
            os.close(made)
            self._made.append(path)
        # A directory would be open with all that is in it, such as another repository's hooks.
        if (exists or not write.entry) and (self._plain or not os.path.isdir(path)):
            with parent_of(Path(path)) as above:
                self.opened[path] = os.open(os.path.basename(path), _PATH_ONLY, dir_fd=above)

    def _stage(self, path: str, directory: str, descriptor: int, state: Path) -> None:
        """Let the command make, replace or remove this entry in a directory that stands for the real one."""
        name = path[len(directory.rstrip("/")) + 1 :].split("/")[0]
        if directory not in self.staged:
            make_private(state / _STAGES)
            for old in (state / _STAGES).iterdir():  # of processes that were killed: nothing but mount points
                with suppress(OSError):
                    if time.time() - old.stat().st_mtime > _ABANDONED:
                        remove_tree(old)
            stage = mkdtemp(dir=state / _STAGES)
            names = dict.fromkeys(sorted(os.listdir(directory)), "")
            if len(names) > _MOST_ENTRIES:
                raise OSError(f"{directory} has too many entries")
            for one in names:
                with suppress(OSError):
                    names[one] = os.readlink(one, dir_fd=descriptor)
            self.staged[directory] = Staged(directory, stage, names, descriptor)
        staged = self.staged[directory]
        if name not in staged.names:
            self._moved[f"{staged.stage}/{name}"] = f"{directory}/{name}"
        elif f"{staged.stage}/{name}" not in self._linked:
            os.link(name, f"{staged.stage}/{name}", src_dir_fd=descriptor, follow_symlinks=False)
            self._linked[f"{staged.stage}/{name}"] = path, os.lstat(f"{staged.stage}/{name}")
            del staged.names[name]

    def close(self) -> list[str]:
        """Put new entries where they belong, and remove files that nobody wrote. Returns what went wrong."""
        problems = []
        for private, path in self._moved.items():
            try:
                if os.path.lexists(private):
                    if os.path.lexists(path):
                        raise FileExistsError(0, "it exists by now")
                    self._move(private, path)
            except OSError as error:
                kept = "" if os.path.dirname(path) in self.staged else f"; it is in {private}"
                problems.append(f"{path} was not written ({error.strerror}){kept}")
        for private, (path, before) in self._linked.items():
            try:
                self._replace(private, path, before)
            except OSError as error:
                problems.append(f"{path} is as it was ({error.strerror})")
        for path in (*self._made, *self._mounted):
            with suppress(OSError), parent_of(Path(path)) as directory:
                name = os.path.basename(path)
                info = os.stat(name, dir_fd=directory, follow_symlinks=False)
                untouched = path in self._mounted or info.st_mtime == _NEW
                if stat.S_ISREG(info.st_mode) and not info.st_size and untouched:
                    os.unlink(name, dir_fd=directory)
        for staged in self.staged.values():
            remove_tree(Path(staged.stage))
        while self.opened:
            os.close(self.opened.popitem()[1])
        self._moved, self._made, self._mounted, self._linked, self.staged = {}, [], [], {}, {}
        return problems

    def _move(self, private: str, path: str) -> None:
        """Commands write where it comes from: a link that one left is not followed."""
        with parent_of(Path(private)) as source, self._directory_of(path) as target:
            os.rename(os.path.basename(private), os.path.basename(path), src_dir_fd=source, dst_dir_fd=target)

    def _replace(self, private: str, path: str, before: os.stat_result) -> None:
        """Do to the real file what the command did to its second name."""
        with self._directory_of(path) as directory:
            now = os.stat(os.path.basename(path), dir_fd=directory, follow_symlinks=False)
            if not os.path.samestat(now, before):
                raise FileExistsError(0, "it was replaced meanwhile")
            if not os.path.lexists(private):
                os.unlink(os.path.basename(path), dir_fd=directory)
            elif not os.path.samestat(os.lstat(private), before):
                self._move(private, path)

    def _directory_of(self, path: str) -> AbstractContextManager[int]:
        staged = self.staged.get(os.path.dirname(path))
        return parent_of(Path(path)) if staged is None else nullcontext(staged.descriptor)


def _private_path(path: str, rules: AccessRules) -> str:
    """Where a command's own temporary directory has this path; "" if it is in none."""
    if within(path, rules.seen_in_temp):
        return ""
    found = (directory for directory in rules.temp if path.startswith(f"{directory}/"))
    return next((rules.scratch + path[len(directory) :] for directory in found), "")
