"""Which part of a record is the conversation after rewinds, and where it can be taken back to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from coder.protocol.entries import Rewind, TurnStart, Undo
from coder.protocol.history import HistoryEvent
from coder.record.log import numbered_log
from coder.record.turn_so_far import changes_of

_MENTIONS = (b'"type":"rewind"', b'"type":"turn_start"')


class EarlierMessage(msgspec.Struct):
    """A person's message that the conversation can be taken back to. `changed`: files that its turn changed;
    `undone`: they were taken back since."""

    turn: int
    text: str
    ts: str = ""
    changed: list[str] = []
    undone: bool = False


def marked_log(path: Path) -> Iterator[tuple[HistoryEvent, bool]]:
    """The events of a log, each with whether it is part of the conversation as it is now."""
    gone = _rewound_lines(path)
    for number, event in numbered_log(path):
        yield event, not any(number in lines for lines in gone)


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
    from coder.modes.arguments import quote

    values = [f"{name}={quote(value)}" for name, value in instant.values.items()]
    return " ".join([instant.mode_id, *(values or [entry.said or ""])]).rstrip()


def _rewound_lines(path: Path) -> list[range]:
    """Line numbers of what was rewound and is not part of the conversation any more."""
    began: dict[int, int] = {}  # line of each turn's input
    gone: list[range] = []
    pending: list[range] = []  # rewinds that can be taken back: no input followed
    for number, event in numbered_log(path, _MENTIONS):
        match event.entry:
            case TurnStart():
                began[event.turn] = number
                pending.clear()
            case Rewind(back=True) if pending:
                last = pending.pop()
                gone.remove(last)
                gone.append(range(last.stop, number))
            case Rewind(before=turn, back=False) if turn in began:
                pending.append(range(began[turn], number))
                gone.append(pending[-1])
    return gone
