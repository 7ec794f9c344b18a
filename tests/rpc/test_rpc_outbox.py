"""What is on its way to somebody who does not read: in order, bounded, and of no cost to anybody else."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from coder.base.rpc import Outbox, QueuedLine

LIMIT = 1 << 20


class Unwalked(deque[Any]):
    """A queue that is long: whoever goes through all of it for one line stops the whole program."""

    def __iter__(self) -> Iterator[Any]:
        raise AssertionError


def with_pipe(use: Callable[[Outbox, int, list[OSError]], Awaitable[None]]) -> None:
    async def scenario() -> None:
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        os.set_blocking(reading, False)
        lost: list[OSError] = []
        outbox = Outbox(writing, lost.append)
        try:
            await use(outbox, reading, lost)
        finally:
            outbox.close()
            os.close(writing)
            if not lost:
                os.close(reading)

    asyncio.run(scenario())


async def read_all(reading: int, outbox: Outbox) -> bytes:
    found = bytearray()
    emptied = asyncio.ensure_future(outbox.empty())
    while not emptied.done():
        await asyncio.sleep(0)
        try:
            found += os.read(reading, 65_536)
        except BlockingIOError:
            continue
    return bytes(found)


def test_replies_that_nobody_reads_are_bounded_without_a_look_at_each() -> None:
    async def use(outbox: Outbox, reading: int, lost: list[OSError]) -> None:
        outbox._queue = Unwalked()
        for _ in range(2_000):
            outbox.post(b"x" * 1_000, LIMIT)
        assert len(outbox._queue) * 1_000 <= LIMIT + 1_000
        outbox.pump()
        while outbox._queue:  # it reads after all: then there is room again
            os.read(reading, 65_536)
            outbox.pump()
        assert outbox.waiting == 0
        outbox.post(b"once more", LIMIT)
        assert len(outbox._queue) == 1

    with_pipe(use)


def test_lines_arrive_whole_and_in_order_but_those_taken_back() -> None:
    async def use(outbox: Outbox, reading: int, lost: list[OSError]) -> None:
        written = asyncio.Event()
        begun, unbegun = QueuedLine(b"a" * 200_000), QueuedLine(b"never")
        last = QueuedLine(b"last", written.set)
        for line in (begun, unbegun, last):
            outbox.enqueue(line)
        await asyncio.sleep(0)
        assert not outbox.take_back(begun)  # some of it is out: it is finished
        assert outbox.take_back(unbegun)
        assert not outbox.take_back(unbegun)
        assert not written.is_set()
        assert await read_all(reading, outbox) == b"a" * 200_000 + b"\nlast\n"
        assert written.is_set()

    with_pipe(use)


def test_a_first_line_taken_back_leaves_nothing_of_itself() -> None:
    async def use(outbox: Outbox, reading: int, lost: list[OSError]) -> None:
        pipe = b"x" * os.write(outbox._fd, b"x" * (1 << 20))  # it is full
        line = QueuedLine(b"never")
        outbox.enqueue(line)
        await asyncio.sleep(0)
        assert outbox.take_back(line)
        outbox.enqueue(QueuedLine(b"next"))
        assert (await read_all(reading, outbox)).removeprefix(pipe) == b"next\n"

    with_pipe(use)


def test_whoever_fills_it_waits_until_it_is_read() -> None:
    async def use(outbox: Outbox, reading: int, lost: list[OSError]) -> None:
        for _ in range(10):
            outbox.enqueue(QueuedLine(b"x" * 100_000))
        waits = asyncio.ensure_future(outbox.drained(300_000))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not waits.done()
        await read_all(reading, outbox)
        await waits

    with_pipe(use)


def test_whoever_waits_is_let_go_when_nobody_reads_any_more() -> None:
    async def use(outbox: Outbox, reading: int, lost: list[OSError]) -> None:
        written, late = asyncio.Event(), asyncio.Event()
        outbox.enqueue(QueuedLine(b"x" * 200_000, written.set))
        await asyncio.sleep(0)
        os.close(reading)
        await asyncio.wait_for(written.wait(), 60)
        await asyncio.sleep(0)
        assert [type(error) for error in lost] == [BrokenPipeError]
        outbox.enqueue(QueuedLine(b"too late", late.set))
        assert late.is_set()
        await outbox.empty()

    with_pipe(use)
