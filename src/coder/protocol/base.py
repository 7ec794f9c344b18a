"""The two kinds of data that cross the engine's door, apart from their lists so that a room's ops and
events can stand in a file of their own."""

from __future__ import annotations

import msgspec


def snake(name: str) -> str:
    """A struct's name as the tag of its JSON form."""
    return "".join("_" + c.lower() if c.isupper() and at else c.lower() for at, c in enumerate(name))


class Op(msgspec.Struct, frozen=True, tag_field="op", tag=snake):
    """Base of all ops; the JSON form names the kind in `op`."""


class Event(msgspec.Struct, frozen=True, tag_field="event", tag=snake):
    """Base of all events; the JSON form names the kind in `event`."""
