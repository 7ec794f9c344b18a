"""Guards the control files of nested git repositories against sandboxed commands.

Settings and hooks name programs that git later runs outside the sandbox, when the person or their shell
prompt calls it there. Those of existing repositories are locked where the backend can, and on every one
compared afterwards: changed files are restored. Repositories that a command creates are its own; if their
settings may name a program, that is reported. No file is parsed as git does it, since any difference would be
a hole.

Finding repositories is not done here: `marks` come from undo's snapshot of the tree. A check costs a few stat
calls per repository, and reads only what has changed."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from coder.base.files import replace_file
from coder.base.safe_open import delete_file, parent_of, read_whole
from coder.policy.sandbox.caches import within

_MOST = 500  # repositories that are checked
_MOST_LOCKED = 16  # paths; each is a mount, at a third of a millisecond
_MOST_BYTES = 256 * 1024
_MODULE_DEPTH = 6  # of .git/modules: a submodule is named by its path

_OF_BARE = ("HEAD", "objects", "refs")  # what makes git treat a directory as a repository
_POINTERS = (".git", "commondir")  # files that point to the settings
# Settings that name a program or another settings file, wherever git would see a key; over-inclusive.
_KEYS = (
    rb"\w*(?:fsmonitor|pager|command|proxy|askpass|external|program|difffilter|textconv|clean|smudge|process|pack|vcs"
    rb"|hookspath|hook|editor|attributesfile|templatedir|allow|octopus|twohead|tunnel|server|browser|httpd|driver"
    rb"|cmd|helper|path|update|tool|diffmerges|submodule|whatchanged|showsignature)"
)
_TODO = os.path.join("rebase-merge", "git-rebase-todo")
_STEP = re.compile(rb"^[ \t]*(?:exec|x)[ \t].*", re.M)  # a shell command in a pending rebase
_NAMING = re.compile(rb"(?:\A|[\s\]\xbf])" + _KEYS + rb"(?=[\s=;#]|\Z)|\[\s*(?:include|alias|pager)", re.I)

Hooks = dict[str, tuple[int, bytes]]


class _File(msgspec.Struct, frozen=True):
    """A control file; no content if it is missing or unreadable."""

    key: tuple[int, ...] = ()
    mode: int = 0
    content: bytes | None = None
    plain: bool = True  # readable and no symlink


class _Hooks(msgspec.Struct, frozen=True):
    """The content of a hooks directory, without git's samples; a symlink is kept under the empty name."""

    key: tuple[object, ...]
    held: Hooks


class _Repository(msgspec.Struct, frozen=True):
    mark: str
    git: str  # the git directory that the mark leads to
    files: dict[str, _File]
    hooks: str = ""
    held: Hooks = {}
    inode: int = 0  # of the git directory
    steps: frozenset[bytes] = frozenset()  # that `git rebase --continue` would run

    def places(self) -> list[str]:
        there = [path for path, file in self.files.items() if file.content is not None and file.plain]
        return [*there, self.hooks] if self.hooks and "" not in self.held else there


class Settled(msgspec.Struct, frozen=True):
    """The outcome of a command. `put_back`: restored files. `left`: new repositories, or files that could not
    be restored, that name programs for git to run."""

    put_back: list[str] = []
    left: list[str] = []


class Repositories:
    """Those of one workspace. Commands may overlap: the snapshot before the first holds until the last has
    ended."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._before: dict[str, _Repository] = {}
        self._own = ""  # the workspace's own git directory, locked by `places`
        self._own_link = False  # its hooks are a symlink, which cannot be locked
        self._settings = False  # the person allowed a command to change its settings
        self._made: set[str] = set()  # created by commands: not locked, so that they can be removed
        self._running = 0
        self._files: dict[str, _File] = {}
        self._hooks: dict[str, _Hooks] = {}

    def look(self, marks: Iterable[str], *, settings: bool = False) -> None:
        """Snapshot before a command. `marks`: each nested `.git` (directory or file), and directories that
        may be bare repositories. `settings`: the person allowed it to change those of the workspace's own."""
        self._settings = settings or (self._settings and self._running > 0)
        if not self._running:
            top = os.path.join(self._root, ".git")
            self._own = os.path.realpath(top) if os.path.isdir(top) else ""
            self._own_link = os.path.islink(os.path.join(self._own, "hooks"))
            self._before = {found.mark: found for found in self._discover(marks)}
        self._running += 1

    def settle(self, marks: Iterable[str]) -> Settled:
        """After a command: restore what it must not change, and report what else it left for git to run."""
        self._running -= 1
        put_back: list[str] = []
        left: list[str] = []
        files = {path: file for one in self._before.values() for path, file in one.files.items()}
        hooks = {one.hooks: one.held for one in self._before.values()}
        for now in self._discover(marks):
            known = self._before.get(now.mark)
            # The lock on the workspace's own settings is lost when the person's git replaces the file: what
            # they set meanwhile stays, but for names of programs.
            own = known is None or now.mark in self._made or now.git == self._own
            bad = [
                path for path, one in now.files.items() if _names_programs(path, files.get(path), one, own)
            ]
            before = hooks.get(now.hooks, {})
            other = (name for name, held in now.held.items() if before.get(name) != held)
            bad += [os.path.join(now.hooks, name).rstrip("/") for name in other]
            if now.steps - (known.steps if known is not None else frozenset()):
                left.append(os.path.join(now.git, _TODO))
            if known is None:
                self._made.add(now.mark)
                left += [now.mark] if bad or not within(now.git, [self._root]) else []
                continue
            # Ignore the files that a changed pointer leads to.
            if any(os.path.basename(path) in _POINTERS for path in bad):
                bad = [path for path in bad if path in files or os.path.basename(path) in _POINTERS]
            if known.inode == now.inode:  # else it was replaced, with hooks of its own
                bad += [os.path.join(now.hooks, name) for name in known.held.keys() - now.held.keys() - {""}]
            for path in bad:
                done = _restore(path, files.get(path), before)
                (put_back if done else left).append(path)
        return Settled(list(dict.fromkeys(put_back)), list(dict.fromkeys(left)))

    def locked(self) -> list[str]:
        """The paths to lock: of repositories that no command created, up to a limit."""
        found = [one for one in self._before.values() if one.mark not in self._made and one.git != self._own]
        places = dict.fromkeys(path for one in found for path in one.places())
        return [path for path in places if os.path.lexists(path)][:_MOST_LOCKED]

    def _discover(self, marks: Iterable[str]) -> Iterator[_Repository]:
        own = git_directories_in(self._own) if self._own else ()
        named = [*marks, *own, os.path.join(self._root, ".git")]
        if all(os.path.lexists(os.path.join(self._root, name)) for name in _OF_BARE):
            named.append(self._root)
        for mark in list(dict.fromkeys(named))[:_MOST]:
            with contextlib.suppress(OSError, ValueError):
                git, pointer = self._git_directory(mark)
                if git:
                    yield self._repository(mark, git, pointer)

    def _git_directory(self, mark: str) -> tuple[str, dict[str, _File]]:
        """The git directory that a mark leads to, and the pointer file; "" if there is none."""
        info = os.lstat(mark)
        if stat.S_ISREG(info.st_mode):
            pointer = self._file(mark)
            said = _path((pointer.content or b"").removeprefix(b"gitdir: "))
            return os.path.realpath(os.path.join(os.path.dirname(mark), said)), {mark: pointer}
        if stat.S_ISLNK(info.st_mode):
            return os.path.realpath(mark), {mark: self._file(mark)}
        bare = mark.endswith("/.git") or os.path.isdir(os.path.join(mark, "objects"))
        return (mark if bare or os.path.lexists(os.path.join(mark, "commondir")) else ""), {}

    def _repository(self, mark: str, git: str, files: dict[str, _File]) -> _Repository:
        if not within(git, [self._root]):
            return _Repository(mark, git, files)
        steps = frozenset(_STEP.findall(self._file(os.path.join(git, _TODO)).content or b""))
        if git == self._own:
            return self._own_repository(mark, files, steps)
        shared = os.path.join(git, "commondir")
        files[shared] = self._file(shared)
        common = git
        if files[shared].content is not None:
            common = os.path.realpath(os.path.join(git, _path(files[shared].content or b"")))
        for path in (os.path.join(git, "config"), os.path.join(git, "config.worktree")):
            files[path] = self._file(path)
        if common == self._own or not within(common, [self._root]):
            return _Repository(mark, git, files, steps=steps)
        config, hooks = os.path.join(common, "config"), os.path.join(common, "hooks")
        files.setdefault(config, self._file(config))
        return _Repository(mark, git, files, hooks, self._hooks_in(hooks), _inode(git), steps)

    def _own_repository(self, mark: str, files: dict[str, _File], steps: frozenset[bytes]) -> _Repository:
        for name in () if self._settings else ("config", "config.worktree"):
            path = os.path.join(self._own, name)
            files[path] = self._file(path)
        if not self._own_link:
            return _Repository(mark, self._own, files, steps=steps)
        hooks = os.path.join(self._own, "hooks")
        return _Repository(mark, self._own, files, hooks, self._hooks_in(hooks), steps=steps)

    def _file(self, path: str) -> _File:
        try:
            info = os.lstat(path)
        except OSError:
            return _File()
        key = (info.st_ino, info.st_mtime_ns, info.st_ctime_ns, info.st_size)
        kept = self._files.get(path)
        if kept is None or kept.key != key:
            kept = _File(key, stat.S_IMODE(info.st_mode), *self._read(path, info))
            self._files[path] = kept
        return kept

    def _read(self, path: str, info: os.stat_result) -> tuple[bytes | None, bool]:
        try:
            return read_whole(Path(path), _MOST_BYTES, Path(self._root)), not stat.S_ISLNK(info.st_mode)
        except (OSError, ValueError):
            return None, False

    def _hooks_in(self, directory: str) -> Hooks:
        kept = self._hooks.get(directory)
        try:
            info = os.lstat(directory)
            if stat.S_ISLNK(info.st_mode):
                return {"": (info.st_mode, os.fsencode(os.readlink(directory)))}
            same = kept is not None and kept.key[0] == info.st_mtime_ns
            listed = list(kept.held) if kept is not None and same else sorted(os.listdir(directory))
            names = [name for name in listed if not name.endswith(".sample")]
            stats = [os.lstat(os.path.join(directory, name)) for name in names]
        except OSError:
            return {}
        key = (info.st_mtime_ns, *((one.st_ino, one.st_mtime_ns, one.st_ctime_ns) for one in stats))
        if kept is None or kept.key != key:
            pairs = list(zip(names, stats, strict=True))
            read = [self._read(os.path.join(directory, name), one)[0] or b"" for name, one in pairs]
            held = {name: (one.st_mode, data) for (name, one), data in zip(pairs, read, strict=True)}
            self._hooks[directory] = kept = _Hooks(key, held)
        return kept.held


def git_directories_in(git: str) -> Iterator[str]:
    """The git directories of submodules and worktrees inside a repository's own."""
    stack = [(os.path.join(git, "modules"), 0)]
    while stack:
        directory, depth = stack.pop()
        names = _directories(directory)
        if depth and "objects" in names:
            yield directory
            stack.append((os.path.join(directory, "modules"), 0))
        elif depth < _MODULE_DEPTH:
            stack += [(os.path.join(directory, name), depth + 1) for name in names]
    trees = os.path.join(git, "worktrees")
    yield from (os.path.join(trees, name) for name in _directories(trees))


def _inode(path: str) -> int:
    try:
        return os.lstat(path).st_ino
    except OSError:
        return 0


def _directories(directory: str) -> list[str]:
    try:
        with os.scandir(directory) as found:
            return [entry.name for entry in found if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _names_programs(path: str, before: _File | None, now: _File, own: bool) -> bool:
    """Whether this file has changed; if commands created the repository (`own`), or the file is new, whether
    it now names a program or another settings file."""
    if before is not None and before.key == now.key:
        return False
    if now.content is None or not now.plain:
        return not now.plain
    if before is not None and before.content == now.content:
        return False
    if os.path.basename(path) in _POINTERS:
        return before is not None  # the target of a new one is checked as well
    if before is not None and not own:
        return True
    was = _naming_lines(before.content or b"") if before is not None else set()
    return bool(_naming_lines(now.content) - was)


def _naming_lines(content: bytes) -> set[bytes]:
    return {line for line in re.split(rb"[\r\n]", content) if _NAMING.search(line)}


def _path(content: bytes) -> str:
    """As git parses it: blanks belong to the name."""
    return os.fsdecode(content.rstrip(b"\r\n"))


def _restore(path: str, before: _File | None, hooks: Hooks) -> bool:
    """Restore the previous content, or delete what was not there. False if it fails, for example on a symlink
    race."""
    mode, content = (before.mode, before.content) if before is not None else (0, None)
    if os.path.basename(os.path.dirname(path)) == "hooks":
        mode, content = hooks.get(os.path.basename(path), (0, None))
    elif os.path.basename(path) == "hooks" and "" in hooks:
        mode, content = hooks[""]
    try:
        if stat.S_ISLNK(mode):
            with parent_of(Path(path)) as directory:
                os.unlink(os.path.basename(path), dir_fd=directory)
                os.symlink(content or b"", os.fsencode(os.path.basename(path)), dir_fd=directory)
        elif content is None:
            delete_file(Path(path))
        else:
            replace_file(Path(path), content, stat.S_IMODE(mode))
    except (OSError, ValueError):
        return False
    return True
