"""The launcher of the Landlock backend: a small program that imports nothing of coder.

It forks. The parent stays outside the sandbox as a supervisor ("child subreaper"): it adopts the command's
orphans and kills them. The child sandboxes itself with Landlock (files) and seccomp (sockets) and execs
the command. Landlock rules are additive, so a directory inside the writable workspace cannot be excluded:
the parent restores those few files afterwards.

    python -I -S -c "…; from launch import main; main()" DIRECTORY SPEC COMMAND…

Imported rather than run: its bytecode is cached. SPEC (see `run`) is marshalled, as importing
`json` would double the start-up time.
"""

from __future__ import annotations

import ctypes
import os
import stat
import sys
import time

TYPE_CHECKING = False  # avoids importing `typing`
if TYPE_CHECKING:
    import signal
    from collections.abc import Iterable, Iterator
    from types import FrameType
    from typing import Any, NoReturn
else:
    import _signal as signal  # `signal` imports `enum`: a third of the start-up time

LIBC = ctypes.PyDLL(None, use_errno=True)  # holds the GIL: for calls that do not block

_PR_SET_PDEATHSIG = 1
_PR_SET_SECCOMP = 22
_PR_CAPBSET_DROP = 24
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on every architecture
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_ALL_OF_ABI_1 = (1 << 13) - 1
_REFER, _TRUNCATE = 1 << 13, 1 << 14
_MAKE_CHAR, _MAKE_BLOCK = 1 << 6, 1 << 11
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE
SCOPE_ABSTRACT_SOCKETS, _SCOPE_SIGNALS = 1 << 0, 1 << 1

_KEPT_CAPABILITIES = {
    *range(2),
    *range(3, 8),
    10,
}  # CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID, BIND
_GUARDED_BYTES = 4_000_000
_GUARDED_DEPTH = 100  # of directories: git reads hooks and settings from the first few
_REMOVAL_SECONDS = 60
SCOPES_FROM = 6  # the Landlock ABI with scopes for abstract sockets and signals
CANNOT = 125  # exit status: the sandbox could not be set up, and the command was not run


class Program(ctypes.Structure):
    """`struct sock_fprog`."""

    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def program_of(data: bytes) -> tuple[Program, object]:
    """The filter, and the buffer that must outlive it."""
    buffer = ctypes.create_string_buffer(data, len(data))
    return Program(len(data) // 8, ctypes.cast(buffer, ctypes.c_void_p)), buffer


def landlock_abi() -> int:
    """0 if the kernel has no Landlock."""
    version: int = LIBC.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    return max(0, version)


# Landlock


def restrict_files(spec: dict[str, Any]) -> None:
    """Allow reading everything but `hidden` and what is in `emptied`, and writing `writable`."""
    abi = landlock_abi()
    handled = _ALL_OF_ABI_1 | (_REFER if abi >= 2 else 0) | (_TRUNCATE if abi >= 3 else 0)
    scoped = SCOPE_ABSTRACT_SOCKETS | _SCOPE_SIGNALS if abi >= 6 else 0
    words = [handled] if abi < 4 else [handled, 0] if abi < 6 else [handled, 0, scoped]
    ruleset = make_ruleset(words)
    hidden = spec["hidden"]
    closed = [*hidden, *spec["emptied"]]
    for path in all_but(closed):
        _allow(ruleset, path, _READ & handled)
    for path in spec["readable"]:
        for part in all_but([one for one in closed if one.startswith(path + "/")], path):
            _allow(ruleset, part, _READ & handled)
    parts = [one.split("/") for one in spec["emptied"]]
    for path in {
        "/".join(one[:n]) for one in parts for n in range(2, len(one))
    }:  # other entries can be listed
        if not any(one.startswith(path + "/") for one in hidden):
            _allow(ruleset, path, _READ_DIR)
    write = handled & ~_MAKE_CHAR & ~_MAKE_BLOCK
    for path in spec["writable"]:
        for part in all_but([h for h in hidden if h.startswith(path + "/")], path):
            _allow(ruleset, part, write, spec["granted"].get(path))
    for path in spec["devices"]:
        _allow(ruleset, path, (_READ_FILE | _WRITE_FILE | _TRUNCATE | _READ_DIR) & handled)
    enter(ruleset)


def make_ruleset(words: list[int]) -> int:
    attributes = (ctypes.c_uint64 * len(words))(*words)
    return call(_CREATE_RULESET, ctypes.byref(attributes), ctypes.c_size_t(ctypes.sizeof(attributes)), 0)


def enter(ruleset: int) -> None:
    """Restrict this thread and its children, irreversibly."""
    try:
        call(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def all_but(hidden: Iterable[str], top: str = "/") -> Iterator[str]:
    """The fewest paths that together cover all below `top` except the hidden ones."""
    hidden = set(hidden)
    above = {top} if hidden else set()
    for path in hidden:
        parent = os.path.dirname(path)
        while len(parent) > len(top):
            above.add(parent)
            parent = os.path.dirname(parent)
    if not hidden:
        yield top
    for directory in above - hidden:
        try:
            names = os.listdir(directory)
        except OSError:
            continue
        for name in names:
            path = os.path.join(directory, name)
            # A rule on a symlink applies to its target, which has, or lacks, a rule of its own.
            if path not in hidden and path not in above and path != "/dev" and not os.path.islink(path):
                yield path


def _allow(ruleset: int, path: str, access: int, identity: tuple[int, int] | None = None) -> None:
    """`identity`: device and number of the file that was approved; another one stays denied."""
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        found = os.fstat(fd)
        if identity is not None and identity != (found.st_dev, found.st_ino):
            return
        if not stat.S_ISDIR(found.st_mode):
            access &= _OF_FILES
        rule = access.to_bytes(8, sys.byteorder) + fd.to_bytes(4, sys.byteorder)
        LIBC.syscall(_ADD_RULE, ruleset, 1, rule, 0)  # on failure the path stays denied
    finally:
        os.close(fd)


def call(number: int, *arguments: Any) -> int:
    return checked(LIBC.syscall(number, *arguments))


def checked(result: int) -> int:
    if result < 0:
        problem = ctypes.get_errno()
        raise OSError(problem, os.strerror(problem))
    return result


def no_new_privileges() -> None:
    if LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "no_new_privs")


def restrict_calls(data: bytes) -> None:
    program, _buffer = program_of(data)
    if LIBC.prctl(_PR_SET_SECCOMP, 2, ctypes.byref(program), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "seccomp")


# the parent: supervises the command


_STOPPING = (signal.SIGTERM, signal.SIGINT)


class _Stopped(Exception):
    """SIGTERM or SIGINT arrived."""


def run(spec: dict[str, Any], command: list[str]) -> int:
    """Run `command` in the sandbox and return its exit status. `spec`: hidden, emptied, readable, writable,
    devices, guarded (paths), filter (seccomp), shut_in, cwd, environment, in_temp; temp (TMPDIR), path
    (PATH), fresh (where a throw-away TMPDIR is made), or ""."""
    if spec["fresh"]:
        spec["temp"] = os.path.join(spec["fresh"], f"once-{os.urandom(8).hex()}")
        os.mkdir(spec["temp"], 0o700)
        spec["writable"].append(spec["temp"])
        for name, value in spec["in_temp"].items():
            whole = value.replace("{TMPDIR}", spec["temp"])
            spec["environment"][name] = whole if whole != value else f"{spec['temp']}/{value}"
    try:
        return _run(spec, command)
    finally:
        if spec["fresh"]:
            _remove_temp(spec)


def _remove_temp(spec: dict[str, Any]) -> None:
    """What cannot be removed stays: the command's exit status does not depend on it."""
    try:
        above = os.open(spec["fresh"], _OPEN_DIRECTORY)
        try:
            remove(above, os.path.basename(spec["temp"]), closed=True)
        finally:
            os.close(above)
    except OSError:
        pass


def _run(spec: dict[str, Any], command: list[str]) -> int:
    guards = _guards(spec["cwd"], spec["guarded"])
    parent = _become_supervisor()
    apart = spec["shut_in"] and _scope_signals()
    child = os.fork()
    if child == 0:
        _exec_sandboxed(spec, command, parent)
    code = _supervise(child, apart)
    for guard in guards:
        if said := guard.restore():
            os.write(2, f"coder: {said}\n".encode("utf-8", "surrogateescape"))
    return code


def run_supervised_twice(spec: dict[str, Any], command: list[str]) -> int:
    """`run` for an unsandboxed command, which can kill or stop its supervisor: a second one remains."""
    _become_supervisor()
    child = os.fork()
    if child == 0:
        os._exit(run(spec, command))
    return _supervise(child)


def _become_supervisor() -> int:
    """Called before the fork. A signal that arrives before `_supervise` can handle it stays pending: its
    default action would leave the command's orphans to init."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOPPING)
    LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)  # coder may be killed without a chance to clean up
    return os.getpid()


def enter_scope(scoped: int) -> None:
    """Enter a domain that restricts nothing else: Landlock denies moves between directories by default.
    Raises OSError."""
    ruleset = make_ruleset([_REFER, 0, scoped])
    _allow(ruleset, "/", _REFER)
    enter(ruleset)


def _scope_signals() -> bool:
    """Enter a Landlock domain around the command's that no signal leaves, so that kill(-1) reaches only the
    command's processes. False if unsupported, which is tested on our parent."""
    if landlock_abi() < SCOPES_FROM:
        return False
    try:
        no_new_privileges()
        os.kill(os.getppid(), 0)
        enter_scope(_SCOPE_SIGNALS)
    except OSError:
        return False
    try:
        os.kill(os.getppid(), 0)
    except PermissionError:
        return True
    except OSError:
        pass
    return False


def _supervise(child: int, apart: bool = False) -> int:
    """The exit status of a child in shell convention; kills and reaps all its descendants."""
    try:
        for number in _STOPPING:
            signal.signal(number, _stop)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPPING)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    except _Stopped:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(0.01)  # the command got the signal too, and may exit by itself
        code = -signal.SIGTERM
    end_descendants(apart)
    return 128 - code if code < 0 else code


def _stop(number: int, frame: FrameType | None) -> None:
    raise _Stopped


def _exec_sandboxed(spec: dict[str, Any], command: list[str], parent: int) -> NoReturn:
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPPING)
        LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(CANNOT)
        os.chdir(spec["cwd"])
        for name, value in (*spec["environment"].items(), ("TMPDIR", spec["temp"]), ("PATH", spec["path"])):
            if value:
                os.environ[name] = value
        if spec["shut_in"]:
            _drop_capabilities()
            restrict_files(spec)
            restrict_calls(spec["filter"])
        _exec(command)
    except OSError as problem:
        os.write(2, f"coder: the sandbox could not be set up: {problem}\n".encode())
    os._exit(CANNOT)


def _exec(command: list[str]) -> NoReturn:
    """Reset the signals that Python ignores: else `yes | head` reports a broken pipe."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    os.execvp(command[0], command)  # noqa: S606 - the purpose of this program


def _drop_capabilities() -> None:
    """Drop root's capabilities over the machine; those over files stay, within Landlock's limits."""
    no_new_privileges()
    if os.getuid() == 0:
        for number in range(64):
            if number not in _KEPT_CAPABILITIES:
                LIBC.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0)


def end_descendants(apart: bool = False) -> None:
    """Kill and reap all processes that the command left, detached ones too: as subreaper we adopt orphans.
    `apart`: kill(-1) reaches them all atomically; one by one, a fork bomb may outrun us."""
    deadline = time.monotonic() + 2
    while time.monotonic() < deadline:
        for pid in [-1] if apart else _children():
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:  # already gone
                continue
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.001)


def _children() -> list[int]:
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return list(_find_children(str(os.getpid())))


def _find_children(own: str) -> Iterator[int]:
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                    if file.read().rpartition(")")[2].split()[1] == own:
                        yield int(name)
            except OSError:
                continue


# restoring guarded files: always relative to a descriptor and without following links, because the command
# may have put a link anywhere in the workspace

_OPEN_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def _guards(root: str, paths: list[str]) -> list[_Guard]:
    if not paths:
        return []
    found = []
    for path in paths:
        # What lies outside the workspace, as a worktree's git directory does, is in a directory that the
        # command cannot move.
        base = root if path.startswith(root.rstrip("/") + "/") else os.path.dirname(path)
        top = os.open(base, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        found.append(_Guard(base, top, path[len(base) :].strip("/").split("/")))
    return found


class _Guard:
    """A file or directory that the command must leave as it is, and the directory that it is in."""

    def __init__(self, root: str, top: int, parts: list[str]) -> None:
        self.root, self.top = root, top
        *self.above, self.name = parts
        self.directory = _open_below(top, self.above)
        self.kept = _snapshot(self.directory, self.name)

    def restore(self) -> str:
        """What was changed and put back, in words; "" if nothing was."""
        if self.directory < 0 and self.kept is None:
            return self._remove_new()
        path = "/".join([self.root, *self.above, self.name])
        try:
            changed = self._restore_in(self.directory)
            now = _open_below(self.top, self.above)
            if not _is_same(now, self.directory):
                changed = True
                if now >= 0:  # another directory took its place
                    self._restore_in(now)
                elif not self._bring_back():
                    raise FileNotFoundError
        except OSError:
            return f"{path} was changed by the command and could not be put back: its folder is gone"
        return f"{path} was changed by the command and has been put back" if changed else ""

    def _remove_new(self) -> str:
        now = _open_below(self.top, self.above)
        if _is_unchanged(now, self.name, None):
            return ""
        remove(now, self.name)
        return f"{'/'.join([self.root, *self.above, self.name])} was made by the command and has been removed"

    def _restore_in(self, directory: int) -> bool:
        if _is_unchanged(directory, self.name, self.kept):
            return False
        remove(directory, self.name)
        if self.kept is not None:
            _recreate(directory, self.name, self.kept)
        return True

    def _bring_back(self) -> bool:
        """Move the directory back to where it was, and drop a link that the command put there."""
        if len(self.above) != 1:
            return False
        name = self.above[0]
        try:
            moved = os.readlink(f"/proc/self/fd/{self.directory}")
            if not moved.startswith(self.root + "/") or moved.endswith(" (deleted)"):
                return False
            if stat.S_ISLNK(_mode(self.top, name)):
                os.unlink(name, dir_fd=self.top)
            os.rename(moved, name, dst_dir_fd=self.top)
        except OSError:
            return False
        return True


def _open_below(top: int, parts: list[str]) -> int:
    """A descriptor of the directory; -1 if it is missing, or a link is in the way."""
    opened = os.dup(top)
    for part in parts:
        above = opened
        try:
            opened = os.open(part, _OPEN_DIRECTORY, dir_fd=above)
        except OSError:
            return -1
        finally:
            os.close(above)
    return opened


def _is_same(one: int, other: int) -> bool:
    return one == other if min(one, other) < 0 else os.path.samestat(os.fstat(one), os.fstat(other))


def _mode(directory: int, name: str) -> int:
    """0 if it is missing."""
    try:
        return os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode
    except OSError:
        return 0


Tree = dict[str, "tuple[int, bytes, Tree]"]


def _is_unchanged(directory: int, name: str, kept: tuple[int, bytes, Tree] | None, depth: int = 0) -> bool:
    """Reads no more than `kept` holds, whatever the command wrote there."""
    mode = _mode(directory, name) if directory >= 0 else 0
    if kept is None or mode != kept[0]:
        return kept is None and not mode
    if not stat.S_ISDIR(mode):
        return _snapshot(directory, name) == kept
    if depth == _GUARDED_DEPTH:
        return True
    try:
        opened = os.open(name, _OPEN_DIRECTORY, dir_fd=directory)
    except OSError:
        return not kept[2]
    try:
        inside = kept[2]
        return set(os.listdir(opened)) == inside.keys() and all(
            _is_unchanged(opened, inner, one, depth + 1) for inner, one in inside.items()
        )
    finally:
        os.close(opened)


def _snapshot(directory: int, name: str, depth: int = 0) -> tuple[int, bytes, Tree] | None:
    """Mode and content of a file, or a directory with all that is in it; None if missing."""
    mode = _mode(directory, name) if directory >= 0 else 0
    if not mode:
        return None
    try:
        if stat.S_ISLNK(mode):
            return mode, os.fsencode(os.readlink(name, dir_fd=directory)), {}
        if stat.S_ISDIR(mode) and depth < _GUARDED_DEPTH:
            opened = os.open(name, _OPEN_DIRECTORY, dir_fd=directory)
            try:
                found = {inner: _snapshot(opened, inner, depth + 1) for inner in os.listdir(opened)}
                return mode, b"", {inner: one for inner, one in found.items() if one is not None}
            finally:
                os.close(opened)
        if not stat.S_ISREG(mode):
            return mode, b"", {}
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with open(os.open(name, flags, dir_fd=directory), "rb") as file:
            return mode, file.read(_GUARDED_BYTES), {}
    except OSError:
        return mode, b"", {}


def _recreate(directory: int, name: str, kept: tuple[int, bytes, Tree]) -> None:
    mode, content, inside = kept
    if stat.S_ISLNK(mode):
        os.symlink(os.fsdecode(content), name, dir_fd=directory)
    elif stat.S_ISDIR(mode):
        os.mkdir(name, stat.S_IMODE(mode) | stat.S_IRWXU, dir_fd=directory)
        opened = os.open(name, _OPEN_DIRECTORY, dir_fd=directory)
        try:
            for inner, one in inside.items():
                _recreate(opened, inner, one)
        finally:
            os.close(opened)
    elif stat.S_ISREG(mode):
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(name, flags, stat.S_IMODE(mode), dir_fd=directory), "wb") as file:
            file.write(content)
            os.fchmod(file.fileno(), stat.S_IMODE(mode))


def remove(directory: int, name: str, *, closed: bool = False) -> None:
    """Remove a file, or a directory with all that is in it. `closed`: directories may lack permissions. Moves
    directories up to the top instead of descending: no depth exhausts the stack or the descriptors."""
    if not stat.S_ISDIR(_mode(directory, name)):
        if _mode(directory, name):
            os.unlink(name, dir_fd=directory)
        return
    top = _open_to_empty(directory, name, closed)
    moved = 0
    prefix = os.urandom(8).hex()
    deadline = time.monotonic() + _REMOVAL_SECONDS
    try:
        while waiting := os.listdir(top):
            for inner in waiting:
                if time.monotonic() > deadline:
                    raise TimeoutError
                if not stat.S_ISDIR(_mode(top, inner)):
                    os.unlink(inner, dir_fd=top)
                    continue
                opened = _open_to_empty(top, inner, closed)
                try:
                    for below in os.listdir(opened):
                        if not stat.S_ISDIR(_mode(opened, below)):
                            os.unlink(below, dir_fd=opened)
                            continue
                        os.close(_open_to_empty(opened, below, closed))  # moving it needs its permissions
                        moved += 1
                        os.rename(below, f"{prefix}{moved}", src_dir_fd=opened, dst_dir_fd=top)
                finally:
                    os.close(opened)
                os.rmdir(inner, dir_fd=top)
    finally:
        os.close(top)
    os.rmdir(name, dir_fd=directory)


def _open_to_empty(directory: int, name: str, closed: bool) -> int:
    if closed and _mode(directory, name) & stat.S_IRWXU != stat.S_IRWXU:
        os.chmod(name, stat.S_IRWXU, dir_fd=directory)
    return os.open(name, _OPEN_DIRECTORY, dir_fd=directory)


def main() -> NoReturn:
    from marshal import loads

    spec = loads(bytes.fromhex(sys.argv[2]))  # noqa: S302 - written by the process that started us
    sys.exit((run if spec["shut_in"] else run_supervised_twice)(spec, sys.argv[3:]))
