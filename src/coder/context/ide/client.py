"""The line to the person's editor: found, kept, and taken up again quietly when it breaks.

Client side of Gemini CLI's IDE companion protocol, so that its published extensions work unchanged. What
the editor shows goes into `IdeContext`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from coder.context.ide.context import IdeContext
from coder.context.ide.discovery import Companion, find_companions
from coder.context.ide.transport import CompanionTransport, IdeFault, Message
from coder.texts import Phrase

# Seconds before another try; an editor that is started later is found within the last of them.
PAUSES = (0.5, 1.0, 2.0, 5.0, 15.0)
_FIRST_WORD = 0.4  # seconds that a first message waits for the editor's first word, where there is one


class IdeClient:
    """Started where `ide.enabled` is set; never a reason for anything else to fail or to wait long."""

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
        self._told = asyncio.Event()  # the editor's first word is in, or there is no editor to wait for
        self.connected = False
        self.name = ""  # the editor's, while connected
        self.fault: Phrase | None = None  # why the last try failed, for `/status`

    def start(self) -> None:
        """Needs a running loop. Returns at once."""
        if self._task is None:
            self._task = asyncio.create_task(self._keep())

    async def settle(self, seconds: float = _FIRST_WORD) -> None:
        """Give an editor that is there the moment it needs to say what it shows."""
        if self._task is None or self._told.is_set():
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._told.wait()
        self._told.set()  # one that is silent is waited for once

    async def close(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            self.context.lost()

    # the connection

    async def _keep(self) -> None:
        """Connect, listen, and begin again, for as long as the session lasts."""
        failures = 0
        while True:
            if await self._one_connection():
                failures = 0
            self._told.set()
            await asyncio.sleep(self._pauses[min(failures, len(self._pauses) - 1)])
            failures += 1

    async def _one_connection(self) -> bool:
        """Try the companions there are. Whether one has said something; returns once it is gone."""
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
                self._hear(method, params)

    def _hear(self, method: str, params: Message) -> None:
        self._heard = True
        if method == "ide/contextUpdate":
            self.context.update(params)
            self._told.set()
