"""Makes the connections of a sandboxed command for it, from outside: seccomp's user notification.

A program that listens on a Unix socket (a session bus, an agent, a container engine) acts for whoever
connects, outside the sandbox, and no mount keeps a socket file from being connected to. So a filter hands
every connect() to this side, which takes the socket and a copy of the address, and connects itself: to
sockets that lie where the command may write, and to no others, whatever they are called and whenever they
were made. Nothing is looked at and then left to the command to do (TOCTOU).

Two threads for each command, and no process between: filters and Landlock's domains belong to a thread, and
what a thread starts inherits them. One puts itself under the filter and starts the command; the other, which
is not under it, answers.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import select
import stat
import subprocess
import sys
from _thread import start_new_thread
from concurrent.futures import CancelledError, Future
from threading import BoundedSemaphore

from coder.policy.sandbox.launch import (
    SCOPE_ABSTRACT_SOCKETS,
    SCOPES_FROM,
    call,
    checked,
    enter,
    landlock_abi,
    make_ruleset,
    no_new_privileges,
    program_of,
)
from coder.policy.sandbox.seccomp import connect_filter
from coder.process.child import Mediated, Starting

_LIBC = ctypes.CDLL(None, use_errno=True)  # it lets others run meanwhile
_RECEIVE, _SEND, _IS_VALID = 0xC0502100, 0xC0182101, 0x40082102  # SECCOMP_IOCTL_NOTIF_*
_SET_FLAGS, _SYNC_WAKE_UP = 0x40082104, 1
_REQUEST_BYTES, _ANSWER_BYTES = 80, 24
_SECCOMP = {"x86_64": 317}.get(os.uname().machine, 277)
_PIDFD_OPEN, _OPENAT2, _PIDFD_GETFD = 434, 437, 438
_SET_MODE_FILTER, _NEW_LISTENER = 1, 8
_NO_MAGIC_LINKS, _IN_ROOT = 0x02, 0x10
_SOL_SOCKET, _SO_DOMAIN, _AF_UNIX = 1, 39, 1
_LONGEST_ADDRESS = 128
_AT_ONCE = 64  # connections that a command waits for; further ones queue in the kernel

_Started = Future[subprocess.Popen[bytes]]
_Held = contextlib.ExitStack[bool | None]


def mediated(line: list[str]) -> Mediated:
    """The line, to be started with its connections made from here."""
    return Mediated(line, _start)


def _start(starting: Starting) -> subprocess.Popen[bytes]:
    started = _Started()
    try:
        start_new_thread(_inside, (starting, started))
        return started.result()
    except RuntimeError as problem:  # no thread can be had, as `fork` would say it
        raise OSError(errno.EAGAIN, str(problem)) from None


def _inside(starting: Starting, started: _Started) -> None:
    """Starts the command, and lives as long: this thread is what --die-with-parent takes for a parent."""
    listening = Future[int]()
    try:
        no_new_privileges()
        start_new_thread(_outside, (listening, _restrict_abstract_sockets()))
        try:
            listening.set_result(_install_listener())
        except BaseException:
            listening.cancel()
            raise
        process = starting()
    except BaseException as problem:  # of whoever waits for the command
        started.set_exception(problem)
        return
    started.set_result(process)
    with contextlib.suppress(ChildProcessError):
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # its owner reaps it


def _outside(listening: Future[int], abstract: bool) -> None:
    with contextlib.suppress(CancelledError):
        listener = listening.result()
        try:
            _serve(listener, abstract)
        finally:
            os.close(listener)


def _restrict_abstract_sockets() -> bool:
    """No connection to sockets without a file, which belong to the network: X11's, a session bus's. A domain
    that names no files leaves bubblewrap free to mount. False where the kernel cannot."""
    if landlock_abi() < SCOPES_FROM:
        return False
    enter(make_ruleset([0, 0, SCOPE_ABSTRACT_SOCKETS]))
    return True


def _install_listener() -> int:
    """Put this thread, and all it starts, under the filter; the descriptor on which its calls arrive."""
    program, _held = program_of(connect_filter())
    return call(_SECCOMP, _SET_MODE_FILTER, _NEW_LISTENER, ctypes.byref(program))


def _serve(listener: int, abstract: bool) -> None:
    """Until nobody is left to ask. `abstract`: sockets without a file may be tried; the kernel keeps those of
    others apart (Landlock's scope, which this thread is in as well)."""
    # From Linux 6.6 on each side wakes the other on its own core, which is sooner.
    _LIBC.ioctl(listener, ctypes.c_ulong(_SET_FLAGS), ctypes.c_ulong(_SYNC_WAKE_UP))
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    places = BoundedSemaphore(_AT_ONCE)
    while poll.poll()[0][1] & select.POLLIN:  # else all have ended, and to receive would wait for ever
        raw = ctypes.create_string_buffer(_REQUEST_BYTES)
        if _LIBC.ioctl(listener, ctypes.c_ulong(_RECEIVE), raw) == 0:  # else it was killed meanwhile
            _answer(_Request(listener, raw.raw), abstract, places)


class _Request:
    """A call of connect() that waits for its answer."""

    def __init__(self, listener: int, raw: bytes) -> None:
        def word(at: int, size: int = 8) -> int:
            return int.from_bytes(raw[at : at + size], sys.byteorder)

        self.listener = listener
        self.id = raw[:8]
        self.pid, self.descriptor, self.place, self.length = word(8, 4), word(32, 4), word(40), word(48, 4)

    def is_waiting(self) -> bool:
        return bool(_LIBC.ioctl(self.listener, ctypes.c_ulong(_IS_VALID), self.id) == 0)

    def answer(self, problem: int) -> None:
        said = self.id + bytes(8) + (-problem).to_bytes(4, sys.byteorder, signed=True) + bytes(4)
        _LIBC.ioctl(self.listener, ctypes.c_ulong(_SEND), ctypes.create_string_buffer(said, _ANSWER_BYTES))


def _answer(request: _Request, abstract: bool, places: BoundedSemaphore) -> None:
    with contextlib.ExitStack() as held:
        try:
            connection, address = _looked_up(request, abstract, held)
            if not os.get_blocking(connection):
                request.answer(_made(connection, address))
                return
            request.listener = _kept(os.dup(request.listener), held)  # ours may be closed before this ends
            places.acquire()
            held.callback(places.release)
        except OSError as error:
            request.answer(error.errno or errno.EACCES)
        except (OverflowError, ValueError):  # a place that no memory has
            request.answer(errno.EFAULT)
        else:
            late = held.pop_all()
            try:
                start_new_thread(_answer_late, (request, connection, address, late))
            except RuntimeError:  # no further thread can be had
                with late:
                    request.answer(errno.EAGAIN)


def _answer_late(request: _Request, connection: int, address: bytes, held: _Held) -> None:
    """In a thread of its own: such a connection may take its time."""
    with held:
        request.answer(_made(connection, address))


def _looked_up(request: _Request, abstract: bool, held: _Held) -> tuple[int, bytes]:
    """The socket, and where it is to be connected to. Raises OSError: why it may not."""
    pid = request.pid
    if not 2 <= request.length <= _LONGEST_ADDRESS:
        raise OSError(errno.EINVAL, "address")
    memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        address = os.pread(memory, request.length, request.place)
    finally:
        os.close(memory)
    connection = _kept(_taken(pid, request.descriptor), held)
    if _family(connection) == _AF_UNIX and address[:2] == _AF_UNIX.to_bytes(2, sys.byteorder):
        name = address[2:].split(b"\0", 1)[0]
        if name:
            found = _kept(_found(pid, os.fsdecode(name)), held)
            if not stat.S_ISSOCK(os.fstat(found).st_mode):
                raise OSError(errno.ECONNREFUSED, "no socket")
            if os.fstatvfs(found).f_flag & os.ST_RDONLY:  # of the mount, as the command sees it
                raise OSError(errno.EACCES, "not the command's")
            address = address[:2] + os.fsencode(f"/proc/self/fd/{found}") + b"\0"
        elif not abstract:
            raise OSError(errno.ECONNREFUSED, "no file")
    # The number may have gone to another process: what was looked at must be of the one that waits.
    if not request.is_waiting():
        raise OSError(errno.ESRCH, "ended")
    return connection, address


def _kept(descriptor: int, held: _Held) -> int:
    held.callback(os.close, descriptor)
    return descriptor


def _taken(pid: int, descriptor: int) -> int:
    """A copy of another process's descriptor."""
    try:
        process = checked(_LIBC.syscall(_PIDFD_OPEN, pid, 0))
    except OSError:  # it is a thread
        process = checked(_LIBC.syscall(_PIDFD_OPEN, _leader(pid), 0))
    try:
        return checked(_LIBC.syscall(_PIDFD_GETFD, process, descriptor, 0))
    finally:
        os.close(process)


def _found(pid: int, name: str) -> int:
    """What the command means by this name, in its own tree of mounts."""
    root = os.open(f"/proc/{pid}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        path = os.fsencode(os.path.join(os.readlink(f"/proc/{pid}/cwd"), name))
        how = (ctypes.c_uint64 * 3)(os.O_PATH | os.O_CLOEXEC, 0, _IN_ROOT | _NO_MAGIC_LINKS)
        return checked(_LIBC.syscall(_OPENAT2, root, path, ctypes.byref(how), ctypes.c_size_t(24)))
    finally:
        os.close(root)


def _leader(thread: int) -> int:
    with open(f"/proc/{thread}/status", "rb") as file:
        return next((int(line.split()[1]) for line in file if line.startswith(b"Tgid:")), thread)


def _family(connection: int) -> int:
    family, size = ctypes.c_int(), ctypes.c_uint(4)
    where = ctypes.byref(family), ctypes.byref(size)
    checked(_LIBC.getsockopt(connection, _SOL_SOCKET, _SO_DOMAIN, *where))
    return family.value


def _made(connection: int, address: bytes) -> int:
    done = _LIBC.connect(connection, address, len(address))
    return 0 if done == 0 else ctypes.get_errno()
