"""Mediates a sandboxed command's connections by seccomp user notification.

A program that listens on a Unix socket (session bus, agent, container engine) acts for whoever connects,
outside the sandbox, and no mount prevents connecting to a socket file. So a filter forwards every connect()
here, where the socket and a copy of the address are taken and connected: only to sockets in places that the
command may write. The command never acts on something after it was checked (TOCTOU). Where a command shares
our network namespace and has no network, or only a door (`network.door`), its TCP connections lead there, or
to servers of its own, which listen on the loopback.

Two threads per command, and no process between: seccomp filters and Landlock domains are per thread and
inherited. One enters the filter and starts the command; the other, outside it, answers."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import select
import stat
import sys
from _thread import start_new_thread
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from functools import partial
from ipaddress import IPv4Address, IPv6Address, ip_address
from threading import BoundedSemaphore
from typing import NamedTuple

from coder.base.process.programs import Prepared, Process, Starting
from coder.policy.sandbox import launch
from coder.policy.sandbox.seccomp import connect_filter, server_calls

_LIBC = ctypes.CDLL(None, use_errno=True)  # releases the GIL
_RECEIVE, _SEND, _IS_VALID = 0xC0502100, 0xC0182101, 0x40082102  # SECCOMP_IOCTL_NOTIF_*
_SET_FLAGS, _SYNC_WAKE_UP = 0x40082104, 1
_TRIES = 1000  # of openat2: on a machine that mounts and renames all the time, a few are enough
_REQUEST_BYTES, _ANSWER_BYTES = 80, 24
_SECCOMP = {"x86_64": 317}.get(os.uname().machine, 277)
_PIDFD_OPEN, _OPENAT2, _PIDFD_GETFD = 434, 437, 438
_SET_MODE_FILTER, _NEW_LISTENER = 1, 8
_NO_MAGIC_LINKS, _IN_ROOT = 0x02, 0x10
_SOL_SOCKET, _SO_DOMAIN, _AF_UNIX, _AF_INET, _AF_INET6 = 1, 39, 1, 2, 10
_IPPROTO_IPV6, _IPV6_V6ONLY = 41, 26
_LONGEST_ADDRESS = 128
_MOST_WAITING = 4096  # of a server's backlog
_AT_ONCE = 64  # pending connections; further ones queue in the kernel (back-pressure)

_Started = Future[Process]
_Cleanup = contextlib.ExitStack[bool | None]


class TcpRule:
    """`ports`: those of the loopback that can be reached; None: all, as the namespace is the command's own.
    `saw`: called with what else a program tried to connect to."""

    def __init__(
        self, ports: frozenset[int] | None, saw: Callable[[str], None] = lambda _address: None
    ) -> None:
        self.ports, self.saw = ports, saw
        self.own: set[int] = set()  # inodes of the sockets that the command has bound

    def check(self, address: bytes) -> None:
        """Raises OSError if this is not where the command may connect to."""
        found = _internet_address(address)
        if found is None:  # ends a connection
            return
        target, port = found
        mapped = getattr(target, "ipv4_mapped", None) or target
        if mapped.is_loopback and (self.ports is None or port in self.ports or self._listens(port)):
            return
        self.saw(f"[{target}]:{port}" if target.version == 6 else f"{target}:{port}")
        raise OSError(errno.ECONNREFUSED if mapped.is_loopback else errno.ENETUNREACH, "not by the proxy")

    def _listens(self, port: int) -> bool:
        """Whether the server at this port of the loopback is the command's."""
        servers = set()
        for table in ("tcp", "tcp6") if self.own else ():
            with contextlib.suppress(OSError), open(f"/proc/net/{table}", encoding="ascii") as file:
                lines = [line.split() for line in file][1:]
                servers |= {int(one[9]) for one in lines if one[3] == "0A" and int(one[1][-4:], 16) == port}
        return bool(servers) and servers <= self.own

    def bind(self, connection: int, address: bytes) -> int:
        """Bind to the loopback instead of all interfaces. Returns the error, or 0."""
        found = _internet_address(address)
        if found is None:
            return errno.EAFNOSUPPORT
        target, port = found
        if not (target.is_loopback or target.is_unspecified):
            return errno.EADDRNOTAVAIL
        both = target.version == 6 and not _option(connection, _IPPROTO_IPV6, _IPV6_V6ONLY)
        if target.is_unspecified:
            target = ip_address("127.0.0.1" if target.version == 4 else "::ffff:127.0.0.1" if both else "::1")
        head = address[:2] + port.to_bytes(2, "big")
        raw = target.packed + bytes(8) if target.version == 4 else bytes(4) + target.packed + bytes(4)
        if problem := _done(_LIBC.bind(connection, head + raw, len(head + raw))):
            return problem
        self.own.add(os.fstat(connection).st_ino)
        return 0


def mediated(line: list[str], tcp: TcpRule | None = None) -> Prepared:
    """The line, to be started with its connections mediated."""
    prepared = line if isinstance(line, Prepared) else Prepared(line)
    prepared.start = partial(_start, tcp)
    return prepared


def _start(tcp: TcpRule | None, starting: Starting) -> Process:
    started = _Started()
    try:
        start_new_thread(_inside, (starting, started, tcp))
        return started.result()
    except RuntimeError as problem:  # no thread available: as `fork` reports it
        raise OSError(errno.EAGAIN, str(problem)) from None


def _inside(starting: Starting, started: _Started, tcp: TcpRule | None) -> None:
    """Start the command and wait for it: this thread is its parent for --die-with-parent."""
    listening = Future[int]()
    try:
        launch.no_new_privileges()
        shared = tcp is not None and tcp.ports is not None  # the network of the machine: Landlock's commands
        abstract = _restrict_abstract_sockets(mounts=not shared)
        start_new_thread(_outside, (listening, _Allowed(abstract, tcp)))
        try:
            listening.set_result(_install_listener(servers=shared))
        except BaseException:
            listening.cancel()
            raise
        process = starting()
    except BaseException as problem:  # raised in the caller
        started.set_exception(problem)
        return
    started.set_result(process)
    with contextlib.suppress(ChildProcessError):
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # its owner reaps it


class _Allowed(NamedTuple):
    """`abstract`: abstract sockets may be tried; the kernel separates those of others (Landlock's scope, in
    which the answering thread is as well)."""

    abstract: bool
    tcp: TcpRule | None


def _outside(listening: Future[int], allowed: _Allowed) -> None:
    with contextlib.suppress(CancelledError), contextlib.ExitStack() as cleanup:
        _serve(_close_later(listening.result(), cleanup), allowed)


def _restrict_abstract_sockets(*, mounts: bool) -> bool:
    """Deny connections to abstract sockets, which are scoped to the network namespace (X11, a session bus).
    Only a domain without file rules lets bubblewrap mount; Landlock's own commands could move no file between
    directories in one. False if unsupported."""
    if launch.landlock_abi() < launch.SCOPES_FROM:
        return False
    if mounts:
        launch.enter(launch.make_ruleset([0, 0, launch.SCOPE_ABSTRACT_SOCKETS]))
    else:
        launch.enter_scope(launch.SCOPE_ABSTRACT_SOCKETS)
    return True


def _install_listener(*, servers: bool) -> int:
    """Put this thread and its children under the filter; returns the descriptor that receives its calls."""
    program, _held = launch.program_of(connect_filter(servers=servers))
    return launch.call(_SECCOMP, _SET_MODE_FILTER, _NEW_LISTENER, ctypes.byref(program))


def _serve(listener: int, allowed: _Allowed) -> None:
    """Answer until no process is left."""
    # Since Linux 6.6: synchronous wake-up on the same core, which is faster.
    _LIBC.ioctl(listener, ctypes.c_ulong(_SET_FLAGS), ctypes.c_ulong(_SYNC_WAKE_UP))
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    places = BoundedSemaphore(_AT_ONCE)
    while poll.poll()[0][1] & select.POLLIN:  # else all have exited, and receiving would block for ever
        raw = ctypes.create_string_buffer(_REQUEST_BYTES)
        if _LIBC.ioctl(listener, ctypes.c_ulong(_RECEIVE), raw) == 0:  # else the caller was killed
            _answer(_Request(listener, raw.raw), allowed, places)


class _Request:
    """A pending call: connect(), bind() or listen()."""

    def __init__(self, listener: int, raw: bytes) -> None:
        def word(at: int, size: int = 8) -> int:
            return int.from_bytes(raw[at : at + size], sys.byteorder)

        self.listener = listener
        self.id = raw[:8]
        self.pid, self.call = word(8, 4), word(16, 4)
        self.descriptor, self.place, self.length = word(32, 4), word(40), word(48, 4)

    def is_waiting(self) -> bool:
        return bool(_LIBC.ioctl(self.listener, ctypes.c_ulong(_IS_VALID), self.id) == 0)

    def answer(self, problem: int) -> None:
        reply = self.id + bytes(8) + (-problem).to_bytes(4, sys.byteorder, signed=True) + bytes(4)
        _LIBC.ioctl(self.listener, ctypes.c_ulong(_SEND), ctypes.create_string_buffer(reply, _ANSWER_BYTES))


def _answer(request: _Request, allowed: _Allowed, places: BoundedSemaphore) -> None:
    with contextlib.ExitStack() as cleanup:
        try:
            if allowed.tcp is not None and request.call in server_calls():
                request.answer(_serving(request, allowed.tcp, cleanup))
                return
            connection, address = _resolve(request, allowed, cleanup)
            if not os.get_blocking(connection):
                request.answer(_connect(connection, address))
                return
            # The original may be closed earlier.
            request.listener = _close_later(os.dup(request.listener), cleanup)
            places.acquire()
            cleanup.callback(places.release)
        except OSError as error:
            request.answer(error.errno or errno.EACCES)
        except (OverflowError, ValueError):  # an invalid address
            request.answer(errno.EFAULT)
        else:
            late = cleanup.pop_all()
            try:
                start_new_thread(_connect_blocking, (request, connection, address, late))
            except RuntimeError:  # no thread available
                with late:
                    request.answer(errno.EAGAIN)


def _connect_blocking(request: _Request, connection: int, address: bytes, cleanup: _Cleanup) -> None:
    """Connect in a thread of its own, as it may take long."""
    with cleanup:
        request.answer(_connect(connection, address))


def _resolve(request: _Request, allowed: _Allowed, cleanup: _Cleanup) -> tuple[int, bytes]:
    """The socket and its target. Raises OSError if the connection is not allowed."""
    pid, address = request.pid, _address(request)
    connection = _close_later(_copy_descriptor(pid, request.descriptor), cleanup)
    family = _option(connection, _SOL_SOCKET, _SO_DOMAIN)
    if allowed.tcp is not None and family in (_AF_INET, _AF_INET6):
        allowed.tcp.check(address)
    if family == _AF_UNIX and address[:2] == _AF_UNIX.to_bytes(2, sys.byteorder):
        name = address[2:].split(b"\0", 1)[0]
        if name:
            found = _close_later(_open_in_namespace(pid, os.fsdecode(name)), cleanup)
            if not stat.S_ISSOCK(os.fstat(found).st_mode):
                raise OSError(errno.ECONNREFUSED, "no socket")
            if os.fstatvfs(found).f_flag & os.ST_RDONLY:  # the mount in the command's namespace
                raise OSError(errno.EACCES, "not the command's")
            address = address[:2] + os.fsencode(f"/proc/self/fd/{found}") + b"\0"
        elif not allowed.abstract:
            raise OSError(errno.ECONNREFUSED, "no file")
    # The pid may have been reused: what was inspected must belong to the waiting caller.
    if not request.is_waiting():
        raise OSError(errno.ESRCH, "ended")
    return connection, address


def _serving(request: _Request, tcp: TcpRule, cleanup: _Cleanup) -> int:
    """Bind or listen, for servers on the loopback. Returns the error, or 0."""
    bind, _listen = server_calls()
    address = _address(request) if request.call == bind else b""
    connection = _close_later(_copy_descriptor(request.pid, request.descriptor), cleanup)
    if not request.is_waiting():
        return errno.ESRCH
    if _option(connection, _SOL_SOCKET, _SO_DOMAIN) not in (_AF_INET, _AF_INET6):  # netlink
        return _done(_LIBC.bind(connection, address, len(address))) if address else errno.EOPNOTSUPP
    if request.call == bind:
        return tcp.bind(connection, address)
    if not _is_on_loopback(connection):  # one that was not bound would listen everywhere
        return errno.EACCES
    return _done(_LIBC.listen(connection, min(request.place, _MOST_WAITING)))


def _is_on_loopback(connection: int) -> bool:
    name, size = ctypes.create_string_buffer(_LONGEST_ADDRESS), ctypes.c_uint(_LONGEST_ADDRESS)
    launch.checked(_LIBC.getsockname(connection, name, ctypes.byref(size)))
    found = _internet_address(name.raw[: size.value])
    return found is not None and (getattr(found[0], "ipv4_mapped", None) or found[0]).is_loopback


def _address(request: _Request) -> bytes:
    """A copy of the address that the call names."""
    if not 2 <= request.length <= _LONGEST_ADDRESS:
        raise OSError(errno.EINVAL, "address")
    memory = os.open(f"/proc/{request.pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.pread(memory, request.length, request.place)
    finally:
        os.close(memory)


def _internet_address(address: bytes) -> tuple[IPv4Address | IPv6Address, int] | None:
    """None for none (AF_UNSPEC). Raises OSError."""
    family = int.from_bytes(address[:2], sys.byteorder)
    if family == 0:
        return None
    raw = address[4:8] if family == _AF_INET else address[8:24]
    if family not in (_AF_INET, _AF_INET6) or len(raw) != (4 if family == _AF_INET else 16):
        raise OSError(errno.EAFNOSUPPORT, "no address of the internet")
    return ip_address(raw), int.from_bytes(address[2:4], "big")


def _close_later(descriptor: int, cleanup: _Cleanup) -> int:
    cleanup.callback(os.close, descriptor)
    return descriptor


def _copy_descriptor(pid: int, descriptor: int) -> int:
    """A copy of another process's descriptor (pidfd_getfd)."""
    try:
        process = launch.checked(_LIBC.syscall(_PIDFD_OPEN, pid, 0))
    except OSError:  # a thread's id
        process = launch.checked(_LIBC.syscall(_PIDFD_OPEN, _leader(pid), 0))
    try:
        return launch.checked(_LIBC.syscall(_PIDFD_GETFD, process, descriptor, 0))
    finally:
        os.close(process)


def _open_in_namespace(pid: int, name: str) -> int:
    """Resolve the name in the command's mount namespace."""
    root = os.open(f"/proc/{pid}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        path = os.fsencode(os.path.join(os.readlink(f"/proc/{pid}/cwd"), name))
        how = (ctypes.c_uint64 * 3)(os.O_PATH | os.O_CLOEXEC, 0, _IN_ROOT | _NO_MAGIC_LINKS)
        for _ in range(_TRIES):
            found: int = _LIBC.syscall(_OPENAT2, root, path, ctypes.byref(how), ctypes.c_size_t(24))
            # EAGAIN: something was mounted or renamed meanwhile, anywhere, and `..` has to be resolved anew.
            if found >= 0 or ctypes.get_errno() != errno.EAGAIN:
                break
        return launch.checked(found)
    finally:
        os.close(root)


def _leader(thread: int) -> int:
    with open(f"/proc/{thread}/status", "rb") as file:
        return next((int(line.split()[1]) for line in file if line.startswith(b"Tgid:")), thread)


def _option(connection: int, level: int, name: int) -> int:
    value, size = ctypes.c_int(), ctypes.c_uint(4)
    launch.checked(_LIBC.getsockopt(connection, level, name, ctypes.byref(value), ctypes.byref(size)))
    return value.value


def _connect(connection: int, address: bytes) -> int:
    return _done(_LIBC.connect(connection, address, len(address)))


def _done(result: int) -> int:
    return 0 if result == 0 else ctypes.get_errno()
