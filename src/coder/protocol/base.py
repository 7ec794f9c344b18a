"""Base classes of ops and events, so that a package can define its own in a separate module."""

from __future__ import annotations

import msgspec


def snake(name: str) -> str:
    """A struct's name as the tag of its JSON form."""
    return "".join("_" + c.lower() if c.isupper() and at else c.lower() for at, c in enumerate(name))


class Op(msgspec.Struct, frozen=True, tag_field="op", tag=snake):
    """Base of all ops; the JSON form names the kind in `op`."""


class Event(msgspec.Struct, frozen=True, tag_field="event", tag=snake):
    """Base of all events; the JSON form names the kind in `event`."""
