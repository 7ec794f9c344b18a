"""What an approved line may write outside the workspace: exactly the files that the question listed.

A file is created empty before the command and mounted alone, so that nothing beside it can be written. A line
of known commands only (`mkdir`, `mv`, `rm` …), which write nothing but their operands, gets the directory
instead, because a single mounted file can be neither replaced nor removed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from coder.fs.safe_open import open_file, parent_of
from coder.policy.programs import names
from coder.policy.sandbox.caches import within
from coder.policy.sandbox.places import AccessRules, first_below
from coder.policy.scratch import TEMP
from coder.policy.secrets.home import names_home_secret
from coder.policy.shell.verdict import OutsideWrite, ShellVerdict
from coder.texts import Phrase

_SYSTEM = names(
    "/bin /boot /dev /etc /lib /lib64 /opt /proc /run /sbin /sys /usr /var /Library /System /Applications"
)
# Beside dot files: directories of the home in which programs look for what they obey or run.
_HOME_STARTS = ("Library", "bin")
_STEERING = names(".git .coder .claude .codex .mcp.json AGENTS.md CLAUDE.md GEMINI.md")
_NEW = 1  # the modification time of a file that no command has touched yet


def why_not(
    verdict: ShellVerdict, root: str, home: str, environment: Mapping[str, str], *, mounts: bool
) -> Phrase | None:
    """Why no approval lets this line write what it names outside the workspace; None if one does. `mounts` as
    for `Grants`.
    """
    needed = [root, home, environment.get("HOME", "")]
    for write in verdict.outside:
        reason = refusal(write.path, home, environment)
        private = mounts and within(write.path, TEMP) and not within(write.path, first_below(TEMP, needed))
        if reason is None and write.entry and verdict.plain and not private:
            reason = _refusal_to_open(_opened_for(write.path), home, environment)
        if reason is not None:
            return reason
    return None


def refusal(path: str, home: str, environment: Mapping[str, str]) -> Phrase | None:
    """Why no approval of a line covers this path, which needs `sandbox: "off"`; None if one may. `home` is
    $CODER_HOME.
    """
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
    return next((Phrase(f"sandbox.outside.{why}", path=path) for why, holds in reasons if holds), None)


def _refusal_to_open(directory: str, home: str, environment: Mapping[str, str]) -> Phrase | None:
    """Why no line gets this whole directory: what it contains counts too."""
    for entry in filter(None, environment.get("PATH", "").split(os.pathsep)):
        if within(os.path.realpath(entry), [directory]):
            return Phrase("sandbox.outside.path", path=entry)
    held = (f"{directory}/{name}" for name in sorted(_STEERING) if os.path.lexists(f"{directory}/{name}"))
    if steering := next(held, ""):
        return Phrase("sandbox.outside.starts", path=steering)
    return refusal(directory, home, environment)


def _opened_for(path: str) -> str:
    """The directory that a line of known commands gets to make, rename or remove this entry."""
    above = os.path.dirname(path)
    while not os.path.isdir(above):  # `mkdir -p` makes them
        above = os.path.dirname(above)
    return above


class Grants:
    """The files and directories that one approved line may write. `close` follows the command."""

    def __init__(
        self, writes: Sequence[OutsideWrite], rules: AccessRules, *, plain: bool, mounts: bool
    ) -> None:
        """`plain`: the line consists of known commands. `mounts`: the sandbox has its own temporary
        directories. Raises OSError if a file cannot be made.
        """
        self.paths: list[str] = []
        self._made: list[str] = []  # empty files, to be filled
        self._moved: dict[str, str] = {}  # entries made in the private /tmp, and where they belong
        self._mounted: list[str] = []  # what mounting leaves in the private /tmp
        try:
            for write in sorted(writes, key=lambda write: not write.entry):
                self._open(write, plain, _private_path(write.path, rules) if mounts else "")
        except BaseException:
            self.close()
            raise

    def _open(self, write: OutsideWrite, plain: bool, private: str) -> None:
        path = write.path
        if os.path.realpath(path) != path:
            raise OSError(f"{path} is not the file that was approved: a link leads elsewhere now")
        if within(path, self.paths) or (private and within(private, self._moved)):
            return
        exists = os.path.lexists(path)
        if private and not os.path.lexists(private):
            if write.entry and not exists:
                self._moved[private] = path
                return
            self._mounted.append(private)
        if write.entry and plain and not private:
            self.paths.append(_opened_for(path))
            return
        if not exists and not write.entry:
            descriptor = open_file(Path(path), os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            os.utime(descriptor, (_NEW, _NEW))
            os.close(descriptor)
            self._made.append(path)
        # A directory would be open with all that is in it, such as another repository's hooks.
        if (exists or not write.entry) and (plain or not os.path.isdir(path)):
            self.paths.append(path)

    def close(self) -> list[str]:
        """Put new entries of the private /tmp where they belong, and remove files that nobody wrote. Returns
        what went wrong.
        """
        problems = []
        for private, path in self._moved.items():
            try:
                if os.path.lexists(private):
                    if os.path.lexists(path):
                        raise FileExistsError(0, "it exists by now")
                    # Commands write there: a link that one left is not followed.
                    with parent_of(Path(private)) as source, parent_of(Path(path)) as target:
                        old, new = os.path.basename(private), os.path.basename(path)
                        os.rename(old, new, src_dir_fd=source, dst_dir_fd=target)
            except OSError as error:
                problems.append(f"{path} was not written ({error.strerror}); it is in {private}")
        for path in (*self._made, *self._mounted):
            with suppress(OSError), parent_of(Path(path)) as directory:
                name = os.path.basename(path)
                info = os.stat(name, dir_fd=directory, follow_symlinks=False)
                if (
                    stat.S_ISREG(info.st_mode)
                    and not info.st_size
                    and (path in self._mounted or info.st_mtime == _NEW)
                ):
                    os.unlink(name, dir_fd=directory)
        self._moved, self._made, self._mounted = {}, [], []
        return problems


def _private_path(path: str, rules: AccessRules) -> str:
    """Where a command's own temporary directory has this path; "" if it is in none."""
    if within(path, rules.seen_in_temp):
        return ""
    found = (directory for directory in rules.temp if path.startswith(f"{directory}/"))
    return next((rules.scratch + path[len(directory) :] for directory in found), "")
