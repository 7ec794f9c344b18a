"""Makes the connections of a sandboxed command for it, from outside: seccomp's user notification.

A program that listens on a Unix socket (a session bus, an agent, a container engine) acts for whoever
connects, outside the sandbox, and no mount keeps a socket file from being connected to. So a filter hands
every connect() to this side, which takes the socket and a copy of the address, and connects itself: to
sockets that lie where the command may write, and to no others, whatever they are called and whenever they
were made. Nothing is looked at and then left to the command to do (TOCTOU).

Part of the child's side (`sandbox_launch`): nothing of ours is imported.
"""

from __future__ import annotations

import _thread
import ctypes
import errno
import os
import stat
import sys

_LIBC = ctypes.CDLL(None, use_errno=True)
_RECEIVE, _SEND, _IS_VALID = 0xC0502100, 0xC0182101, 0x40082102  # SECCOMP_IOCTL_NOTIF_*
_REQUEST_BYTES, _ANSWER_BYTES = 80, 24
_SECCOMP = {"x86_64": 317}.get(os.uname().machine, 277)
_PIDFD_OPEN, _OPENAT2, _PIDFD_GETFD = 434, 437, 438
_SET_MODE_FILTER, _NEW_LISTENER = 1, 8
_NO_MAGIC_LINKS, _IN_ROOT = 0x02, 0x10
_SOL_SOCKET, _SO_DOMAIN, _AF_UNIX = 1, 39, 1
_LONGEST_ADDRESS = 128


class Program(ctypes.Structure):
    """A filter as the kernel takes it."""

    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def program_of(data: bytes) -> tuple[Program, object]:
    """With the memory that must live as long."""
    held = ctypes.create_string_buffer(data, len(data))
    return Program(len(data) // 8, ctypes.cast(held, ctypes.c_void_p)), held


def install_listener(data: bytes) -> int:
    """Put this process, and all it starts, under a filter; the descriptor on which its calls arrive."""
    program, _held = program_of(data)
    return _checked(_LIBC.syscall(_SECCOMP, _SET_MODE_FILTER, _NEW_LISTENER, ctypes.byref(program)))


def taken(pid: int, descriptor: int) -> int:
    """A copy of another process's descriptor."""
    process = _checked(_LIBC.syscall(_PIDFD_OPEN, pid, 0))
    try:
        return _checked(_LIBC.syscall(_PIDFD_GETFD, process, descriptor, 0))
    finally:
        os.close(process)


def serve(listener: int, abstract: bool) -> None:
    """Until nobody is left to ask. `abstract`: sockets without a file may be tried; the kernel keeps those of
    others apart (Landlock's scope, which this process is in as well)."""
    while True:
        held = ctypes.create_string_buffer(_REQUEST_BYTES)
        if _LIBC.ioctl(listener, ctypes.c_ulong(_RECEIVE), held) < 0:
            if ctypes.get_errno() in (errno.EINTR, errno.ENOENT):
                continue
            return
        # One thread each: a connection may take its time.
        _thread.start_new_thread(_answer, (listener, held.raw, abstract))


def _answer(listener: int, raw: bytes, abstract: bool) -> None:
    def word(at: int, size: int = 8) -> int:
        return int.from_bytes(raw[at : at + size], sys.byteorder)

    descriptor = word(32, 4)
    try:
        problem = _connect(listener, raw[:8], word(8, 4), descriptor, word(40), word(48, 4), abstract)
    except OSError as error:
        problem = error.errno or errno.EACCES
    said = raw[:8] + bytes(8) + (-problem).to_bytes(4, sys.byteorder, signed=True) + bytes(4)
    _LIBC.ioctl(listener, ctypes.c_ulong(_SEND), ctypes.create_string_buffer(said, _ANSWER_BYTES))


def _connect(
    listener: int, request: bytes, pid: int, descriptor: int, place: int, length: int, abstract: bool
) -> int:
    """0, or why not."""
    if not 2 <= length <= _LONGEST_ADDRESS:
        return errno.EINVAL
    memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        address = os.pread(memory, length, place)
    finally:
        os.close(memory)
    connection = taken(_leader(pid), descriptor)
    try:
        # The number may have gone to another process: what was taken must be of the one that waits.
        if _LIBC.ioctl(listener, ctypes.c_ulong(_IS_VALID), request) < 0:
            return errno.ESRCH
        if _family(connection) != _AF_UNIX or address[:2] != _AF_UNIX.to_bytes(2, sys.byteorder):
            return _made(connection, address)
        name = address[2:].split(b"\0", 1)[0]
        if not name:
            return _made(connection, address) if abstract else errno.ECONNREFUSED
        found = _found(pid, os.fsdecode(name))
        try:
            if not stat.S_ISSOCK(os.fstat(found).st_mode):
                return errno.ECONNREFUSED
            if os.fstatvfs(found).f_flag & os.ST_RDONLY:  # of the mount, as the command sees it
                return errno.EACCES
            own = os.fsencode(f"/proc/self/fd/{found}")
            return _made(connection, address[:2] + own + b"\0")
        finally:
            os.close(found)
    finally:
        os.close(connection)


def _found(pid: int, name: str) -> int:
    """What the command means by this name, in its own tree of mounts."""
    root = os.open(f"/proc/{pid}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        path = os.fsencode(os.path.join(os.readlink(f"/proc/{pid}/cwd"), name))
        how = (ctypes.c_uint64 * 3)(os.O_PATH | os.O_CLOEXEC, 0, _IN_ROOT | _NO_MAGIC_LINKS)
        return _checked(_LIBC.syscall(_OPENAT2, root, path, ctypes.byref(how), ctypes.c_size_t(24)))
    finally:
        os.close(root)


def _leader(thread: int) -> int:
    with open(f"/proc/{thread}/status", "rb") as file:
        return next((int(line.split()[1]) for line in file if line.startswith(b"Tgid:")), thread)


def _family(connection: int) -> int:
    family, size = ctypes.c_int(), ctypes.c_uint(4)
    where = ctypes.byref(family), ctypes.byref(size)
    _checked(_LIBC.getsockopt(connection, _SOL_SOCKET, _SO_DOMAIN, *where))
    return family.value


def _made(connection: int, address: bytes) -> int:
    done = _LIBC.connect(connection, address, len(address))
    return 0 if done == 0 else ctypes.get_errno()


def _checked(result: int) -> int:
    if result < 0:
        problem = ctypes.get_errno()
        raise OSError(problem, os.strerror(problem))
    return result
