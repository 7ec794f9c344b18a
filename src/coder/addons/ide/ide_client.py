"""Client of Gemini CLI's IDE companion protocol, so that its published extensions work unchanged.

Finds the editor, keeps the connection, and reconnects with back-off. Updates go to `IdeContext`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from coder.addons.ide.discovery import Companion, find_companions
from coder.addons.ide.ide_context import IdeContext
from coder.addons.ide.transport import CompanionTransport, IdeFault, Message
from coder.texts import AnyText, Text

# Back-off in seconds between attempts; an editor started later is found within the last.
PAUSES = (0.5, 1.0, 2.0, 5.0, 15.0)
_FIRST_UPDATE_SECONDS = 0.4  # seconds that the first message waits for the editor's first update


def companion(root: Path, environ: Mapping[str, str]) -> IdeClient:
    """A connection that is not started yet."""
    return IdeClient(IdeContext(root), root, environ)


class IdeClient:
    """Started where `ide.enabled` is set. Its errors never affect anything else."""

    def __init__(
        self,
        context: IdeContext,
        cwd: Path,
        environ: Mapping[str, str],
        pauses: Sequence[float] = PAUSES,
    ) -> None:
        self.context = context
        self._cwd = cwd
        self._environ = environ
        self._pauses = pauses
        self._task: asyncio.Task[None] | None = None
        self._heard = False
        self._first_update = asyncio.Event()  # the first update has arrived, or there is no editor
        self.connected = False
        self.name = ""  # the editor's, while connected
        self.fault: Text | None = None  # why the last attempt failed, for `/status`

    def tell_all_again(self) -> None:
        self.context.tell_all_again()

    def next_note(self) -> str:
        return self.context.next_note()

    def status(self) -> AnyText:
        """The editor's name, or why none is connected."""
        if self.connected:
            return self.name
        none = Text("status.no_ide")
        return none if self.fault is None else none + " (" + self.fault + ")"

    def start(self) -> None:
        """Needs a running loop. Returns at once."""
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    async def settle(self, seconds: float = _FIRST_UPDATE_SECONDS) -> None:
        """Wait briefly for a connected editor's first update."""
        if self._task is None or self._first_update.is_set():
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._first_update.wait()
        self._first_update.set()  # wait only once

    async def close(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            self.context.lost()

    # the connection

    async def _run(self) -> None:
        """Connect, listen and reconnect until the session ends."""
        failures = 0
        while True:
            if await self._one_connection():
                failures = 0
            self._first_update.set()
            await asyncio.sleep(self._pauses[min(failures, len(self._pauses) - 1)])
            failures += 1

    async def _one_connection(self) -> bool:
        """Try each companion and listen until it disconnects. Returns whether one sent something."""
        self._heard = False
        for companion in find_companions(self._cwd, self._environ):
            wire = CompanionTransport(companion.number, companion.auth_token)
            try:
                await wire.open()
                await self._listen(wire, companion)
            except IdeFault as fault:
                self.fault = fault.phrase
            finally:
                self.connected, self.name = False, ""
                await wire.close()
            self.context.lost()
            if self._heard:
                break
        return self._heard

    async def _listen(self, wire: CompanionTransport, companion: Companion) -> None:
        self.connected, self.name, self.fault = True, companion.name, None
        async with contextlib.aclosing(wire.notifications()) as notifications:
            async for method, params in notifications:
                self._handle(method, params)

    def _handle(self, method: str, params: Message) -> None:
        self._heard = True
        if method == "ide/contextUpdate":
            self.context.update(params)
            self._first_update.set()
