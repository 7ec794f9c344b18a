"""An index of the workspace that reports what changed since the last scan, for undoing shell commands.

Only files whose stat changed are read, hashed and stored. Paths are bytes, as the system has them. `.git` is
left out, and so are ignored files unless listed in `also`.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from coder.base.ignore import IgnoreRules
from coder.base.safe_open import open_file
from coder.history.tree.index import Base, Entries, EntryKind, IndexEntry, IndexFile, InotifyWatch, SavedIndex
from coder.history.tree.scan_cache import BlobStore
from coder.history.undo.journal import forget_unused

_RACY_NS = 50_000_000  # a file changed this recently may change again with the same timestamp (racy stat)
_FEW = 1_000  # entries that can all be stat-ed each time, in a few milliseconds
_REPOSITORIES = 20  # nested ones whose git state is compared
_GIT, _IGNORE = b".git", b".gitignore"


class TreeLimits(msgspec.Struct, frozen=True):
    """How much is stored: changes beyond it are reported, but cannot be undone."""

    file_bytes: int = 8 << 20
    total_bytes: int = 512 << 20
    entries: int = 200_000


_NOT_COVERED = IndexEntry("other", 0, 0, 0, 0, 0, b"")


Changed = dict[bytes, tuple[IndexEntry | None, IndexEntry | None]]


class _Ignored:
    """Paths hidden by `.gitignore` files, and their rules."""

    def __init__(self, root: bytes) -> None:
        self._root = root
        self.paths: set[bytes] = set()
        self.formerly: set[bytes] = set()  # before the rules changed, during one sync
        self.stale = False  # a `.gitignore` has changed
        self.reread = False  # during one sync
        self._rules: dict[bytes, IgnoreRules] = {}

    def hide(self, path: bytes, is_directory: bool) -> bool:
        if not self._rules_in(os.path.dirname(path)).hide(os.fsdecode(path), is_directory=is_directory):
            return False
        self.paths.add(path)
        return True

    def forget_rules(self) -> None:
        self._rules.clear()

    def reread_rules(self) -> None:
        self.reread = True
        self._rules.clear()
        self.formerly |= self.paths  # files that appear only because a rule is gone are not new
        self.paths.clear()

    def _rules_in(self, directory: bytes) -> IgnoreRules:
        rules = self._rules.get(directory)
        if rules is None:
            text = os.fsdecode(directory)
            if directory == self._root:
                rules = IgnoreRules.at(Path(text), Path(text))
            else:
                rules = self._rules_in(os.path.dirname(directory)).inside(text)
            self._rules[directory] = rules
        return rules


class _HardLinks:
    """Files with several names: inotify does not report writes through another one."""

    def __init__(self) -> None:
        self.paths: set[bytes] = set()
        self._new: set[int] = set()  # inodes that got another name

    def found(self, path: bytes, info: os.stat_result, old: IndexEntry | None) -> None:
        if path not in self.paths or old is None or old.inode != info.st_ino:
            self._new.add(info.st_ino)
        self.paths.add(path)

    def find_other_names(self, entries: Entries) -> None:
        if self._new:
            self.paths |= {path for path, seen in entries.items() if seen.inode in self._new}
            self._new.clear()


class WorkspaceTree:
    """The entries below `root`, as of the last `sync`. `directory` holds contents and index."""

    def __init__(
        self, root: Path, directory: Path, limits: TreeLimits, excluded: Sequence[Path] = ()
    ) -> None:
        self.root = os.fsencode(os.path.realpath(root))
        self.limits = limits
        self.store = BlobStore(directory, limits.total_bytes)
        self.entries: Entries = {}
        self.index = IndexFile(directory / "index")
        self.also: set[bytes] = set()  # covered whatever .gitignore says
        self.shared = False  # other sessions use this workspace
        self.partial = False  # more entries than the limit
        self._excluded = {os.fsencode(os.path.realpath(path)) for path in excluded}
        self._ignored = _Ignored(self.root)
        self._repositories: set[bytes] = set()  # nested `.git`: not covered, but reported if deleted
        self._heads: set[bytes] = set()  # HEAD files, which suggest a bare repository
        self._hard_links = _HardLinks()
        self._dropped: list[bytes] = []  # directories deleted, during one sync
        self._symlink_free: dict[bytes, bool] = {}  # directories without a symlink above, during one sync
        self._settled = False  # a complete scan exists
        self._watch: InotifyWatch | None = None
        self._unsaved = False
        self._touched: set[bytes] = set()  # entries changed since `save_base`

    def sync(self, *, check_hard_links: bool = False) -> Changed:
        """Update the index. Returns changes since the last call, none on the first."""
        first = self._watch is None and not self._settled
        if first:
            self.store.forget_old(in_use=self.shared)
            self._restore(self.index.read(self.store.packs()))
        changed: Changed = {}
        self._symlink_free.clear()
        self._dropped.clear()
        ignored, self._ignored.reread = set(self._ignored.paths), False
        notified = None if self._watch is None else self._watch.changed()
        if notified is None:
            self._walk_all(changed)
        else:
            self._refresh_notified(notified, changed)
        self._hard_links.find_other_names(self.entries)
        check_hard_links = check_hard_links or len(self.entries) <= _FEW or self._names_vanished()
        for path in (
            self.also | self._hard_links.paths | (self._stat_changed() if check_hard_links else set())
        ):
            self._recheck(path, changed)
        self._report_missing(notified, changed)
        if self._ignored.reread:  # created and ignored at once: report it at least
            new = {path for path in self._ignored.paths - ignored if not self._is_within(path, ignored)}
            changed |= dict.fromkeys(new, (_NOT_COVERED, None))
        self._ignored.formerly.clear()
        self.store.flush()
        self._unsaved = self._unsaved or bool(self._touched)
        if first:
            self.save()
            with contextlib.suppress(OSError):
                os.utime(self.store.directory)  # mark as in use, for garbage collection
            forget_unused(self.store.directory.parent, self.store.directory.name)
        return {path: pair for path, pair in changed.items() if not first and _differ(*pair)}

    def inner_git(self) -> list[Path]:
        """Nested git directories, up to the number whose state is compared."""
        return [Path(os.fsdecode(path)) for path in sorted(self._repositories)[:_REPOSITORIES]]

    def content(self, seen: IndexEntry) -> bytes | None:
        """An entry's content; None if it was not stored."""
        return self.store.get(seen.digest) if seen.digest else None

    def repositories(self) -> list[bytes]:
        """Nested git directories and possible bare repositories, as of the last `sync`."""
        return sorted(self._repositories | {os.path.dirname(path) for path in self._heads})

    # walking

    def _walk_all(self, changed: Changed) -> None:
        if self._watch is not None:
            self._watch.close()
        self._watch = InotifyWatch()
        self._ignored.forget_rules()
        while True:
            self._ignored.stale = False
            unseen = self.entries.keys() - self.also
            self._visit(self.root, changed, unseen)
            for path in unseen:
                self._mark_deleted(path, self.entries.pop(path), changed)
            if not self._ignored.stale:
                self._settled = True
                return
            self._ignored.reread_rules()

    def _refresh_notified(self, notified: set[bytes], changed: Changed) -> None:
        """Refresh the paths that inotify reported; `.gitignore` files first, since they affect the rest."""
        for path in sorted(notified, key=lambda p: (not p.endswith(b"/" + _IGNORE), p)):
            self._refresh(path, changed)
            if self._ignored.stale:
                self._ignored.reread_rules()
                self._visit(os.path.dirname(path), changed, set())
                self._ignored.stale = False

    def _refresh(self, path: bytes, changed: Changed) -> None:
        if path in self._ignored.paths or self._is_excluded(path):
            return
        try:
            info = self._lstat(path)
        except PermissionError:  # a change in a directory that is unreadable now
            changed[path] = (_NOT_COVERED, None)
            return
        if info is None:
            self._drop(path, changed)
            return
        directory = stat.S_ISDIR(info.st_mode)
        if path not in self.entries and self._ignored.hide(path, directory):
            return
        if directory:
            old = self.entries.get(path)
            assert self._watch is not None
            if old is None or old.inode != info.st_ino or not self._watch.watching(path):
                self._drop(path, changed)
                self._update(path, info, changed)
                self._visit(path, changed, set())
                return
            if old.mode != stat.S_IMODE(info.st_mode):  # may have been unreadable before
                self._visit(path, changed, set())
        elif path in self.entries and self.entries[path].kind == "folder":
            self._drop(path, changed)
        self._update(path, info, changed)

    def _report_missing(self, notified: set[bytes] | None, changed: Changed) -> None:
        """Report deleted paths that are not covered."""
        ignored = self._ignored.paths if notified is None else self._ignored.paths & notified
        if self._dropped:
            within = tuple(self._dropped)
            ignored |= {path for path in self._ignored.paths if path.startswith(within)}
        for path in [p for p in ignored | self._repositories if not os.path.lexists(p)]:
            self._ignored.paths.discard(path)
            self._repositories.discard(path)
            changed[path] = (_NOT_COVERED, None)

    def _stat_changed(self) -> set[bytes]:
        """Files whose stat changed: perhaps through a hard link that nobody watches."""
        found = set()
        for path, seen in self.entries.items():
            if seen.kind == "file":
                with contextlib.suppress(OSError):
                    info = os.lstat(path)
                    times = (info.st_mtime_ns, info.st_ctime_ns, info.st_size)
                    if times != (seen.mtime, seen.ctime, seen.size):
                        found.add(path)
        return found

    def _names_vanished(self) -> bool:
        """Whether a name was created and deleted since: it may have been a hard link to any file."""
        created = self._watch.take_created() if self._watch is not None else set()
        return any(path not in self.entries and not os.path.lexists(path) for path in created)

    def _recheck(self, path: bytes, changed: Changed) -> None:
        """Update a path that is checked on every sync: written by a tool, or hard-linked."""
        try:
            info = self._lstat(path)
        except PermissionError:
            return
        if info is None:
            self._drop(path, changed)
        elif not stat.S_ISDIR(info.st_mode):
            self._update(path, info, changed)

    def _lstat(self, path: bytes) -> os.stat_result | None:
        """None if absent or behind a symlinked parent. Raises PermissionError."""
        parent = os.path.dirname(path)
        symlink_free = self._symlink_free.get(parent)
        if symlink_free is None:
            symlink_free = self._symlink_free[parent] = os.path.realpath(parent) == parent
        try:
            return os.lstat(path) if symlink_free else None
        except PermissionError:
            raise
        except OSError:
            return None

    def _visit(self, top: bytes, changed: Changed, unseen: set[bytes]) -> None:
        """Walk `top`; removes what it finds from `unseen`."""
        assert self._watch is not None
        stack = [top]
        while stack:
            directory = stack.pop()
            self._watch.add(directory)
            try:
                with os.scandir(directory) as found:
                    listed = list(found)
            except OSError:
                # Unreadable: its contents are not deleted.
                unseen -= {path for path in unseen if path.startswith(directory + b"/")}
                continue
            for entry in listed:
                path = entry.path
                if path in self._ignored.paths or self._is_excluded(path):
                    continue
                is_directory = entry.is_dir(follow_symlinks=False)
                if path not in self.entries and self._ignored.hide(path, is_directory):
                    continue
                try:
                    info = entry.stat(follow_symlinks=False)
                except OSError:
                    continue
                unseen.discard(path)
                self._update(path, info, changed)
                if is_directory and path in self.entries:
                    stack.append(path)

    def _is_excluded(self, path: bytes) -> bool:
        if path.endswith(b"/" + _GIT):
            if len(path) > len(self.root) + len(_GIT) + 1 and os.path.lexists(path):
                self._repositories.add(path)
            return True
        return path in self._excluded

    # the index

    def _update(self, path: bytes, info: os.stat_result, changed: Changed) -> None:
        if path.endswith(b"/HEAD"):
            self._heads.add(path)
        old = self.entries.get(path)
        mode = stat.S_IMODE(info.st_mode)
        if info.st_nlink > 1 and stat.S_ISREG(info.st_mode):
            self._hard_links.found(path, info, old)
        if stat.S_ISDIR(info.st_mode):
            new = IndexEntry("folder", mode, 0, 0, 0, info.st_ino, b"")
            if new == old:
                return
        else:
            times = (info.st_mtime_ns, info.st_ctime_ns, info.st_ino, info.st_size, mode)
            if old is not None and (old.mtime, old.ctime, old.inode, old.size, old.mode) == times:
                return
            new = self._read(path, info, mode)
            if old is not None and not new.digest and _became_unreadable(old, new):
                new = msgspec.structs.replace(new, digest=old.digest)
        if old is None and len(self.entries) >= self.limits.entries:
            self.partial = True
            return
        self.entries[path] = new
        self._touched.add(path)
        if path.endswith(b"/" + _IGNORE) and (old is None or old.digest != new.digest):
            self._ignored.stale = self._ignored.stale or self._settled
        self._record(path, old, new, changed)

    def _read(self, path: bytes, info: os.stat_result, mode: int) -> IndexEntry:
        kind: EntryKind = "other"
        content: bytes | None = None
        if stat.S_ISREG(info.st_mode):
            kind = "file"
            if info.st_size <= self.limits.file_bytes:
                content = _content(path, self.limits.file_bytes)
        elif stat.S_ISLNK(info.st_mode):
            kind = "link"
            content = _target(path)
        digest = (self.store.add(content) if content is not None else None) or b""
        newest = max(info.st_mtime_ns, info.st_ctime_ns)
        ctime = 0 if newest > time.time_ns() - _RACY_NS else info.st_ctime_ns
        return IndexEntry(kind, mode, info.st_size, info.st_mtime_ns, ctime, info.st_ino, digest)

    def _drop(self, path: bytes, changed: Changed) -> None:
        self._hard_links.paths.discard(path)
        old = self.entries.pop(path, None)
        if old is None:
            return
        self._mark_deleted(path, old, changed)
        if old.kind == "folder":
            if self._watch is not None:
                self._watch.forget(path)
            below = path + b"/"
            self._dropped.append(below)
            for gone in [p for p in self.entries if p.startswith(below)]:
                self._mark_deleted(gone, self.entries.pop(gone), changed)

    def _mark_deleted(self, path: bytes, old: IndexEntry, changed: Changed) -> None:
        self._touched.add(path)
        self._record(path, old, None, changed)
        self._ignored.stale = self._ignored.stale or path.endswith(b"/" + _IGNORE)

    def _record(self, path: bytes, old: IndexEntry | None, new: IndexEntry | None, changed: Changed) -> None:
        earlier = changed.get(path)
        if earlier is not None:
            old = earlier[0]
        elif old is None and self._is_within(path, self._ignored.formerly):
            return
        changed[path] = (old, new)

    def _is_within(self, path: bytes, directories: set[bytes]) -> bool:
        while directories and len(path) > len(self.root):
            if path in directories:
                return True
            path = os.path.dirname(path)
        return False

    # persistence

    def restore_from(self, base: Base) -> bool:
        """Load another session's last state for the next `sync`; False if it is lost."""
        return self._restore(base.read(self.store.packs()))

    def _restore(self, saved: SavedIndex | None) -> bool:
        if saved is not None:
            self.entries = saved.entries
            self._ignored.paths = set(saved.ignored)
            self._settled = True
        return saved is not None

    def save(self) -> None:
        """Never raises: a missing index is rebuilt."""
        if self._unsaved:
            self._unsaved = False
            self.store.flush()
            self.index.write(self.store.packs(), self.entries, sorted(self._ignored.paths))

    def save_base(self, base: Base) -> None:
        """Write the last state to disk, for recovery after a kill. Raises OSError."""
        if base.needs_rewrite:
            self.save()
            base.write(self.index, self.store.packs(), self.entries, sorted(self._ignored.paths))
        else:
            base.append({path: self.entries.get(path) for path in self._touched})
        self._touched.clear()

    def close(self) -> None:
        if self._watch is not None:
            self.save()
            self._watch.close()
        self.store.close()


def _differ(old: IndexEntry | None, new: IndexEntry | None) -> bool:
    if old is None or new is None:
        return old is not new
    if (old.kind, old.mode) != (new.kind, new.mode):
        return True
    if old.digest and new.digest:
        return old.digest != new.digest
    # mtime can be set by programs. ctime is 0 if it was racily recent.
    touched = bool(old.ctime) and old.ctime != new.ctime
    return touched or (old.size, old.mtime, bool(old.digest)) != (new.size, new.mtime, bool(new.digest))


def _became_unreadable(old: IndexEntry, new: IndexEntry) -> bool:
    """Whether a file only lost its read permission."""
    was, now = (old.kind, old.inode, old.size, old.mtime), (new.kind, new.inode, new.size, new.mtime)
    return was == now and not new.mode & stat.S_IRUSR


def _content(path: bytes, limit: int) -> bytes | None:
    """The bytes of a regular file; None if it is not one, unreadable or too large."""
    try:
        fd = open_file(Path(os.fsdecode(path)))
    except OSError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return None
        parts = []
        size = 0
        while size <= limit and (part := os.read(fd, 1 << 20)):
            parts.append(part)
            size += len(part)
        return b"".join(parts) if size <= limit else None
    except OSError:
        return None
    finally:
        os.close(fd)


def _target(path: bytes) -> bytes | None:
    try:
        return os.readlink(path)
    except OSError:
        return None
