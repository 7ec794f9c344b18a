"""The two kinds of data that cross the engine's door, apart from their lists so that a room's ops and
events can stand in a file of their own."""

from __future__ import annotations

import msgspec

from coder.protocol.tagging import snake


class Op(msgspec.Struct, frozen=True, tag_field="op", tag=snake):
    """Base of all ops; the JSON form names the kind in `op`."""


class Event(msgspec.Struct, frozen=True, tag_field="event", tag=snake):
    """Base of all events; the JSON form names the kind in `event`."""
