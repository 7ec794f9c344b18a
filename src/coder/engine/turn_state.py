"""State of a running turn."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import NamedTuple

import msgspec

from coder.history.turn_so_far import Checks, TurnSoFar, given_answers
from coder.protocol import entries
from coder.protocol.entries import Asks as Asks
from coder.protocol.events import TurnStatus
from coder.protocol.messages import Image, Usage
from coder.protocol.ops import Steer
from coder.texts import Text
from coder.tools.registry import built_in

NOTHING_ASKED = Asks()


class Words(msgspec.Struct, frozen=True):
    """The person's own part of a message. `typed`: not pasted or piped. `said`: that, or the whole message
    where nothing was typed; of a rendered mode both have the values that were given."""

    typed: str = ""
    said: str = ""


class TurnInput(NamedTuple):
    """A message and what belongs to it. `attached` is part of the message, but not of what the person said;
    `words` are the person's, by default all of `text`. `instant`: the mode that `text` was rendered from.
    """

    text: str
    asks: Asks = NOTHING_ASKED
    attached: str = ""
    words: Words | None = None
    instant: entries.InstantMode | None = None
    images: Sequence[Image] = ()


class ImageState:
    """What a session knows of models and images."""

    def __init__(self) -> None:
        self.refused: set[str] = set()  # models whose server refused images
        self.told: set[str] = set()  # models of which the person was told whether they see


class Turn:
    """A running turn."""

    def __init__(
        self,
        number: int,
        text: str,
        session_id: str,
        asks: Asks = NOTHING_ASKED,
        words: Words | None = None,
    ) -> None:
        self.number = number
        self.text = text
        self.words = words or Words(text, text)
        self.asks = asks
        self.prompt_id = f"{session_id}-{number}"
        self.begun = time.monotonic()
        self.steps = 0
        self.usage = Usage()
        self.edited: set[str] = set()
        self.changed_by_commands: set[str] = set()
        self.images: list[str] = []  # names of those in the message
        self.checks = Checks()
        self.named_checks: list[str] | None = None  # those in the person's words, once read
        self.unverified: Text | None = None  # why no verification ran, to report at the end
        self.checked_before: dict[str, frozenset[str]] = {}  # failures before the first edit, by command
        self.continuations = 0
        self.kept_by_hook = False  # a `Stop` hook has let the turn go on
        self.stopped_by_hook: str | None = None  # why a hook wants the turn to end
        self.empty_answers = 0
        self.warned_of_size = False
        self.hints: set[Text] = set()  # hints shown in this turn
        self.made_room_at = -1  # the step at which the provider last rejected the prompt as too long
        self.loops = LoopWatch()
        self.steers: list[Steer] = []  # what the person said meanwhile, for the next step
        self.heard: list[str] = []  # of it what the model has been told
        self.accepts_steering = True  # until the turn ends
        self.model = ""  # for the whole prompt
        self.models_tried: list[str] = []
        self.cost = 0.0
        self.answer = ""
        self.earlier_answers: list[str] = []  # followed by a message of the person's
        self.unverified_answers: list[str] = []  # each followed by a failed verification
        self.unfinished = ""  # a truncated answer that is being continued
        self.finish_reason = ""  # of the newest answer
        self.status: TurnStatus = "ok"
        self.refused = False  # the message was too long
        self.reason: Text | None = None  # why it failed
        self.doing: list[str | Text] = []  # current activities, for the message of a cancel

    @classmethod
    def taken_up(cls, number: int, so_far: TurnSoFar, session_id: str, asks: Asks) -> Turn:
        """Resume an interrupted turn with its limits, cost and verification state."""
        turn = cls(number, so_far.text, session_id, asks, Words(said=so_far.said))
        turn.steps, turn.usage, turn.cost = so_far.steps, so_far.usage, so_far.cost
        turn.edited = set(so_far.edited)
        turn.changed_by_commands = set(so_far.checks.touched) - turn.edited
        turn.earlier_answers = list(so_far.earlier_answers)
        turn.unverified_answers, turn.heard = list(so_far.unverified_answers), list(so_far.heard)
        turn.checks, turn.continuations = so_far.checks, so_far.continuations
        return turn

    def answers(self) -> list[str]:
        return given_answers(self.earlier_answers, self.unverified_answers, self.answer, self.checks)

    @contextmanager
    def busy(self, what: str | Text) -> Iterator[None]:
        """Name the activity of the block. On interruption the name stays, for the message."""
        self.doing.append(what)
        yield
        self.doing.remove(what)


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
        self.finding: Text | None = None
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
            self.finding = self.finding or Text("loop.failure", what=f"{tool} {subject}", n=SAME_FAILURE)

    def _repeated(self) -> Text | None:
        last = list(self._calls)[-SAME_CALL:]
        if len(last) == SAME_CALL and len(set(last)) == 1:
            return Text("loop.call", tool=self._names[-1], n=SAME_CALL)
        return None

    def _cycle(self) -> Text | None:
        calls = list(self._calls)
        for length in range(2, MAX_CYCLE + 1):
            tail = calls[-length * CYCLE_ROUNDS :]
            if len(tail) < length * CYCLE_ROUNDS or len(set(tail[:length])) == 1:
                continue
            if all(tail[at] == tail[at % length] for at in range(len(tail))):
                names = ", ".join(list(self._names)[-length:])
                return Text("loop.cycle", length=length, names=names, n=CYCLE_ROUNDS)
        return None

    def saw_text(self, text: str) -> bool:
        """True if the text repeats itself."""
        if self._text.add(text):
            self.finding = self.finding or Text("loop.words")
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
