"""The status row of a running turn: activity, time, tokens, keys.

In a narrow terminal the least important parts are omitted; a file's name is cut from the left, a command from
the right.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from shutil import get_terminal_size
from typing import TextIO

from coder.protocol.events import AnyEvent
from coder.texts import Catalog
from coder.tools.registry import built_in
from coder.ui.terminal.render.escapes import flat
from coder.ui.terminal.render.theme import Theme
from coder.ui.terminal.render.width import Line, clip, clip_left, plain, text_width
from coder.ui.terminal.screen_state import PromptState, apply_event, input_sent

_BETWEEN = " · "
_ROOMY = 36  # columns of the activity before the other parts get room
_NARROW = 24  # the same in a narrow terminal
_LEAST = 4


def busy_line(
    state: PromptState, texts: Catalog, columns: int, steer: str = "ctrl+s", stops: str = "busy.stops"
) -> Line:
    """One row of at most `columns`. `steer`: the key's name or ""; `stops`: text key of how to stop the
    turn."""
    before, what, after, from_left = _activity(state, texts)
    wanted = min(text_width(before + what + after), _ROOMY, max(_NARROW, columns // 2))
    tail = _tail(state, texts, columns - wanted, steer, stops)
    room = max(_LEAST, columns - text_width(tail))
    rest = room - text_width(before + after)
    if what:
        what = clip_left(what, max(_LEAST, rest)) if from_left else _clipped(what, max(_LEAST, rest))
    doing = _clipped(before + what + after, room)
    return [("", doing), ("dim", tail)]


def _clipped(text: str, width: int) -> str:
    return plain(clip([("", text)], width))


def _activity(state: PromptState, texts: Catalog) -> tuple[str, str, str, bool]:
    """The activity: words before the file or command, itself, words after, and whether to cut it from the
    left."""
    if state.verifying:
        return *_around("busy.do.bash", flat(state.verifying), texts), False
    if state.calls:
        (tool, argument), *others = state.calls.values()
        known = bool(argument) and texts.has(f"busy.do.{tool}")
        what = flat(argument if known else f"{tool} {argument}".rstrip())
        before, what, after = _around(f"busy.do.{tool}" if known else "busy.do.other", what, texts)
        return before, what, after + (f" +{len(others)}" if others else ""), built_in(tool).argument_is_path()
    if (left := state.retry_at - time.monotonic()) > 0:
        return texts.say("busy.retrying", n=int(left) + 1), "", "", False
    if state.writing is not None:
        writing = state.writing
        if not writing.argument:
            return texts.say("busy.calling", tool=flat(writing.tool)), "", "", False
        key = "busy.writing_lines" if writing.lines else "busy.do.write"
        return *_around(key, flat(writing.argument), texts, n=writing.lines), True
    return texts.say(state.status_key, percent=state.percent), "", "", False


def _around(key: str, what: str, texts: Catalog, **values: object) -> tuple[str, str, str]:
    """The text of `key` split at `what`: before, itself, after."""
    before, _, after = texts.say(key, what="\0", **values).partition("\0")
    return before, what, after


def _tail(state: PromptState, texts: Catalog, room: int, steer: str, stops: str) -> str:
    """The parts after the activity; the least important are omitted if there is no room."""
    say = texts.say
    tokens = round(state.turn_tokens + state.streamed)
    about = "~" if state.streamed else ""
    parts = {
        "seconds": _time(int(time.monotonic() - state.since), texts),
        "tokens": say("busy.tokens", n=about + short_number(tokens)) if tokens else "",
        "stops": say(stops),
        "steers": say("busy.steers", key=steer) if steer else "",
    }
    for unimportant in ("", "steers", "tokens", "seconds", "stops"):
        parts.pop(unimportant, None)
        tail = "".join(_BETWEEN + part for part in parts.values() if part)
        if text_width(tail) <= room:
            break
    return tail


def _time(seconds: int, texts: Catalog) -> str:
    minutes, rest = divmod(seconds, 60)
    if minutes:
        return texts.say("busy.minutes", m=minutes, s=rest)
    return texts.say("busy.seconds", n=seconds)


def short_number(number: int) -> str:
    """`950`, `2.1k`, `34k`, `1.2M`."""
    if number < 1000:
        return str(number)
    for size, unit in ((1000, "k"), (1_000_000, "M")):
        share = number / size
        if share < 9.95:
            return f"{share:.1f}{unit}"
        if share < 999.5:
            return f"{share:.0f}{unit}"
    return f"{number / 1_000_000:.0f}M"


_SILENCE_SECONDS = 1.0  # before the row is drawn, and between two drawings
_ERASE = "\r\x1b[K"


class ProgressRow:
    """Drawn once a second while a turn runs and no line is unfinished."""

    def __init__(self, out: TextIO, texts: Catalog, theme: Theme, since: float) -> None:
        """`since`: when the turn began, by the monotonic clock."""
        self._out, self._texts, self._theme = out, texts, theme
        self._state = PromptState(model="", mode="")
        self._free = True  # the cursor is at the start of a line
        self._drawn = False
        self._last = since  # when something was written
        self._timer: asyncio.TimerHandle | None = None
        input_sent(self._state)
        self._state.since = since
        self._tick()

    def erase(self) -> None:
        """Something else is about to be written."""
        self._last = time.monotonic()
        if self._drawn:
            self._out.write(_ERASE)
            self._drawn = False

    def handle(self, event: AnyEvent, *, free: bool) -> None:
        """The event may have been written or not. `free`: the cursor is at the start of a line."""
        apply_event(self._state, event)
        self._free = free

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.erase()
        self._out.flush()

    def _tick(self) -> None:
        silent = time.monotonic() - self._last >= _SILENCE_SECONDS * 0.9
        if silent and self._free and self._state.approval is None:
            columns = get_terminal_size().columns - 1  # a full row would wrap
            line = busy_line(self._state, self._texts, columns, steer="", stops="busy.interrupts")
            with contextlib.suppress(OSError):  # the terminal is gone: the next output reports it
                self._out.write(_ERASE + self._theme.line([("dim", text) for _, text in line]))
                self._out.flush()
            self._drawn = True
        self._timer = asyncio.get_running_loop().call_later(_SILENCE_SECONDS, self._tick)
