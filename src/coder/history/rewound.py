"""Which part of a record is the conversation after rewinds, and where it can be taken back to."""

from __future__ import annotations

from bisect import bisect
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import msgspec

from coder.base.text import double_quoted as quote
from coder.history.log import numbered_log
from coder.history.turn_so_far import changes_of
from coder.protocol.entries import Assistant, Final, Rewind, TurnEnd, TurnStart, Undo
from coder.protocol.events import PastTurn
from coder.protocol.history import HistoryEvent

_MENTIONS = (b'"type":"rewind"', b'"type":"turn_start"')


class EarlierMessage(msgspec.Struct):
    """A message to rewind to. `changed`: files of its turn; `undone`: those changes were undone since."""

    turn: int
    text: str
    ts: str = ""
    changed: list[str] = []
    undone: bool = False


def marked_log(path: Path) -> Iterator[tuple[HistoryEvent, bool]]:
    """The events of a log, each with whether it is part of the conversation as it is now."""
    rewinds = Rewinds()
    for number, event in numbered_log(path, _MENTIONS):
        rewinds.take(number, event)
    gone = rewinds.gone()
    for number, event in numbered_log(path):
        yield event, not is_within(number, gone)


def current_log(path: Path) -> Iterator[HistoryEvent]:
    """The events that are part of the conversation as it is now."""
    return (event for event, current in marked_log(path) if current)


def earlier_messages(path: Path) -> list[EarlierMessage]:
    """Oldest first. Messages that were refused are not part of the conversation."""
    found: list[EarlierMessage] = []
    undone: dict[int, bool] = {}
    for event, current in marked_log(path):
        match event.entry:
            case TurnStart(refused=False) as entry if current:
                found.append(EarlierMessage(event.turn, typed_line(event, entry), event.ts))
            case Undo(undone_turn=back, redone_turn=again):
                undone |= {turn: turn == back for turn in (back, again) if turn}
            case _ if current and found:
                found[-1].changed = sorted({*found[-1].changed, *changes_of(event)})
    for message in found:
        message.undone = undone.get(message.turn, False)
    return found


def typed_line(event: HistoryEvent, entry: TurnStart) -> str:
    """An input as it was, or could have been, typed."""
    instant = entry.instant
    if instant is None:
        return event.content
    values = [f"{name}={quote(value)}" for name, value in instant.values.items()]
    return " ".join([instant.mode_id, *(values or [entry.said or ""])]).rstrip()


class Rewound(msgspec.Struct):
    """What a rewind at `end` left behind: from the place `start` on. `back`: where that was taken back."""

    start: int
    end: int
    back: int | None = None


class Rewinds:
    """Takes the inputs and rewinds of a record in order, with their places: lines or bytes."""

    def __init__(self) -> None:
        self.all: list[Rewound] = []
        self._began: dict[int, int] = {}  # place of each turn's input
        self._pending: list[Rewound] = []  # that can be taken back: no input followed

    def take(self, place: int, event: HistoryEvent) -> None:
        match event.entry:
            case TurnStart():
                self._began[event.turn] = place
                self._pending.clear()
            case Rewind(back=True) if self._pending:
                last = self._pending.pop()
                last.back = place
                self.all.append(Rewound(last.end, place))
            case Rewind(before=turn, back=False) if turn in self._began:
                self._pending.append(Rewound(self._began[turn], place))
                self.all.append(self._pending[-1])

    def gone(self) -> list[range]:
        """What is not part of the conversation any more: apart from each other, in order."""
        found: list[range] = []
        for one in sorted((one.start, one.end) for one in self.all if one.back is None):
            if found and one[0] <= found[-1].stop:
                found[-1] = range(found[-1].start, max(found[-1].stop, one[1]))
            else:
                found.append(range(*one))
        return found


def is_within(place: int, ranges: list[range]) -> bool:
    """`ranges`: as `Rewinds.gone` has them."""
    at = bisect(ranges, place, key=lambda one: one.start)
    return at > 0 and place in ranges[at - 1]


TURNS = 3
_CHARS = 4000  # of each text: only a few lines are shown


class RecentTurns:
    """Consumes events in order; `turns` are the newest, oldest first."""

    def __init__(self) -> None:
        self._turns: deque[PastTurn] = deque(maxlen=TURNS)

    @property
    def turns(self) -> list[PastTurn]:
        return list(self._turns)

    def take(self, event: HistoryEvent) -> None:
        match event.entry:
            case TurnStart():
                self._turns.append(PastTurn(text=event.content[:_CHARS]))
            case Assistant() | Final() if self._turns and event.said.strip():
                self._change(answer=event.said[:_CHARS])
            case TurnEnd(status=status) if self._turns:
                self._change(status=status)

    def _change(self, **fields: str) -> None:
        self._turns[-1] = msgspec.structs.replace(self._turns[-1], **fields)
