"""Parses terminal input into keys, fixing prompt_toolkit's parser.

Bracketed pastes take linear time, an unterminated paste times out, unknown escape sequences are dropped
(their Esc would cancel a turn), and a terminal that is gone is EOF.
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
from bisect import bisect_right
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TextIO

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.formatted_text import (
    StyleAndTextTuples,
    fragment_list_to_text,
    fragment_list_width,
    to_formatted_text,
)
from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.input.posix_utils import PosixStdinReader
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import BufferControl
from prompt_toolkit.layout.controls import GetLinePrefixCallable, SearchBufferControl, UIContent
from prompt_toolkit.layout.processors import Processor, Transformation, TransformationInput
from prompt_toolkit.layout.utils import explode_text_fragments

from coder.ui.terminal.input.editing import TAB_STOP, WindowShape, text_rows

BACKGROUND_REPLY = "\x1b]11;"  # begins a terminal's answer to `render.background.QUERY`
PASTE_BEGINS, PASTE_ENDS = "\x1b[200~", "\x1b[201~"
PASTE_TIMEOUT_SECONDS = 1.0  # a paste stalled for so long ends at the next single key
_PASTE_CHUNK = 65_536
_KEYS_CHUNK = 1024  # bytes per read, so that drawing is not delayed

# CSI sequences and OSC/DCS strings. Not `ESC [ M` (X10 mouse report) and `ESC [ [` (Linux console key), whose
# form prompt_toolkit knows.
_SEQUENCE = re.compile(r"\x1b(?:\[(?!M)[0-?]*[ -/]*[@-Z\\^-~]|[\]P^_X][^\x07\x1b]*(?:\x07|\x1b\\))")
_UNFINISHED = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|[\]P^_X][^\x07\x1b]*\x1b?)?\Z")

# Enter with Shift, Alt or Ctrl, if the terminal reports it: the same as Alt+Enter.
for _modifier in range(2, 9):
    for _sequence in (f"\x1b[13;{_modifier}u", f"\x1b[27;{_modifier};13~"):
        ANSI_SEQUENCES[_sequence] = (Keys.Escape, Keys.ControlM)


class Keyboard(Vt100Parser):
    """prompt_toolkit's parser with its own paste and unknown-sequence handling."""

    def __init__(self, feed_key_callback: Callable[[KeyPress], None]) -> None:
        self._partial = ""  # an incomplete sequence, until more data or `flush`
        self._pasted: list[str] = []
        self._tail = ""  # possible start of the end mark
        self._last_data = 0.0
        self.background: Callable[[str], None] | None = None  # waits for the answer to `render.background`
        super().__init__(feed_key_callback)

    @property
    def in_paste(self) -> bool:
        return self._in_bracketed_paste

    def feed(self, data: str) -> None:
        while data:
            data = self._paste(data) if self._in_bracketed_paste else self._keys(data)

    def flush(self) -> None:
        if not self._in_bracketed_paste and not self._is_partial_reply:
            partial, self._partial = self._partial, ""
            super().feed(partial)
            super().flush()

    def _keys(self, data: str) -> str:
        """Feed keys up to the start of a paste; returns the rest of the data."""
        data, self._partial = self._partial + data, ""
        keys, mark, rest = data.partition(PASTE_BEGINS)
        if not mark and (unfinished := _UNFINISHED.search(keys)):
            keys, self._partial = keys[: unfinished.start()], unfinished[0]
        keys = _SEQUENCE.sub(self._keep_known, keys)
        for at, key in enumerate(keys):
            self._input_parser.send(key)
            if self._in_bracketed_paste:  # its start mark arrived in pieces
                partial, self._partial = self._partial, ""
                return keys[at + 1 :] + partial + mark + rest
        if mark:
            self._in_bracketed_paste, self._last_data = True, time.monotonic()
        return rest

    @property
    def _is_partial_reply(self) -> bool:
        """A slow line may deliver an answer in pieces: its rest is not typed text."""
        received = self._partial[: len(BACKGROUND_REPLY)]
        return self.background is not None and len(received) > 1 and BACKGROUND_REPLY.startswith(received)

    def _keep_known(self, sequence: re.Match[str]) -> str:
        if self.background is not None and sequence[0].startswith(BACKGROUND_REPLY):
            self.background(sequence[0])
            self.background = None
        return sequence[0] if self._get_match(sequence[0]) is not None else ""

    def _paste(self, data: str) -> str:
        """Collect pasted text; returns the data after its end."""
        stalled, self._last_data = time.monotonic() - self._last_data, time.monotonic()
        if stalled > PASTE_TIMEOUT_SECONDS and len(data) == 1 and data != "\x1b":
            self._end_paste()
            return data if data not in "\r\n" else ""  # Enter must not send an incomplete paste
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
        """A second start mark means that the first paste broke off: emit each separately."""
        pasted = "".join([*self._pasted, self._tail])
        self._in_bracketed_paste, self._pasted, self._tail = False, [], ""
        for one in pasted.split(PASTE_BEGINS):
            if one:
                self.feed_key_callback(KeyPress(Keys.BracketedPaste, one))


class _Reader(PosixStdinReader):
    """Reads larger chunks during a paste, and reports EOF (on which prompt_toolkit would spin)."""

    typed_ahead = 0  # bytes of type-ahead, before raw mode

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
        data = _typed(data[: self.typed_ahead]) + data[self.typed_ahead :]
        self.typed_ahead = 0
        return self._stdin_decoder.decode(data)


def _typed(data: bytes) -> bytes:
    """Type-ahead: in cooked mode Enter became a newline. One line is sent; several may be a paste."""
    return data[:-1] + b"\r" if data.endswith(b"\n") and data.count(b"\n") == 1 else data


class KeyboardInput(Vt100Input):
    def __init__(self, stdin: TextIO) -> None:
        super().__init__(stdin)
        self._keyboard = Keyboard(lambda key: self._buffer.append(key))
        self.vt100_parser = self._keyboard
        self.stdin_reader: _Reader = _Reader(self._fileno, encoding=stdin.encoding)

    def raw_mode(self) -> AbstractContextManager[None]:
        """Note the type-ahead."""
        waiting = array("i", [0])
        with contextlib.suppress(OSError):
            fcntl.ioctl(self._fileno, termios.FIONREAD, waiting)
        self.stdin_reader.typed_ahead = waiting[0]
        return super().raw_mode()

    @property
    def has_unread(self) -> bool:
        """Whether keys wait to be read, or a paste has not ended."""
        with contextlib.suppress(OSError, ValueError):
            return self._keyboard.in_paste or bool(select.select([self._fileno], [], [], 0)[0])
        return False

    def expect_background_reply(self, on_reply: Callable[[str], None]) -> None:
        self._keyboard.background = on_reply

    def read_keys(self) -> list[KeyPress]:
        return self._parsed(self.stdin_reader.read(_PASTE_CHUNK if self._keyboard.in_paste else _KEYS_CHUNK))

    def parsed(self, typed: bytes) -> list[KeyPress]:
        """The keys of type-ahead that a program received and did not read."""
        return self._parsed(_typed(typed).decode("utf-8", errors="replace"))

    def _parsed(self, data: str) -> list[KeyPress]:
        self._keyboard.feed(data)
        keys, self._buffer = self._buffer, []
        return keys


def keyboard_input() -> KeyboardInput:
    return KeyboardInput(sys.stdin)


def _prefix_width(prefix: GetLinePrefixCallable, line: int, wrapped: int) -> int:
    return fragment_list_width(to_formatted_text(prefix(line, wrapped)))


class _Content(UIContent):
    def __init__(self, content: UIContent) -> None:
        super().__init__(
            content.get_line,
            content.line_count,
            content.cursor_position,
            content.menu_position,
            content.show_cursor,
        )

    def get_height_for_line(
        self,
        lineno: int,
        width: int,
        get_line_prefix: GetLinePrefixCallable | None,
        slice_stop: int | None = None,
    ) -> int:
        line = fragment_list_to_text(self.get_line(lineno))[:slice_stop]
        if line.isascii() or get_line_prefix is None:
            return super().get_height_for_line(lineno, width, get_line_prefix, slice_stop)
        first, later = (_prefix_width(get_line_prefix, lineno, wrapped) for wrapped in (0, 1))
        shape = WindowShape(width, first, later)
        # The trailing space is the cursor's cell, which `text_rows` counts itself.
        return len(text_rows(line.removesuffix(" "), shape)) if later < width else 10**8


class _Rows(Processor):
    """Fills the rows that end between words, and expands tabs to spaces."""

    def __init__(self, prefix: GetLinePrefixCallable) -> None:
        self._prefix = prefix

    def apply_transformation(self, ti: TransformationInput) -> Transformation:
        line = fragment_list_to_text(ti.fragments)
        first, later = (_prefix_width(self._prefix, *of) for of in ((ti.lineno, 0), (ti.lineno, 1)))
        if "\t" not in line and first + 2 * len(line) < ti.width:  # it fits, however wide
            return Transformation(ti.fragments)
        left = {row.start: row.left for row in text_rows(line, WindowShape(ti.width, first, later))}
        shown: StyleAndTextTuples = []
        places: list[int] = []  # of each character, and of the caret behind the last
        place = column = 0
        for at, fragment in enumerate([*explode_text_fragments(ti.fragments), ("", "")]):
            if blanks := left.get(at, 0):
                shown.append(("", " " * blanks))
                place += blanks
            places.append(place)
            text = " " * (TAB_STOP - column % TAB_STOP) if fragment[1] == "\t" else fragment[1]
            shown.append((fragment[0], text))
            place += len(text)
            column += len(text)
        return Transformation(
            shown,
            source_to_display=lambda at: places[at] if at < len(places) else places[-1] + at - len(line),
            display_to_source=lambda at: max(0, bisect_right(places, at) - 1),
        )


class InputControl(BufferControl):
    """The prompt's text, broken between words."""

    def __init__(self, buffer: Buffer, search: SearchBufferControl, prefix: GetLinePrefixCallable) -> None:
        super().__init__(
            buffer,
            search_buffer_control=search,
            preview_search=True,
            input_processors=[_Rows(prefix)],
        )

    def create_content(self, width: int, height: int, preview_search: bool = False) -> UIContent:
        return _Content(super().create_content(width, height, preview_search))
