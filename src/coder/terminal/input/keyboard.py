"""From bytes of the terminal to keys, where prompt_toolkit's own reading would lose or harm something.

Pastes of any size are taken in linear time, one that never ends can be got out of, sequences that nobody
knows are dropped instead of being typed (their Esc would cancel a turn), and a terminal that is gone is an
end.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import select
import sys
import termios
import time
from array import array
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TextIO

from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.input.posix_utils import PosixStdinReader
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.keys import Keys

PASTE_BEGINS, PASTE_ENDS = "\x1b[200~", "\x1b[201~"
DEAD_SECONDS = 1.0  # a paste that has been silent for so long is over when a single key comes
_PASTE_CHUNK = 65_536
_KEYS_CHUNK = 1024  # more at once would keep the screen from being drawn

# Control sequences and strings (replies of the terminal, say). `ESC [ M` begins an old mouse report and
# `ESC [ [` a key of the Linux console: what follows those has a form of its own, which prompt_toolkit knows.
_SEQUENCE = re.compile(r"\x1b(?:\[(?!M)[0-?]*[ -/]*[@-Z\\^-~]|[\]P^_X][^\x07\x1b]*(?:\x07|\x1b\\))")
_UNFINISHED = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|[\]P^_X][^\x07\x1b]*\x1b?)?\Z")

# Enter with Shift, Alt or Ctrl, as terminals that tell it apart from Enter send it: the same as Alt+Enter.
for _modifier in range(2, 9):
    for _sequence in (f"\x1b[13;{_modifier}u", f"\x1b[27;{_modifier};13~"):
        ANSI_SEQUENCES[_sequence] = (Keys.Escape, Keys.ControlM)


class Keyboard(Vt100Parser):
    """prompt_toolkit's parser between our ears."""

    def __init__(self, feed_key_callback: Callable[[KeyPress], None]) -> None:
        self._held = ""  # the beginning of a sequence, until its rest comes or `flush` says that none does
        self._pasted: list[str] = []
        self._tail = ""  # the end of what is pasted so far, which may be the beginning of its end mark
        self._heard = 0.0
        super().__init__(feed_key_callback)

    @property
    def in_paste(self) -> bool:
        return self._in_bracketed_paste

    def feed(self, data: str) -> None:
        while data:
            data = self._paste(data) if self._in_bracketed_paste else self._keys(data)

    def flush(self) -> None:
        if not self._in_bracketed_paste:
            held, self._held = self._held, ""
            super().feed(held)
            super().flush()

    def _keys(self, data: str) -> str:
        """Hand over keys up to the beginning of a paste; what is left of the data."""
        data, self._held = self._held + data, ""
        keys, mark, rest = data.partition(PASTE_BEGINS)
        if not mark and (unfinished := _UNFINISHED.search(keys)):
            keys, self._held = keys[: unfinished.start()], unfinished[0]
        keys = _SEQUENCE.sub(self._known, keys)
        for at, key in enumerate(keys):
            self._input_parser.send(key)
            if self._in_bracketed_paste:  # its beginning came in pieces, which were put together only now
                held, self._held = self._held, ""
                return keys[at + 1 :] + held + mark + rest
        if mark:
            self._in_bracketed_paste, self._heard = True, time.monotonic()
        return rest

    def _known(self, sequence: re.Match[str]) -> str:
        return sequence[0] if self._get_match(sequence[0]) is not None else ""

    def _paste(self, data: str) -> str:
        """Take in a piece of what is pasted; what is left of the data after its end."""
        silent, self._heard = time.monotonic() - self._heard, time.monotonic()
        if silent > DEAD_SECONDS and len(data) == 1 and data != "\x1b":
            self._end_paste()
            return data if data not in "\r\n" else ""  # a text that broke off is not to be sent
        piece = self._tail + data
        end = piece.find(PASTE_ENDS)
        if end < 0:
            whole = max(0, len(piece) + 1 - len(PASTE_ENDS))
            self._pasted.append(piece[:whole])
            self._tail = piece[whole:]
            return ""
        self._tail = piece[:end]
        self._end_paste()
        return piece[end + len(PASTE_ENDS) :]

    def _end_paste(self) -> None:
        """A second beginning inside means that the first paste broke off: each stands for itself."""
        pasted = "".join([*self._pasted, self._tail])
        self._in_bracketed_paste, self._pasted, self._tail = False, [], ""
        for one in pasted.split(PASTE_BEGINS):
            if one:
                self.feed_key_callback(KeyPress(Keys.BracketedPaste, one))


class _Reader(PosixStdinReader):
    """Reads more at once while something is pasted, and hears that the terminal is gone: prompt_toolkit
    takes that for a signal, and would be told of it without end."""

    ahead = 0  # bytes of lines that were typed before the keys were ours

    def read(self, count: int = _KEYS_CHUNK) -> str:
        if self.closed:
            return ""
        try:
            if not select.select([self.stdin_fd], [], [], 0)[0]:
                return ""
            data = os.read(self.stdin_fd, count)
        except (BlockingIOError, InterruptedError):
            return ""
        except (OSError, ValueError):
            data = b""
        self.closed = not data
        if self.ahead and data.find(b"\n") == self.ahead - 1:
            data = data[: self.ahead - 1] + b"\r" + data[self.ahead :]
        self.ahead = 0
        return self._stdin_decoder.decode(data)


class KeyboardInput(Vt100Input):
    """The terminal as input, read by `Keyboard`."""

    def __init__(self, stdin: TextIO) -> None:
        super().__init__(stdin)
        self._keyboard = Keyboard(lambda key: self._buffer.append(key))
        self.vt100_parser = self._keyboard
        self.stdin_reader: _Reader = _Reader(self._fileno, encoding=stdin.encoding)

    def raw_mode(self) -> AbstractContextManager[None]:
        """A line that was typed while we started has its Enter turned into a newline by the terminal. It is
        sent; more than one line may be a paste."""
        waiting = array("i", [0])
        with contextlib.suppress(OSError):
            fcntl.ioctl(self._fileno, termios.FIONREAD, waiting)
        self.stdin_reader.ahead = waiting[0]
        return super().raw_mode()

    def read_keys(self) -> list[KeyPress]:
        self._keyboard.feed(self.stdin_reader.read(_PASTE_CHUNK if self._keyboard.in_paste else _KEYS_CHUNK))
        keys, self._buffer = self._buffer, []
        return keys


def keyboard_input() -> KeyboardInput:
    return KeyboardInput(sys.stdin)
