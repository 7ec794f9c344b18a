"""What is on its way to a server that does not read: bounded, and of no cost to anybody else."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Iterator
from typing import Any

from coder.mcp import stdio_transport as stdio
from coder.mcp.stdio_transport import Outbox


class Unwalked(deque[Any]):
    """A queue that is long: whoever goes through all of it for one line stops the whole program."""

    def __iter__(self) -> Iterator[Any]:
        raise AssertionError


def test_replies_that_nobody_reads_are_bounded_without_a_look_at_each() -> None:
    async def scenario() -> None:
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        os.set_blocking(reading, False)
        outbox = Outbox(writing, lambda: None)
        outbox._queue = Unwalked()
        for _ in range(2_000):
            outbox.post(b"x" * 1_000)
        kept = len(outbox._queue)
        assert kept * 1_000 <= stdio._UNASKED + 66_000
        while outbox._queue:  # it reads after all: then there is room again
            os.read(reading, 65_536)
            outbox._pump()
        outbox.post(b"once more")
        assert not outbox._queue
        outbox._queue = deque()
        outbox.close()
        os.close(reading)
        os.close(writing)

    asyncio.run(scenario())
