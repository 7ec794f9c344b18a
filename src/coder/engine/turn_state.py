"""A turn while it runs: what it asks of its model, and what is known of it so far."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from coder.engine.loops import LoopWatch
from coder.protocol.entries import Asks as Asks
from coder.protocol.events import TurnStatus
from coder.protocol.usage import Usage
from coder.record.turn_so_far import Checks, TurnSoFar
from coder.texts import Phrase

NOTHING_ASKED = Asks()


class Words(msgspec.Struct, frozen=True):
    """What of a message is the person's own. `typed`: not what they pasted or piped. `said`: that, or all of
    a message of which nothing was typed; neither holds a word of a rendered mode."""

    typed: str = ""
    said: str = ""


class Turn:
    """What is known of the turn that is running."""

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
        self.checks = Checks()
        self.unverified: Phrase | None = None  # why no check was run, where that is said at the end
        self.checked_before: dict[str, frozenset[str]] = {}  # what failed before the first edit, by command
        self.continuations = 0
        self.empty_answers = 0
        self.warned_of_size = False
        self.hints: set[str] = set()  # which the person has read in this turn
        self.made_room_at = -1  # the step at which the provider last found the prompt too long
        self.loops = LoopWatch()
        self.model = ""  # which answers this prompt, all of it
        self.models_tried: list[str] = []
        self.cost = 0.0
        self.answer = ""
        self.unverified_answers: list[str] = []  # each followed by a check that failed
        self.unfinished = ""  # of the answer, where the output limit cut it off and it is continued
        self.finish_reason = ""  # of the newest answer
        self.status: TurnStatus = "ok"
        self.refused = False  # its message was too long to become part of the conversation
        self.reason: Phrase | None = None  # why it did not end well
        self.doing: list[str | Phrase] = []  # what is under way just now; a cancel says what it stopped

    @classmethod
    def taken_up(cls, number: int, so_far: TurnSoFar, session_id: str, asks: Asks) -> Turn:
        """One that was cut off, where it stopped: its limits, its cost and its check go on from there."""
        turn = cls(number, so_far.text, session_id, asks, Words(said=so_far.said))
        turn.steps, turn.usage, turn.cost = so_far.steps, so_far.usage, so_far.cost
        turn.edited = set(so_far.edited)
        turn.unverified_answers = list(so_far.unverified_answers)
        turn.checks, turn.continuations = so_far.checks, so_far.continuations
        return turn

    @contextmanager
    def busy(self, what: str | Phrase) -> Iterator[None]:
        """Name what is done inside. Where it is cut short the name stays, for whoever tells of it."""
        self.doing.append(what)
        yield
        self.doing.remove(what)
