"""Loop detection.

A repetition is a call *with its result*: polling with changing results, and batches of one tool with
different arguments, are not loops. Text counts only outside code fences, lists and tables, and only where it
repeats exactly.
"""

from __future__ import annotations

from collections import deque
from itertools import pairwise

from coder.texts import Phrase
from coder.tools.registry import built_in

SAME_CALL = 5  # the same call with the same result so many times in a row
CYCLE_ROUNDS = 3  # a cycle of two to five calls gone through so many times
MAX_CYCLE = 5
SAME_FAILURE = 6  # the same failure on the same thing, whatever was tried in between, with no success on it
_CHUNK = 50  # characters of text compared at a time
_CHUNK_TIMES = 10
_CHUNK_SPREAD = 5 * _CHUNK  # repeats that lie further apart than this are prose, not a stutter
_DRAWN_TIMES = 40  # of what has no letter in it: lines, boxes and padding are drawn of the same all over
_TEXT_KEPT = 5_000


class LoopWatch:
    """Observes a turn; `finding` is the loop detected, or None."""

    def __init__(self) -> None:
        self.finding: Phrase | None = None
        self.strikes = 0
        self._calls: deque[int] = deque(maxlen=MAX_CYCLE * CYCLE_ROUNDS)
        self._names: deque[str] = deque(maxlen=MAX_CYCLE * CYCLE_ROUNDS)
        self._failures: dict[tuple[str, str, str], int] = {}
        self._text = TextWatch()

    def reset(self) -> None:
        """Start over, after a note to the model."""
        self.finding = None
        self._calls.clear()
        self._names.clear()
        self._failures.clear()
        self._text = TextWatch()

    def saw_call(self, tool: str, arguments: str, subject: str, result: str, ok: bool) -> None:
        self._text = TextWatch()
        self._calls.append(hash((tool, arguments, result)))
        self._names.append(tool)
        self._count_failure(tool, subject, result, ok)
        self.finding = self.finding or self._repeated() or self._cycle()

    def _count_failure(self, tool: str, subject: str, result: str, ok: bool) -> None:
        if ok:
            self._failures = {key: n for key, n in self._failures.items() if key[:2] != (tool, subject)}
            return
        # Of a command the first line is its exit code alone: tests that fail otherwise each time are work.
        key = (tool, subject, result if built_in(tool).kind == "runs" else result.split("\n", 1)[0][:80])
        self._failures[key] = self._failures.get(key, 0) + 1
        if self._failures[key] >= SAME_FAILURE:
            self.finding = self.finding or Phrase("loop.failure", what=f"{tool} {subject}", n=SAME_FAILURE)

    def _repeated(self) -> Phrase | None:
        last = list(self._calls)[-SAME_CALL:]
        if len(last) == SAME_CALL and len(set(last)) == 1:
            return Phrase("loop.call", tool=self._names[-1], n=SAME_CALL)
        return None

    def _cycle(self) -> Phrase | None:
        calls = list(self._calls)
        for length in range(2, MAX_CYCLE + 1):
            tail = calls[-length * CYCLE_ROUNDS :]
            if len(tail) < length * CYCLE_ROUNDS or len(set(tail[:length])) == 1:
                continue
            if all(tail[at] == tail[at % length] for at in range(len(tail))):
                names = ", ".join(list(self._names)[-length:])
                return Phrase("loop.cycle", length=length, names=names, n=CYCLE_ROUNDS)
        return None

    def saw_text(self, text: str) -> bool:
        """True where the text repeats itself."""
        if self._text.add(text):
            self.finding = self.finding or Phrase("loop.words")
            return True
        return False


class TextWatch:
    """Detects a chunk of text that repeats within a short distance."""

    def __init__(self) -> None:
        self._line = ""
        self._prose = ""
        self._in_fence = False
        self._done = 0  # how far chunks of the prose have been looked at
        self._places: dict[str, list[int]] = {}

    def add(self, text: str) -> bool:
        *lines, rest = (self._line + text).split("\n")
        found = False
        for line in lines:
            found = self._take_line(line + "\n") or found
        if len(rest) > 4 * _CHUNK:  # one endless line
            found = self._take_line(rest) or found
            rest = ""
        self._line = rest
        return found

    def _take_line(self, line: str) -> bool:
        bare = line.lstrip()
        if bare.startswith(("```", "~~~")):
            self._in_fence = not self._in_fence
            self._forget()
            return False
        if self._in_fence:
            return False
        if bare.startswith(("#", "-", "*", "+", "|", ">", "=")) or bare[:2].rstrip(".)").isdigit():
            self._forget()
            return False
        self._prose += line
        return self._look()

    def _forget(self) -> None:
        self._prose, self._done = "", 0
        self._places.clear()

    def _look(self) -> bool:
        prose, places = self._prose, self._places
        for start in range(self._done, len(prose) - _CHUNK + 1):
            chunk = prose[start : start + _CHUNK]
            seen = places.get(chunk)
            if seen is None:
                places[chunk] = [start]
            elif start >= seen[-1] + _CHUNK:
                seen.append(start)
                if self._stutters(chunk, seen):
                    self._done = start
                    return True
        self._done = max(self._done, len(prose) - _CHUNK + 1)
        if len(prose) > _TEXT_KEPT:
            self._forget()
        return False

    def _stutters(self, chunk: str, places: list[int]) -> bool:
        """Whether the chunk came often enough, with the same between each of its places and the next."""
        times = _CHUNK_TIMES if any(map(str.isalnum, chunk)) else _DRAWN_TIMES
        last = places[-times:]
        if len(last) < times or last[-1] - last[0] > _CHUNK_SPREAD * times:
            return False
        return len({self._prose[start:end] for start, end in pairwise(last)}) == 1
