"""The seccomp filters of the sandbox, as BPF programs.

They close what neither a mount nor a Landlock rule can: kernel keyrings, other processes' memory, sockets to
programs outside."""

from __future__ import annotations

import os
from struct import pack
from typing import Literal

Sockets = Literal["none", "no-unix", "unix"]

Step = tuple[int, int, int, int]

_GENERIC = {
    "socket": 198, "socketpair": 199, "bind": 200, "listen": 201, "connect": 203, "sendto": 206,
    "sendmsg": 211, "sendmmsg": 269, "keyctl": 219, "add_key": 217, "request_key": 218,
    "truncate": 45, "prlimit64": 261, "unshare": 97, "clone": 220, "ptrace": 117, "process_vm_readv": 270,
    "process_vm_writev": 271, "prctl": 167, "setpriority": 140, "sched_setparam": 118,
    "sched_setscheduler": 119, "sched_setaffinity": 122, "sched_setattr": 274, "ioprio_set": 30, "ioctl": 29,
}  # fmt: skip
_X86_64 = {
    "socket": 41, "socketpair": 53, "bind": 49, "listen": 50, "connect": 42, "sendto": 44, "sendmsg": 46,
    "sendmmsg": 307, "keyctl": 250, "add_key": 248, "request_key": 249,
    "truncate": 76, "prlimit64": 302, "unshare": 272, "clone": 56, "ptrace": 101, "process_vm_readv": 310,
    "process_vm_writev": 311, "prctl": 157, "setpriority": 141, "sched_setparam": 142,
    "sched_setscheduler": 144, "sched_setaffinity": 203, "sched_setattr": 314, "ioprio_set": 251,
    "ioctl": 16,
}  # fmt: skip
_I386 = {
    "socket": 359, "socketpair": 360, "connect": 362, "keyctl": 288, "add_key": 286, "request_key": 287,
    "unshare": 310, "clone": 120, "ptrace": 26, "process_vm_readv": 347, "process_vm_writev": 348,
    "prctl": 172, "socketcall": 102, "setpriority": 97, "sched_setparam": 154, "sched_setscheduler": 156,
    "sched_setaffinity": 241, "sched_setattr": 351, "ioprio_set": 289,
}  # fmt: skip
# The same on every architecture.
_CLONE3, _IO_URING_SETUP, _PIDFD_GETFD = 435, 425, 438
# fchmodat2, setxattrat, removexattrat, file_setattr
_NEW_METADATA = (452, 463, 466, 469)
# chmod, chown, utime, setxattr, removexattr and the like
_METADATA = {
    "x86_64": (90, 91, 92, 93, 94, 132, 188, 189, 190, 197, 198, 199, 235, 260, 261, 268, 280),
    "aarch64": (5, 6, 7, 14, 15, 16, 52, 53, 54, 55, 88),
    "riscv64": (5, 6, 7, 14, 15, 16, 52, 53, 54, 55, 88),
}
# System V and POSIX message queues, semaphores and shared memory.
_IPC = {
    "x86_64": (29, 30, 31, 64, 65, 66, 68, 69, 70, 71, 220, 240, 241),
    "aarch64": (180, 181, *range(186, 197)),
    "riscv64": (180, 181, *range(186, 197)),
    "i386": (117, 277, 278, *range(393, 403), 420),
}
_MACHINES = {
    "x86_64": (0xC000003E, _X86_64),
    "aarch64": (0xC00000B7, _GENERIC),
    "riscv64": (0xC00000F3, _GENERIC),
}
_I386_ARCHITECTURE = 0x40000003
_X32_BIT = 0x40000000

_ARGUMENT = (16, 24, 32, 40)  # offsets of the arguments' lower halves
_AF_UNIX, _AF_VSOCK = 1, 40
_INTERNET = (2, 10, 16)  # AF_INET, AF_INET6, AF_NETLINK
_WITH_CONNECTION = (1, 5)  # SOCK_STREAM, SOCK_SEQPACKET
_IPPROTO_TCP, _MSG_FASTOPEN = 6, 0x20000000
_SOCKET_KIND = 0xF  # masks the flags of a socket type
_NEW_CGROUP = 0x02000000
_PR_SET_PDEATHSIG, _SIGKILL = 1, 9
_ONE_PROCESS = {"setpriority": 0, "ioprio_set": 1}  # the kind of target: not a group, nor a user
_SET_FLAGS = (0x40086602, 0x40046602, 0x401C5820)  # FS_IOC_SETFLAGS, the same of 32 bits, FS_IOC_FSSETXATTR
_DONE, _DENY, _LACKS = 0x00050000, 0x00050000 | 1, 0x00050000 | 38  # success without effect, EPERM, ENOSYS
_ALLOW, _NOTIFY = 0x7FFF0000, 0x7FC00000


def strong_filter(sockets: Sockets) -> bytes:
    """For bubblewrap: closes kernel keyrings, vsock and control groups, which belong to no namespace. Empty
    on an unknown architecture. `sockets`: "unix" if `connect` mediates connections, "no-unix" if it cannot;
    with "none" nothing of the network and IPC namespaces can be reached, which saves making them."""
    machine = os.uname().machine
    if machine not in _MACHINES:
        return b""
    architecture, numbers = _MACHINES[machine]
    own = [*_x32(), *_common(numbers), *_no_cgroup_namespace(numbers), *_first_process(numbers)]
    other = [*_common(_I386), *_no_cgroup_namespace(_I386), *_first_process(_I386)]
    if sockets == "none":
        own += _no_ipc(machine)
        other += _no_ipc("i386")
    own += _sockets(numbers, sockets)
    other += _sockets(_I386, sockets)
    return packed(_by_architecture(architecture, own, other))


def weak_filter(*, network: bool | Literal["door"], read_only: bool, truncates: bool) -> bytes:
    """For Landlock, which cannot prevent connecting to a socket file (the session bus or a tmux server would
    run anything for the caller): no Unix sockets at all; with `read_only`, no changes of mode, owner and
    time. `truncates`: Landlock itself handles truncate(). `network`: "door" for TCP that `connect`
    mediates."""
    machine = os.uname().machine
    architecture, numbers = _MACHINES[machine]
    program = [*_x32(), *_common(numbers), *_first_process(numbers)]
    if read_only:
        program += _no_ipc(machine)  # shared memory outlives the command
        flags = [step for request in _SET_FLAGS for step in _when(request, _DENY)]
        program += [_unless_equal(numbers["ioctl"], 0, len(flags) + 2), _load(_ARGUMENT[1]), *flags, _load(0)]
    if not truncates:
        program += _when(numbers["truncate"], _DENY)
    for number in (*_METADATA[machine], *_NEW_METADATA) if read_only else ():
        program += _when(number, _DENY)
    # Limits of the same user's other processes, which would be killed or starved.
    first = _ARGUMENT[0]
    program += [_unless_equal(numbers["prlimit64"], 0, 4), _load(first), _unless_equal(0, 1, 0)]
    program += [_answer(_DENY), _load(0), *_pairs(numbers)]
    if network == "door":
        program += _only_connecting(numbers)
    program += [_unless_equal(numbers["socket"], 1, 0), _answer(_ALLOW), _load(first)]
    if network == "door":
        program += _mediated_families()
    for family in _INTERNET if network is True else ():
        program += _when(family, _ALLOW)
    # Other architectures have other syscall numbers: all denied.
    return packed(
        [_load(4), _unless_equal(architecture, 1, 0), _answer(_DENY), _load(0), *program, _answer(_DENY)]
    )


def _only_connecting(numbers: dict[str, int]) -> list[Step]:
    """No connections that sending makes (TCP Fast Open), which nobody mediates."""
    program: list[Step] = []
    for name, flags in (("sendto", _ARGUMENT[3]), ("sendmsg", _ARGUMENT[2]), ("sendmmsg", _ARGUMENT[3])):
        test: list[Step] = [_load(flags), (0x45, 0, 1, _MSG_FASTOPEN), _answer(_DENY), _load(0)]
        program += [_unless_equal(numbers[name], 0, len(test)), *test]
    return program


def _mediated_families() -> list[Step]:
    """TCP, whose connections can be mediated, and the kernel's own netlink. The family is loaded."""
    netlink = _INTERNET[2]
    tcp = [_load(_ARGUMENT[1]), (0x54, 0, 0, _SOCKET_KIND), _unless_equal(1, 1, 0), _answer(_DENY)]
    tcp += [_load(_ARGUMENT[2]), *_when(0, _ALLOW), *_when(_IPPROTO_TCP, _ALLOW), _answer(_DENY)]
    internet: list[Step] = [_unless_equal(_INTERNET[0], 1, 0), _unless_equal(_INTERNET[1], 0, len(tcp))]
    return [*_when(netlink, _ALLOW), *internet, *tcp]


def server_calls() -> tuple[int, int]:
    """The numbers of bind() and listen()."""
    numbers = _MACHINES[os.uname().machine][1]
    return numbers["bind"], numbers["listen"]


def connect_filter(*, servers: bool = False) -> bytes:
    """Forwards every connect() to the listener (user notification). `servers`: bind() and listen() too."""
    architecture, numbers = _MACHINES[os.uname().machine]
    calls = (numbers["connect"], *(server_calls() if servers else ()))
    own = [*(step for call in calls for step in _when(call, _NOTIFY)), _answer(_ALLOW)]
    other = [*_when(_I386["connect"], _NOTIFY), _answer(_ALLOW)]
    return packed(_by_architecture(architecture, own, other))


def packed(program: list[Step]) -> bytes:
    return b"".join(pack("=HBBI", *step) for step in program)


def _by_architecture(architecture: int, own: list[Step], other: list[Step]) -> list[Step]:
    own, other = [_load(0), *own], [_load(0), *other]
    head = [_load(4), _unless_equal(architecture, 0, len(own)), *own]
    return [*head, _unless_equal(_I386_ARCHITECTURE, 0, len(other)), *other, _answer(_DENY)]


def _x32() -> list[Step]:
    """The x32 ABI has its own syscall numbers: refused."""
    return [(0x35, 0, 1, _X32_BIT), _answer(_LACKS)] if os.uname().machine == "x86_64" else []


def _common(numbers: dict[str, int]) -> list[Step]:
    # io_uring and socketcall would bypass the socket rules.
    program = [*_when(_IO_URING_SETUP, _LACKS), *_when(_PIDFD_GETFD, _DENY)]
    if "socketcall" in numbers:
        program += _when(numbers["socketcall"], _LACKS)
    for name in ("keyctl", "add_key", "request_key", "ptrace", "process_vm_readv", "process_vm_writev"):
        program += _when(numbers[name], _DENY)
    # PDEATHSIG cannot be reset, not even in bubblewrap's first process, whose memory is writable.
    program += [_unless_equal(numbers["prctl"], 0, 6), _load(_ARGUMENT[0])]
    program += [_unless_equal(_PR_SET_PDEATHSIG, 0, 3), _load(_ARGUMENT[1])]
    return [*program, _unless_equal(_SIGKILL, 1, 0), _answer(_DONE), _load(0)]


def _no_cgroup_namespace(numbers: dict[str, int]) -> list[Step]:
    """No cgroup namespaces: with one a command could mount cgroups, and freeze or kill the person's other
    programs in its group."""
    program = _when(_CLONE3, _LACKS)  # its flags are in memory, out of BPF's reach; libc falls back to clone
    for name in ("unshare", "clone"):
        program += [_unless_equal(numbers[name], 0, 4), _load(_ARGUMENT[0]), (0x45, 0, 1, _NEW_CGROUP)]
        program += [_answer(_DENY), _load(0)]
    return program


def _first_process(numbers: dict[str, int]) -> list[Step]:
    """The namespace's first process keeps its share of the processor: starved, it would not end the command.
    Priorities of process groups and users, to which it may belong, cannot be set."""
    program: list[Step] = []
    for name in ("sched_setparam", "sched_setscheduler", "sched_setaffinity", "sched_setattr"):
        program += [_unless_equal(numbers[name], 0, 4), _load(_ARGUMENT[0]), *_when(1, _DENY), _load(0)]
    for name, kind in _ONE_PROCESS.items():
        program += [_unless_equal(numbers[name], 0, 7), _load(_ARGUMENT[0])]
        program += [_unless_equal(kind, 1, 0), _answer(_DENY)]
        program += [_load(_ARGUMENT[1]), *_when(1, _DENY), _load(0)]
    return program


def _no_ipc(machine: str) -> list[Step]:
    return [step for number in _IPC[machine] for step in _when(number, _LACKS)]


def _sockets(numbers: dict[str, int], sockets: Sockets) -> list[Step]:
    """The rest of a program. Datagrams carry an address per message, which BPF cannot inspect: of Unix
    sockets only connection-oriented ones."""
    program = _pairs(numbers)
    if sockets == "none":
        return [*program, *_when(numbers["socket"], _DENY), _answer(_ALLOW)]
    program += [_unless_equal(numbers["socket"], 1, 0), _answer(_ALLOW), _load(_ARGUMENT[0])]
    program += _when(_AF_VSOCK, _DENY)
    if sockets == "no-unix":
        return [*program, *_when(_AF_UNIX, _DENY), _answer(_ALLOW)]
    return [*program, _unless_equal(_AF_UNIX, 1, 0), _answer(_ALLOW), *_connected()]


def _pairs(numbers: dict[str, int]) -> list[Step]:
    """A pair of datagram sockets can send elsewhere as well."""
    connected = _connected()
    return [_unless_equal(numbers["socketpair"], 0, len(connected)), *connected]


def _connected() -> list[Step]:
    program = [_load(_ARGUMENT[1]), (0x54, 0, 0, _SOCKET_KIND)]
    for kind in _WITH_CONNECTION:
        program += _when(kind, _ALLOW)
    return [*program, _answer(_DENY)]


def _load(offset: int) -> Step:
    return 0x20, 0, 0, offset


def _unless_equal(value: int, then: int, otherwise: int) -> Step:
    return 0x15, then, otherwise, value


def _answer(value: int) -> Step:
    return 0x06, 0, 0, value


def _when(value: int, answer: int) -> list[Step]:
    return [_unless_equal(value, 0, 1), _answer(answer)]
