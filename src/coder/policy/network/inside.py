"""Runs first in a command's own network namespace: opens the sockets by which it reaches coder.

A socket stays in the namespace in which it was made, whoever accepts its connections. So the listening
sockets are sent to coder, and no process has to relay. The program imports nothing of coder, as that may not
be visible in the sandbox: its text is passed to Python.

    python -I -S -c TEXT CHANNEL PORT,PORT COMMAND…
"""

import _socket as socket
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
else:
    import _signal as signal  # quicker to load

_BACKLOG = 128


def main(channel: str, ports: str, *command: str) -> None:
    """Listen on the loopback, send the sockets through the `channel`, become the command."""
    found = []
    for port in map(int, ports.split(",")):
        for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
            try:
                one = socket.socket(family, socket.SOCK_STREAM)
                one.bind((address, port))
                one.listen(_BACKLOG)
            except OSError:  # no IPv6, or a port for which it has no right
                continue
            found.append(one)
    numbers = b"".join(one.fileno().to_bytes(4, sys.byteorder) for one in found)
    coder = socket.socket(fileno=int(channel))
    coder.sendmsg([b"."], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, numbers)])
    coder.close()
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # which Python ignores
        signal.signal(number, signal.SIG_DFL)
    os.execvp(command[0], command)  # noqa: S606 - the purpose of this program


if __name__ == "__main__":
    main(*sys.argv[1:])
