"""Messages between a task process and its supervisor: length-prefixed MessagePack on a socket."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator

import msgspec

from coder.addons.batch.task import Job, Outcome, Secrets

_PREFIX = 4
_LARGEST = 1 << 28


class Message(msgspec.Struct, frozen=True, tag=True):
    """Tagged by its class."""


class Grew(Message, frozen=True):
    """A file of the task's has more content, or (`whole`) new content."""

    name: str
    data: bytes
    whole: bool = False


class Ask(Message, frozen=True):
    """A request to a provider wants to go out; it may cost `reserve` USD."""

    number: int
    provider: str
    reserve: float


class Answered(Message, frozen=True):
    """The request ended. `cost` is None if the provider did not say what it took."""

    number: int
    provider: str
    cost: float | None
    prompt: int = 0
    completion: int = 0


class Throttled(Message, frozen=True):
    """The provider said 429."""

    number: int
    provider: str
    retry_after: float | None


class Failed(Message, frozen=True):
    """The request failed for another reason."""

    number: int


class Done(Message, frozen=True):
    """The attempt is over."""

    outcome: Outcome


FromTask = Grew | Ask | Answered | Throttled | Failed | Done


class Start(Message, frozen=True):
    """What the attempt is, and where it may work."""

    job: Job
    secrets: Secrets
    directory: str
    mirror: str
    base: str
    prefix: str = ""
    left_out: list[str] = []
    sandbox: bytes = b""  # the probe's cached result for this machine
    closed: dict[str, str] = {}  # the person's homes on this machine, each with coder's own directory
    hidden: list[str] = []  # further paths that its commands shall not see


class Permit(Message, frozen=True):
    """The answer to `Ask`."""

    number: int
    wait: float = 0.0
    refused: bool = False


class Stop(Message, frozen=True):
    """Cancel the attempt."""


ToTask = Start | Permit | Stop

_encoder = msgspec.msgpack.Encoder()
_from_task = msgspec.msgpack.Decoder(FromTask)
_to_task = msgspec.msgpack.Decoder(ToTask)


def framed(message: Message) -> bytes:
    data = _encoder.encode(message)
    return len(data).to_bytes(_PREFIX, "big") + data


class Incoming:
    """Splits the bytes of a task process into messages. Raises `ValueError` on what is not ours."""

    def __init__(self) -> None:
        self._pending = bytearray()

    def feed(self, data: bytes) -> Iterator[FromTask]:
        self._pending += data
        while len(self._pending) >= _PREFIX:
            size = int.from_bytes(self._pending[:_PREFIX], "big")
            if size > _LARGEST:
                raise ValueError(f"a message of {size} bytes")
            if len(self._pending) < _PREFIX + size:
                return
            message = bytes(self._pending[_PREFIX : _PREFIX + size])
            del self._pending[: _PREFIX + size]
            yield _from_task.decode(message)


class TaskChannel:
    """The task's end of the channel."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._waiting: dict[int, asyncio.Future[Permit]] = {}

    @classmethod
    async def over(cls, connection: socket.socket) -> TaskChannel:
        return cls(*await asyncio.open_unix_connection(sock=connection))

    def send(self, message: FromTask) -> None:
        if not self._writer.is_closing():
            self._writer.write(framed(message))

    async def drain(self) -> None:
        await self._writer.drain()

    async def started(self) -> Start:
        """The first message."""
        message = await self._next()
        assert isinstance(message, Start)
        return message

    async def listen(self, stop: Callable[[], object]) -> None:
        """Hand permits to those who asked. The supervisor's end means stop, too."""
        while True:
            try:
                message = await self._next()
            except (EOFError, ConnectionError):
                stop()
                return
            if isinstance(message, Stop):
                stop()
            elif isinstance(message, Permit):
                waiting = self._waiting.pop(message.number, None)
                if waiting is not None and not waiting.done():
                    waiting.set_result(message)

    async def ask(self, question: Ask) -> Permit:
        answer: asyncio.Future[Permit] = asyncio.get_running_loop().create_future()
        self._waiting[question.number] = answer
        self.send(question)
        return await answer

    async def _next(self) -> ToTask:
        size = int.from_bytes(await self._reader.readexactly(_PREFIX), "big")
        message: ToTask = _to_task.decode(await self._reader.readexactly(size))
        return message
