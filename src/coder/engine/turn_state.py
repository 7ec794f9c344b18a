"""State of a running turn."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from coder.engine.loops import LoopWatch
from coder.protocol.entries import Asks as Asks
from coder.protocol.events import TurnStatus
from coder.protocol.ops import Steer
from coder.protocol.usage import Usage
from coder.record.turn_so_far import Checks, TurnSoFar, given_answers
from coder.texts import Phrase

NOTHING_ASKED = Asks()


class Words(msgspec.Struct, frozen=True):
    """The person's own part of a message. `typed`: not pasted or piped. `said`: that, or the whole message
    where nothing was typed; of a rendered mode both have the values that were given."""

    typed: str = ""
    said: str = ""


class ImageState:
    """Of a session: which images its record has, and what is known of models and images."""

    def __init__(self) -> None:
        self.recorded: set[str] = set()  # ids
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
        self.unverified: Phrase | None = None  # why no verification ran, to report at the end
        self.checked_before: dict[str, frozenset[str]] = {}  # failures before the first edit, by command
        self.continuations = 0
        self.kept_by_hook = False  # a `Stop` hook has let the turn go on
        self.stopped_by_hook: str | None = None  # why a hook wants the turn to end
        self.empty_answers = 0
        self.warned_of_size = False
        self.hints: set[Phrase] = set()  # hints shown in this turn
        self.made_room_at = -1  # the step at which the provider last rejected the prompt as too long
        self.loops = LoopWatch()
        self.steers: list[Steer] = []  # what the person said meanwhile, for the next step
        self.heard: list[str] = []  # of it what the model has been told
        self.hears = True  # until the turn ends
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
        self.reason: Phrase | None = None  # why it failed
        self.doing: list[str | Phrase] = []  # current activities, for the message of a cancel

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
    def busy(self, what: str | Phrase) -> Iterator[None]:
        """Name the activity of the block. On interruption the name stays, for the message."""
        self.doing.append(what)
        yield
        self.doing.remove(what)
