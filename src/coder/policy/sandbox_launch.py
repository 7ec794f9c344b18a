"""The child's side of the weaker rungs: a program of its own, run as a file with nothing of ours imported.

It forks. The parent stays outside and sees to it that nothing outlives the command: as "child subreaper"
it inherits whatever the command leaves behind and ends it. The child shuts itself in with Landlock (files)
and seccomp (sockets) and becomes the command. Landlock only ever adds permissions, so a folder inside the
writable workspace cannot be taken out again: the parent puts those few files back afterwards.

    python -I -S -c "…; from sandbox_launch import main; main()" FOLDER SPEC COMMAND…

Imported rather than run, so that its compiled form is used; SPEC (see `run`) is marshalled: `json` would take
as long to load as all the rest.
"""

from __future__ import annotations

import ctypes
import os
import stat
import sys
import time

TYPE_CHECKING = False  # `typing` is not loaded for its sake either
if TYPE_CHECKING:
    import signal
    from collections.abc import Iterable, Iterator
    from types import FrameType
    from typing import Any, NoReturn
else:
    import _signal as signal  # `signal` itself loads `enum`: a third of the time that this program has

_LIBC = ctypes.CDLL(None, use_errno=True)

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
_SCOPE_ABSTRACT_SOCKETS, _SCOPE_SIGNALS = 1 << 0, 1 << 1

# socket, keyctl, add_key, request_key, io_uring_setup, truncate, prlimit64
_NUMBERS = {
    "x86_64": (0xC000003E, 41, (250, 248, 249), 425, 76, 302),
    "aarch64": (0xC00000B7, 198, (219, 217, 218), 425, 45, 261),
    "riscv64": (0xC00000F3, 198, (219, 217, 218), 425, 45, 261),
}
_SPLITS = {"x86_64": (272, 56), "aarch64": (97, 220), "riscv64": (97, 220)}  # unshare, clone
_CLONE3 = 435
_I386, _I386_KEYS, _I386_SPLITS = 0x40000003, (288, 286, 287), (310, 120)
_I386_SOCKET = 359
_VSOCK = 40
_NEW_CGROUP = 0x02000000
_INTERNET = (2, 10, 16)  # AF_INET, AF_INET6, AF_NETLINK
_DENY, _LACKS, _ALLOW = 0x00050000 | 1, 0x00050000 | 38, 0x7FFF0000  # EPERM, ENOSYS
_KEPT_CAPABILITIES = {
    0,
    1,
    3,
    4,
    5,
    6,
    7,
    10,
}  # CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID, BIND
_GUARDED_BYTES = 4_000_000
SCOPED = "scoped"  # in place of SPEC: only keep COMMAND, the strong rung, from sockets without a file
SCOPES_FROM = 6  # the version of Landlock that can
CANNOT = 125  # exit status: the sandbox could not be set up, and the command was not run


def landlock_abi() -> int:
    """0 where the kernel has none."""
    version: int = _LIBC.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    return max(0, version)


# Landlock


def restrict_files(spec: dict[str, Any]) -> None:
    """May read all but the hidden, write the writable."""
    abi = landlock_abi()
    handled = _ALL_OF_ABI_1 | (_REFER if abi >= 2 else 0) | (_TRUNCATE if abi >= 3 else 0)
    scoped = _SCOPE_ABSTRACT_SOCKETS | _SCOPE_SIGNALS if abi >= 6 else 0
    words = [handled] if abi < 4 else [handled, 0] if abi < 6 else [handled, 0, scoped]
    attributes = (ctypes.c_uint64 * len(words))(*words)
    ruleset = _call(_CREATE_RULESET, ctypes.byref(attributes), ctypes.c_size_t(ctypes.sizeof(attributes)), 0)
    hidden = spec["hidden"]
    for path in all_but(hidden):
        _allow(ruleset, path, _READ & handled)
    for path in spec["readable"]:
        _allow(ruleset, path, _READ & handled)
    write = handled & ~_MAKE_CHAR & ~_MAKE_BLOCK
    for path in spec["writable"]:
        for part in all_but([h for h in hidden if h.startswith(path + "/")], path):
            _allow(ruleset, part, write)
    for path in spec["devices"]:
        _allow(ruleset, path, (_READ_FILE | _WRITE_FILE | _TRUNCATE | _READ_DIR) & handled)
    _call(_RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


def restrict_abstract_sockets() -> None:
    """No connection to sockets without a file, which belong to the network: X11's, a session bus's. For the
    strong rung, which shares the network; a domain that names no files leaves it free to mount."""
    attributes = (ctypes.c_uint64 * 3)(0, 0, _SCOPE_ABSTRACT_SOCKETS)
    if _LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "no_new_privs")
    ruleset = _call(_CREATE_RULESET, ctypes.byref(attributes), ctypes.c_size_t(ctypes.sizeof(attributes)), 0)
    _call(_RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


def all_but(hidden: Iterable[str], top: str = "/") -> Iterator[str]:
    """The fewest paths that together hold all below `top` except the hidden ones."""
    hidden = set(hidden)
    above = {top} if hidden else set()
    for path in hidden:
        parent = os.path.dirname(path)
        while len(parent) > len(top):
            above.add(parent)
            parent = os.path.dirname(parent)
    if not hidden:
        yield top
    for folder in above - hidden:
        try:
            names = os.listdir(folder)
        except OSError:
            continue
        for name in names:
            path = os.path.join(folder, name)
            # A link grants what it points to; that has, or lacks, a rule of its own.
            if path not in hidden and path not in above and path != "/dev" and not os.path.islink(path):
                yield path


def _allow(ruleset: int, path: str, access: int) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            access &= _OF_FILES
        rule = access.to_bytes(8, sys.byteorder) + fd.to_bytes(4, sys.byteorder)
        _LIBC.syscall(_ADD_RULE, ruleset, 1, rule, 0)  # a place that cannot be allowed stays closed
    finally:
        os.close(fd)


def _call(number: int, *arguments: Any) -> int:
    result: int = _LIBC.syscall(number, *arguments)
    if result < 0:
        problem = ctypes.get_errno()
        raise OSError(problem, os.strerror(problem))
    return result


# seccomp


def restrict_calls(network: bool) -> None:
    """Refuse sockets that lead to other programs of this machine, and all others where the network is off.

    Landlock does not stop a connection to a socket file: the session bus or a tmux server would run
    anything for the caller.
    """
    architecture, socket, keys, uring, truncate, limits = _NUMBERS[os.uname().machine]
    deny, lacks, allow = _DENY, _LACKS, _ALLOW
    program = [
        _load(4),  # the architecture: another one has other numbers
        _unless_equal(architecture, 0, 1),
        _jump(1),
        _answer(deny),
        _load(0),
    ]
    if os.uname().machine == "x86_64":
        program += [(0x35, 0, 1, 0x40000000), _answer(lacks)]  # x32 has numbers of its own
    program += _when(uring, lacks)  # its sockets would pass by this filter
    for number in keys:
        program += _when(number, deny)
    if landlock_abi() < 3:
        program += _when(truncate, deny)
    # Limits of another process of the same user: it would be ended, or never open a file again.
    program += [_unless_equal(limits, 0, 4), _load(16), _unless_equal(0, 1, 0), _answer(deny), _load(0)]
    families = _INTERNET if network else ()
    program += [_unless_equal(socket, 1, 0), _answer(allow), _load(16)]
    for family in families:
        program += _when(family, allow)
    program.append(_answer(deny))
    _install(program)


def strong_filter() -> bytes:
    """For the strong rung, which shares the kernel's keyrings and the hypervisor's sockets with everybody:
    they belong to no namespace. Nor is there a namespace for control groups: with one of its own a command
    could mount them, and freeze or end those that it shares with the person's other programs. Empty for a
    machine whose numbers are not known."""
    machine = os.uname().machine
    if machine not in _NUMBERS:
        return b""
    architecture, socket, keys, uring, *_ = _NUMBERS[machine]
    ring = _when(uring, _LACKS)  # it opens sockets past the filter
    own = [_load(0), *ring]
    if machine == "x86_64":
        own += [(0x35, 0, 1, 0x40000000), _answer(_LACKS)]
    own += [*_closed(keys, _SPLITS[machine]), _unless_equal(socket, 1, 0), _answer(_ALLOW), _load(16)]
    own += [*_when(_VSOCK, _DENY), _answer(_ALLOW)]
    other = [_load(0), *ring, *_closed(_I386_KEYS, _I386_SPLITS)]
    other += [_unless_equal(_I386_SOCKET, 1, 0), _answer(_ALLOW), _load(16)]
    other += [*_when(_VSOCK, _DENY), _answer(_ALLOW)]
    begin = [_load(4), _unless_equal(architecture, 0, len(own)), *own]
    return _packed([*begin, _unless_equal(_I386, 0, len(other)), *other, _answer(_DENY)])


def _closed(keys: tuple[int, ...], splits: tuple[int, ...]) -> list[tuple[int, int, int, int]]:
    program = _when(_CLONE3, _LACKS)  # its flags cannot be seen; the older call is used instead
    for number in keys:
        program += _when(number, _DENY)
    for number in splits:
        program += [
            _unless_equal(number, 0, 4),
            _load(16),
            (0x45, 0, 1, _NEW_CGROUP),
            _answer(_DENY),
            _load(0),
        ]
    return program


def _load(offset: int) -> tuple[int, int, int, int]:
    return 0x20, 0, 0, offset


def _unless_equal(value: int, then: int, otherwise: int) -> tuple[int, int, int, int]:
    return 0x15, then, otherwise, value


def _jump(count: int) -> tuple[int, int, int, int]:
    return 0x05, 0, 0, count


def _answer(value: int) -> tuple[int, int, int, int]:
    return 0x06, 0, 0, value


def _when(value: int, answer: int) -> list[tuple[int, int, int, int]]:
    return [_unless_equal(value, 0, 1), _answer(answer)]


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def _packed(program: list[tuple[int, int, int, int]]) -> bytes:
    import struct

    return b"".join(struct.pack("=HBBI", *step) for step in program)


def _install(program: list[tuple[int, int, int, int]]) -> None:
    data = _packed(program)
    buffer = ctypes.create_string_buffer(data, len(data))
    whole = _Program(len(program), ctypes.cast(buffer, ctypes.c_void_p))
    if _LIBC.prctl(_PR_SET_SECCOMP, 2, ctypes.byref(whole), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "seccomp")


# the parent: nothing outlives the command


class _Ended(Exception):
    """We were told to stop."""


def run(spec: dict[str, Any], command: list[str]) -> int:
    """`spec`: hidden, readable, writable, devices (paths), network, shut_in (bool), guarded (paths),
    temp ("" or a folder), cwd."""
    guarded = {path: _kept(path) for path in spec["guarded"]}
    parent = _become_keeper()
    child = os.fork()
    if child == 0:
        _become(spec, command, parent)
    code = _watched(child)
    for path, kept in guarded.items():
        if _kept(path) != kept:
            _put_back(path, kept)
            # Not where the folder around it was moved or removed: then there is no place to put it.
            done = _kept(path) == kept
            became = "has been put back" if done else "could not be put back: its folder is gone"
            os.write(2, f"coder: {path} was changed by the command and {became}\n".encode())
    return code


def run_watched_twice(spec: dict[str, Any], command: list[str]) -> int:
    """`run`, for a command that is not shut in: it can end or stop its parent; somebody is still there."""
    _become_keeper()
    child = os.fork()
    if child == 0:
        os._exit(run(spec, command))
    return _watched(child)


def _become_keeper() -> int:
    _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)  # coder may be killed without a chance to tidy up
    return os.getpid()


def _watched(child: int) -> int:
    """The exit status of a child, as a shell tells it; nothing that it started is left by then."""
    try:
        signal.signal(signal.SIGTERM, _stop)
        signal.signal(signal.SIGINT, _stop)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    except _Ended:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(0.01)  # the command got the signal too, and may end by itself
        code = -signal.SIGTERM
    end_descendants()
    return 128 - code if code < 0 else code


def _stop(number: int, frame: FrameType | None) -> None:
    raise _Ended


def _become(spec: dict[str, Any], command: list[str], parent: int) -> NoReturn:
    try:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(CANNOT)
        os.chdir(spec["cwd"])
        if spec["temp"]:
            os.environ["TMPDIR"] = spec["temp"]
        if spec["shut_in"]:
            _give_up_powers()
            restrict_files(spec)
            restrict_calls(spec["network"])
        os.execvp(command[0], command)  # noqa: S606 - becoming the command is what this program is for
    except OSError as problem:
        os.write(2, f"coder: the sandbox could not be set up: {problem}\n".encode())
    os._exit(CANNOT)


def _become_scoped(command: list[str]) -> NoReturn:
    try:
        restrict_abstract_sockets()
        os.execvp(command[0], command)  # noqa: S606 - becoming the command is what this program is for
    except OSError as problem:
        os.write(2, f"coder: the sandbox could not be set up: {problem}\n".encode())
    os._exit(CANNOT)


def _give_up_powers() -> None:
    """Root's powers over the machine end here; those over files stay, within what Landlock leaves."""
    if _LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "no_new_privs")
    if os.getuid() == 0:
        for number in range(64):
            if number not in _KEPT_CAPABILITIES:
                _LIBC.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0)


def end_descendants() -> None:
    """End all that the command left, however it detached itself: orphans become our children."""
    deadline = time.monotonic() + 2
    while time.monotonic() < deadline:
        for pid in _children():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
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
        return list(_children_by_search())


def _children_by_search() -> Iterator[int]:
    own = str(os.getpid())
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                    if file.read().rpartition(")")[2].split()[1] == own:
                        yield int(name)
            except OSError:
                continue


# what is put back


def _kept(path: str) -> dict[str, tuple[int, bytes]] | None:
    """Modes and contents of a file or a flat folder; None where there is nothing."""
    try:
        info = os.lstat(path)
    except OSError:
        return None
    found = {"": (info.st_mode, b"")}
    names = sorted(os.listdir(path)) if stat.S_ISDIR(info.st_mode) else [""]
    for name in names:
        full = os.path.join(path, name) if name else path
        mode = os.lstat(full).st_mode
        found[name] = (mode, _content(full, mode))
    return found


def _content(path: str, mode: int) -> bytes:
    if stat.S_ISLNK(mode):
        return os.fsencode(os.readlink(path))
    if not stat.S_ISREG(mode):
        return b""
    with open(path, "rb") as file:
        return file.read(_GUARDED_BYTES)


def _put_back(path: str, kept: dict[str, tuple[int, bytes]] | None) -> None:
    _remove(path)
    if kept is None or not os.path.isdir(os.path.dirname(path)):
        return
    if stat.S_ISDIR(kept[""][0]):
        os.mkdir(path, stat.S_IMODE(kept[""][0]))
    for name, (mode, content) in kept.items():
        full = os.path.join(path, name) if name else path
        if stat.S_ISLNK(mode):
            os.symlink(os.fsdecode(content), full)
        elif stat.S_ISREG(mode):
            with open(full, "wb") as file:
                file.write(content)
            os.chmod(full, stat.S_IMODE(mode))


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        for name in os.listdir(path):
            _remove(os.path.join(path, name))
        os.rmdir(path)
    elif os.path.lexists(path):
        os.unlink(path)


def main() -> NoReturn:
    if sys.argv[2] == SCOPED:
        _become_scoped(sys.argv[3:])
    from marshal import loads

    spec = loads(bytes.fromhex(sys.argv[2]))  # noqa: S302 - written by the process that started us
    sys.exit((run if spec["shut_in"] else run_watched_twice)(spec, sys.argv[3:]))
