"""What of a record's event can be found: its text in parts, each with who it is by."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from coder.protocol import entries
from coder.protocol.history import HistoryEvent

Kind = Literal["person", "answer", "thinking", "call", "output"]
Part = tuple[Kind, str]
_LETTERS: dict[Kind, str] = {"person": "p", "answer": "a", "thinking": "t", "call": "c", "output": "o"}
_KINDS: dict[str, Kind] = {letter: kind for kind, letter in _LETTERS.items()}
_BETWEEN = "\x1e"
_LONGEST = 200_000  # characters of one part; tools' outputs are cut below this when they are recorded


def parts_of(event: HistoryEvent) -> Iterator[Part]:
    """System message and instructions are left out: they are the same in every session."""
    event = event.inner
    match event.entry:
        case entries.TurnStart() | entries.Note(reason="person"):
            yield "person", event.content
        case entries.Assistant(by=by, reasoning=reasoning) if not by:
            if reasoning:
                yield "thinking", reasoning
            yield "answer", event.said
        case entries.Action(input=given) if not event.for_model_alone:
            yield "call", "\n".join(_strings(given))
        case entries.Observation(path=path, files=files) if not event.for_model_alone:
            names = [path] if path else []
            names += [file.path for file in files] if isinstance(files, list) else []
            yield "call", "\n".join(names)
            yield "output", event.content
        case entries.Command(input=line):
            yield "person", line
            yield "output", event.content
        case entries.Verify(command=command):
            yield "call", command
            yield "output", event.content
        case entries.Job() | entries.Compaction():
            yield "output", event.content


def _strings(value: Any) -> Iterator[str]:
    """A call's arguments, without their names."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from _strings(one)
    elif isinstance(value, list):
        for one in value:
            yield from _strings(one)


def packed(parts: list[Part]) -> str:
    """As one text; the separator occurs in no part."""
    return _BETWEEN.join(
        _LETTERS[kind] + text[:_LONGEST].replace(_BETWEEN, " ") for kind, text in parts if text.strip()
    )


def unpacked(text: str) -> list[Part]:
    return [(_KINDS[part[0]], part[1:]) for part in text.split(_BETWEEN) if part]
