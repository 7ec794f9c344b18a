"""Repositories further down in the workspace, and what a command does to the files that steer git in them.

Their settings and hooks name programs that git runs outside the sandbox one day, when the person, or the
prompt of their shell, calls it there. Those that were there before a command are locked where the rung can
lock, and on every rung looked at again afterwards: what has other bytes than before is put back. Those that a
command makes are its own to make; where their bytes hold a setting that may name a program, that is said. No
file is read as git reads it: whoever does that otherwise than git sees something else.

Finding them is not done here: `marks` come from the memory that undo keeps of the tree. Looking costs a few
questions to the file system for each repository, and reads only what has changed.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from coder.fs.atomic import replace_file
from coder.fs.safe_open import delete_file, parent_of, read_whole

_MOST = 500  # repositories that are looked at
_MOST_LOCKED = 16  # places; each is a mount, at a third of a millisecond
_MOST_BYTES = 256 * 1024
_MODULE_DEPTH = 6  # of folders in .git/modules: a submodule is named by its path

_OF_BARE = ("HEAD", "objects", "refs")  # what makes git take a folder for a repository
_LEADING = (".git", "commondir")  # files that say where the settings are
# Settings that name a program or a place to take settings from, wherever git would see a key; too many rather
# than too few.
_KEYS = (
    rb"\w*(?:fsmonitor|pager|command|proxy|askpass|external|program|difffilter|textconv|clean|smudge|process|pack|vcs"
    rb"|hookspath|hook|editor|attributesfile|templatedir|allow|octopus|twohead|tunnel|server|browser|httpd|driver"
    rb"|cmd|helper|path|update|tool|diffmerges|submodule|whatchanged|showsignature)"
)
_TODO = os.path.join("rebase-merge", "git-rebase-todo")
_STEP = re.compile(rb"^[ \t]*(?:exec|x)[ \t].*", re.M)  # of a rebase that waits to be continued: a shell line
_NAMING = re.compile(rb"(?:\A|[\s\]\xbf])" + _KEYS + rb"(?=[\s=;#]|\Z)|\[\s*(?:include|alias|pager)", re.I)

Hooks = dict[str, tuple[int, bytes]]


class _File(msgspec.Struct, frozen=True):
    """A steering file; no content where there is none, or none that can be read."""

    key: tuple[int, ...] = ()
    mode: int = 0
    content: bytes | None = None
    plain: bool = True  # neither a link nor something that cannot be read


class _Hooks(msgspec.Struct, frozen=True):
    """What a folder of hooks holds, without git's own samples; of a link, itself under no name."""

    key: tuple[object, ...]
    held: Hooks


class _Repository(msgspec.Struct, frozen=True):
    mark: str
    git: str  # its own folder, wherever the mark leads
    files: dict[str, _File]
    hooks: str = ""
    held: Hooks = {}
    inode: int = 0  # of that folder
    steps: frozenset[bytes] = frozenset()  # that `git rebase --continue` would run

    def places(self) -> list[str]:
        there = [path for path, file in self.files.items() if file.content is not None and file.plain]
        return [*there, self.hooks] if self.hooks and "" not in self.held else there


class Settled(msgspec.Struct, frozen=True):
    """What a command did. `put_back`: files that are again as they were. `left`: repositories that it made,
    or files that could not be put back, with programs for git to run."""

    put_back: list[str] = []
    left: list[str] = []


class Repositories:
    """Those of one workspace. Commands may run beside each other: what the first of them found holds until
    the last has ended."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._before: dict[str, _Repository] = {}
        self._own = ""  # the workspace's own git folder, which is locked elsewhere (`sandbox_places`)
        self._own_link = False  # its hooks are a link, which nothing can lock
        self._settings = False  # the person let a command change its settings
        self._made: set[str] = set()  # by commands: not locked, so that they can be removed as well
        self._running = 0
        self._files: dict[str, _File] = {}
        self._hooks: dict[str, _Hooks] = {}

    def look(self, marks: Iterable[str], *, settings: bool = False) -> None:
        """Before a command. `marks`: each `.git` further down (a folder or a file), and folders that may be
        bare repositories. `settings`: the person let it change those of the workspace's own."""
        self._settings = settings or (self._settings and self._running > 0)
        if not self._running:
            top = os.path.join(self._root, ".git")
            self._own = os.path.realpath(top) if os.path.isdir(top) else ""
            self._own_link = os.path.islink(os.path.join(self._own, "hooks"))
            self._before = {found.mark: found for found in self._found(marks)}
        self._running += 1

    def settle(self, marks: Iterable[str]) -> Settled:
        """After it: put back what it should not have changed, and say what else it left for git to run."""
        self._running -= 1
        put_back: list[str] = []
        left: list[str] = []
        files = {path: file for one in self._before.values() for path, file in one.files.items()}
        hooks = {one.hooks: one.held for one in self._before.values()}
        for now in self._found(marks):
            known = self._before.get(now.mark)
            # Of the workspace's own the lock falls with the file, when the person's git replaces it: what
            # they set in it meanwhile is theirs, but for the names of programs.
            own = known is None or now.mark in self._made or now.git == self._own
            bad = [path for path, file in now.files.items() if _turned(path, files.get(path), file, own)]
            bad += _other_hooks(hooks.get(now.hooks, {}), now)
            if now.steps - (known.steps if known is not None else frozenset()):
                left.append(os.path.join(now.git, _TODO))
            if known is None:
                self._made.add(now.mark)
                left += [now.mark] if bad or not _within(now.git, self._root) else []
                continue
            if any(os.path.basename(path) in _LEADING for path in bad):  # what they led to stays out of it
                bad = [path for path in bad if path in files or os.path.basename(path) in _LEADING]
            if known.inode == now.inode:  # else it is another one, with hooks of its own
                bad += [os.path.join(now.hooks, name) for name in known.held.keys() - now.held.keys() - {""}]
            for path in bad:
                done = _put_back(path, files.get(path), hooks.get(now.hooks, {}))
                (put_back if done else left).append(path)
        return Settled(list(dict.fromkeys(put_back)), list(dict.fromkeys(left)))

    def locked(self) -> list[str]:
        """What a rung that can lock should: of the repositories that no command made, as far as it goes."""
        found = [one for one in self._before.values() if one.mark not in self._made and one.git != self._own]
        places = dict.fromkeys(path for one in found for path in one.places())
        return [path for path in places if os.path.lexists(path)][:_MOST_LOCKED]

    def _found(self, marks: Iterable[str]) -> Iterator[_Repository]:
        own = git_folders_in(self._own) if self._own else ()
        named = [*marks, *own, os.path.join(self._root, ".git")]
        if all(os.path.lexists(os.path.join(self._root, name)) for name in _OF_BARE):
            named.append(self._root)
        for mark in list(dict.fromkeys(named))[:_MOST]:
            with contextlib.suppress(OSError, ValueError):
                git, pointer = self._led(mark)
                if git:
                    yield self._repository(mark, git, pointer)

    def _led(self, mark: str) -> tuple[str, dict[str, _File]]:
        """The git folder that a mark leads to, and the file that says so; "" where there is none."""
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
        if not _within(git, self._root):
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
        if common == self._own or not _within(common, self._root):
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

    def _hooks_in(self, folder: str) -> Hooks:
        kept = self._hooks.get(folder)
        try:
            info = os.lstat(folder)
            if stat.S_ISLNK(info.st_mode):
                return {"": (info.st_mode, os.fsencode(os.readlink(folder)))}
            same = kept is not None and kept.key[0] == info.st_mtime_ns
            names = list(kept.held) if kept is not None and same else _hook_names(folder)
            stats = [os.lstat(os.path.join(folder, name)) for name in names]
        except OSError:
            return {}
        key = (info.st_mtime_ns, *((one.st_ino, one.st_mtime_ns, one.st_ctime_ns) for one in stats))
        if kept is None or kept.key != key:
            pairs = list(zip(names, stats, strict=True))
            read = [self._read(os.path.join(folder, name), one)[0] or b"" for name, one in pairs]
            held = {name: (one.st_mode, data) for (name, one), data in zip(pairs, read, strict=True)}
            self._hooks[folder] = kept = _Hooks(key, held)
        return kept.held


def git_folders_in(git: str) -> Iterator[str]:
    """The folders of submodules and worktrees that a repository keeps in its own."""
    stack = [(os.path.join(git, "modules"), 0)]
    while stack:
        folder, depth = stack.pop()
        names = _folders(folder)
        if depth and "objects" in names:
            yield folder
            stack.append((os.path.join(folder, "modules"), 0))
        elif depth < _MODULE_DEPTH:
            stack += [(os.path.join(folder, name), depth + 1) for name in names]
    trees = os.path.join(git, "worktrees")
    yield from (os.path.join(trees, name) for name in _folders(trees))


def _inode(path: str) -> int:
    try:
        return os.lstat(path).st_ino
    except OSError:
        return 0


def _folders(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as found:
            return [entry.name for entry in found if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _hook_names(folder: str) -> list[str]:
    return sorted(name for name in os.listdir(folder) if not name.endswith(".sample"))


def _turned(path: str, before: _File | None, now: _File, own: bool) -> bool:
    """Whether this file has changed; where commands made the repository (`own`), or the file is new, whether
    it has come to name a program, or another place to take settings from."""
    if before is not None and before.key == now.key:
        return False
    if now.content is None or not now.plain:
        return not now.plain
    if before is not None and before.content == now.content:
        return False
    if os.path.basename(path) in _LEADING:
        return before is not None  # a new one leads where it leads: what is there is looked at as well
    if before is not None and not own:
        return True
    was = _naming_lines(before.content or b"") if before is not None else set()
    return bool(_naming_lines(now.content) - was)


def _naming_lines(content: bytes) -> set[bytes]:
    return {line for line in re.split(rb"[\r\n]", content) if _NAMING.search(line)}


def _path(content: bytes) -> str:
    """As git takes it: blanks belong to the name."""
    return os.fsdecode(content.rstrip(b"\r\n"))


def _other_hooks(before: Hooks, now: _Repository) -> list[str]:
    return [
        os.path.join(now.hooks, name).rstrip("/")
        for name, held in now.held.items()
        if before.get(name) != held
    ]


def _put_back(path: str, before: _File | None, hooks: Hooks) -> bool:
    """As it was; taken away where it was not. False where that cannot be done: a link is in the way, say."""
    mode, content = (before.mode, before.content) if before is not None else (0, None)
    if os.path.basename(os.path.dirname(path)) == "hooks":
        mode, content = hooks.get(os.path.basename(path), (0, None))
    elif os.path.basename(path) == "hooks" and "" in hooks:
        mode, content = hooks[""]
    try:
        if stat.S_ISLNK(mode):
            _link_again(Path(path), content or b"")
        elif content is None:
            delete_file(Path(path))
        else:
            replace_file(Path(path), content, stat.S_IMODE(mode))
    except (OSError, ValueError):
        return False
    return True


def _link_again(path: Path, target: bytes) -> None:
    with parent_of(path) as folder:
        os.unlink(path.name, dir_fd=folder)
        os.symlink(target, os.fsencode(path.name), dir_fd=folder)


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
