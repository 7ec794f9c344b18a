"""Runs a program on a pseudo-terminal (PTY) of its own, connected to the person's terminal.

Keys go to the program, its output goes to the screen and is kept. stderr has a second PTY, so that it is kept
apart. Until the program reads single keys, which
makes the screen its own, only colours and moves within the row are obeyed: what `cat` prints of a file cannot
control the terminal.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import re
import struct
import termios
import time
import tty
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from coder.base.process.child import STDERR, STDOUT, Child, shell_status
from coder.base.process.output import Printed
from coder.base.process.programs import Runs
from coder.base.process.run import Capture, ProcessCancelled, ProcessOutcome

# The child leads a session without a terminal: the first one that it opens becomes its controlling one.
# Readable and writable, as `more` reads keys from stderr.
_ON_PTY = 'exec <>"$0" >&0 2<>"$1"; shift; exec "$@"'
_RESIZE_EVERY = 0.1  # seconds
_MOST_WAITING = 65_536  # bytes of keys that the program has not read
_READ = 65_536
_DRAIN_READS = 64
_ESC = b"\x1b"
_OBEYED = rb"\x1b\[[0-9;:]*m|\x1b\[[0-2]?K|\x1b\[[0-9]*G"
# Bidirectional controls, which reorder or hide text.
_BIDI = rb"\xd8\x9c|\xe2\x80[\x8e\x8f\xaa-\xae]|\xe2\x81[\xa6-\xa9]"
_C1 = rb"\xc2[\x80-\x9f]"
_UTF8 = (
    rb"[\xc2-\xdf][\x80-\xbf]|(?:\xe0[\xa0-\xbf]|\xed[\x80-\x9f]|[\xe1-\xec\xee\xef][\x80-\xbf])[\x80-\xbf]"
    rb"|(?:\xf0[\x90-\xbf]|[\xf1-\xf3][\x80-\xbf]|\xf4[\x80-\x8f])[\x80-\xbf]{2}"
)
# A byte that is part of no character may be a control to a terminal, as 0x9b is CSI.
_CONTROLS = re.compile(
    rb"(%s|(?:(?!%s|%s)(?:%s))+)|[\x00-\x06\x0b\x0c\x0e-\x1f\x7f]|%s|%s|[\x80-\x9f]"
    % (_OBEYED, _C1, _BIDI, _UTF8, _C1, _BIDI)
)
_UNFINISHED = re.compile(
    rb"(?:\x1b(?:\[[0-9;:]{0,32})?|[\xc2-\xdf]|[\xe0-\xef][\x80-\xbf]?|[\xf0-\xf4][\x80-\xbf]{0,2})\Z"
)
_MODE = re.compile(rb"\x1b\[\?([0-9;]{1,32})([hl])")
_MODES = ("1", "9", "47", "1000", "1002", "1003", "1004", "1005", "1006", "1015", "1047", "1049", "2004")
_OTHER_SCREEN = re.compile(r"\x1b\[\?(?:47|1047|1049)h.*?(?:\x1b\[\?(?:47|1047|1049)l|\Z)", re.DOTALL)


class ScreenFilter:
    """What reaches the person's screen of what a program prints."""

    def __init__(self) -> None:
        self.whole = False  # the program has the screen: everything is passed on
        self._held: dict[int, bytes] = {}  # the beginning of a sequence, by stream
        self._modes: set[str] = set()  # that were set, and not reset
        self._in_row = False

    def feed(self, data: bytes, stream: int = STDOUT) -> bytes:
        data = self._held.pop(stream, b"") + data
        if self.whole:
            self._watch_modes(data)
        else:
            if unfinished := _UNFINISHED.search(data):
                data, self._held[stream] = data[: unfinished.start()], unfinished[0]
            data = _CONTROLS.sub(lambda found: found[1] or _shown(found[0]), data)
        if data:
            self._in_row = not data.endswith(b"\n")
        return data

    def _watch_modes(self, data: bytes) -> None:
        for names, switch in _MODE.findall(data):
            for name in names.decode().split(";"):
                (self._modes.add if switch == b"h" else self._modes.discard)(name)

    def end(self) -> bytes:
        """Restores the terminal, and begins a row of its own."""
        held = b"" if self.whole else b"".join(self._held.values())
        rest = _CONTROLS.sub(lambda found: _shown(found[0]), held)
        left = "".join(f"\x1b[?{mode}l" for mode in _MODES if mode in self._modes)
        if self.whole and (left or "25" in self._modes):
            left += "\x1b[?25h\x1b[?7h\x1b7\x1b[r\x1b8"  # resetting the margins moves the cursor home
        if self.whole:
            left += "\x1b(B\x0f"  # ASCII again, where it was drawing lines
        return rest + left.encode() + b"\x1b[0m" + (b"\r\n" if self._in_row or rest else b"")


def _shown(control: bytes) -> bytes:
    if control == _ESC:
        return "␛".encode()
    code = ord(control.decode()) if len(control) > 1 else control[0]
    return b"\\x%02x" % code if code < 0x100 else b"\\u%04x" % code


class _Relay:
    """Between the person's terminal and the program's."""

    def __init__(self, keys: int, screen: int, keep_bytes: int) -> None:
        self.loop = asyncio.get_running_loop()
        self.keys, self.screen = keys, screen
        self.captures = {STDOUT: Capture(keep_bytes), STDERR: Capture(keep_bytes)}
        self.filter = ScreenFilter()
        self.stopped = asyncio.Event()  # by Esc, or because the person's terminal is gone
        pairs = {stream: os.openpty() for stream in (STDOUT, STDERR)}
        self._streams = {master: stream for stream, (master, _) in pairs.items()}
        self._slaves = [slave for _, slave in pairs.values()]
        self.names = [os.ttyname(slave) for slave in self._slaves]
        self._stderr_mode = termios.tcgetattr(self._slaves[1])
        self._by_stderr = self._doubled = False  # whether stderr gets the keys, or has had some
        self._size = (0, 0)
        self._waiting = bytearray()
        for master in self._streams:
            os.set_blocking(master, False)
        self.resize()

    @contextlib.contextmanager
    def connected(self) -> Iterator[None]:
        before = termios.tcgetattr(self.keys)
        tty.setraw(self.keys, termios.TCSADRAIN)  # keeps what was just typed
        self.loop.add_reader(self.keys, self._on_keys)
        for master in self._streams:
            self.loop.add_reader(master, self._on_output, master)
        try:
            yield
        finally:
            self.loop.remove_reader(self.keys)
            for master in self._streams:
                self.loop.remove_reader(master)
                self.loop.remove_writer(master)
                for _ in range(_DRAIN_READS):  # bounded: what escaped may go on writing
                    if not self._on_output(master):
                        break
            with contextlib.suppress(OSError):
                self._show(self.filter.end())
                termios.tcsetattr(self.keys, termios.TCSADRAIN, before)

    def close(self) -> None:
        for descriptor in (*self._streams, *self._slaves):
            os.close(descriptor)

    def unread(self) -> bytes:
        """What was typed, and the program has not read."""
        if self._doubled:  # it has read them from one of two places
            return b""
        slave, typed = self._slaves[0], bytearray()
        with contextlib.suppress(OSError, termios.error):
            tty.setraw(slave, termios.TCSANOW)  # else an unfinished line could not be read
            os.set_blocking(slave, False)
            while data := os.read(slave, _READ):
                typed += data
        return bytes(typed + self._waiting).replace(b"\0", b"")  # Ctrl+D

    def resize(self) -> None:
        """The program's terminal is as large as the person's; the kernel tells the program (SIGWINCH)."""
        with contextlib.suppress(OSError):
            size = os.get_terminal_size(self.screen)
            if size != self._size:
                self._size = (size.columns, size.lines)
                room = struct.pack("HHHH", size.lines, size.columns, 0, 0)
                for master in self._streams:
                    fcntl.ioctl(master, termios.TIOCSWINSZ, room)

    def _reads_keys(self) -> bool:
        """Whether the program reads single keys. `more` reads them from stderr: then both get them."""
        with contextlib.suppress(OSError, termios.error):
            stdin, stderr = map(termios.tcgetattr, self._streams)
            if stderr != self._stderr_mode:
                self._stderr_mode = stdin = stderr
                termios.tcsetattr(self._slaves[0], termios.TCSANOW, stderr)
            self._by_stderr = not stderr[3] & termios.ICANON
            return not stdin[3] & termios.ICANON
        return False

    def _on_keys(self) -> None:
        try:
            data = os.read(self.keys, _READ)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        reads_keys = self._reads_keys()
        if not data or (data == _ESC and not reads_keys):
            self.loop.remove_reader(self.keys)
            self.stopped.set()
            return
        self._waiting += data[: max(0, _MOST_WAITING - len(self._waiting))]
        self._pass_keys()

    def _pass_keys(self) -> None:
        stdin, stderr = self._streams
        with contextlib.suppress(OSError):
            while self._waiting:
                written = os.write(stdin, self._waiting)
                if self._by_stderr:
                    self._doubled = True
                    os.write(stderr, self._waiting[:written])
                del self._waiting[:written]
        if self._waiting:
            self.loop.add_writer(stdin, self._pass_keys)
        else:
            self.loop.remove_writer(stdin)

    def _on_output(self, master: int) -> bool:
        try:
            data = os.read(master, _READ)
        except OSError:
            return False
        stream = self._streams[master]
        self.captures[stream].add(data)
        self.filter.whole = self.filter.whole or self._reads_keys()
        self._show(self.filter.feed(data, stream))
        return bool(data)

    def _show(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(self.screen, view) :]
            except BlockingIOError:
                time.sleep(0.001)
            except OSError:
                return  # the terminal is gone


async def run_on_terminal(
    argv: Sequence[str],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    keys: int,
    screen: int,
    keep_bytes: int,
    typed_ahead: Callable[[bytes], object],
) -> ProcessOutcome:
    """Run `argv` to its end. `typed_ahead` gets unread keys, unless Esc or a cancel stopped it
    (`ProcessCancelled`). Raises OSError."""
    began = time.monotonic()
    relay = _Relay(keys, screen, keep_bytes)
    try:
        line = ["/bin/sh", "-c", _ON_PTY, *relay.names, *argv]
        child = Child(
            line, runs=Runs.FOR_PERSON, cwd=cwd, environment=environment, sink=lambda _stream, _data: None
        )
        cancelled, code = True, -1
        try:
            with relay.connected():
                try:
                    cancelled = await _ended(child, relay)
                except asyncio.CancelledError:
                    pass
                finally:
                    code = child.end(gently=True)
        finally:
            outcome = _outcome(relay, shell_status(code), began, cancelled=cancelled)
            if not cancelled:
                typed_ahead(relay.unread())
    finally:
        relay.close()
    if cancelled:
        raise ProcessCancelled(outcome)
    return outcome


async def _ended(child: Child, relay: _Relay) -> bool:
    """Wait for the program's end; true if the person stopped it."""
    waits = [asyncio.ensure_future(event.wait()) for event in (child.exited, relay.stopped)]
    try:
        while not any(wait.done() for wait in waits):
            await asyncio.wait(waits, timeout=_RESIZE_EVERY, return_when=asyncio.FIRST_COMPLETED)
            relay.resize()
    finally:
        for wait in waits:
            wait.cancel()
    return not child.exited.is_set()


def _outcome(relay: _Relay, code: int, began: float, *, cancelled: bool) -> ProcessOutcome:
    out, err = map(_without_screens, (relay.captures[STDOUT].output(), relay.captures[STDERR].output()))
    return ProcessOutcome(
        exit_code=code,
        stdout=out.head,
        stderr=err.head,
        truncated=any(capture.truncated for capture in relay.captures.values()),
        timed_out=False,
        duration_ms=round((time.monotonic() - began) * 1000),
        cancelled=cancelled,
        out=out,
        err=err,
    )


def _without_screens(printed: Printed) -> Printed:
    """Without what was painted on the alternate screen, which says nothing without its places."""
    head, tail = (_OTHER_SCREEN.sub("", text) for text in (printed.head, printed.tail))
    return Printed(head, tail, printed.dropped)
