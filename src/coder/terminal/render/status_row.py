"""The status row of a running turn: what is happening, for how long, how much was written, which keys act.

Where the terminal is narrow, the least important parts are left out first, and a file's name is cut from the
left, a command from the right.
"""

from __future__ import annotations

import time

from coder.terminal.render.sanitize import flat
from coder.terminal.render.width import Line, clip, clip_left, plain, text_width
from coder.terminal.state import PromptState
from coder.texts import Texts
from coder.tools.registry import built_in

_BETWEEN = " · "
_ROOMY = 36  # columns that what is happening gets before the parts behind it
_NARROW = 24  # the same in a narrow terminal
_LEAST = 4


def busy_line(
    state: PromptState, texts: Texts, columns: int, steer: str = "ctrl+s", stops: str = "busy.stops"
) -> Line:
    """One row of at most `columns`. `steer`: the key's name; empty if there is none. `stops`: the text that
    names the key which stops the turn."""
    before, what, after, from_left = _doing(state, texts)
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


def _doing(state: PromptState, texts: Texts) -> tuple[str, str, str, bool]:
    """The words before the file or command, itself, the words behind it, and whether it is cut from the
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


def _around(key: str, what: str, texts: Texts, **values: object) -> tuple[str, str, str]:
    """The text of `key` in parts: before `what`, itself, behind it."""
    before, _, after = texts.say(key, what="\0", **values).partition("\0")
    return before, what, after


def _tail(state: PromptState, texts: Texts, room: int, steer: str, stops: str) -> str:
    """What is behind it, in order; the parts that matter least are left out where there is no room."""
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


def _time(seconds: int, texts: Texts) -> str:
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
