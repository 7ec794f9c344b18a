"""The line to the person's editor: found, kept, and taken up again quietly when it breaks.

Client side of Gemini CLI's IDE companion protocol, so that its published extensions work unchanged. What
the editor shows goes into `IdeContext`; a proposed change can be shown in the editor as a diff.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from coder.context.ide.context import IdeContext
from coder.context.ide.discovery import Companion, find_companions
from coder.context.ide.transport import CompanionTransport, IdeFault, Message
from coder.texts import Phrase

# Seconds before another try; an editor that is started later is found within the last of them.
PAUSES = (0.5, 1.0, 2.0, 5.0, 15.0)
_FIRST_WORD = 0.4  # seconds that a first message waits for the editor's first word, where there is one

_TIDYING = 2.0  # seconds that a cancelled diff may take to leave the screen


class DiffOutcome(msgspec.Struct, frozen=True):
    """What the person did with a diff in the editor. `content`: the file as accepted, with their edits."""

    status: Literal["accepted", "rejected"]
    content: str = ""


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
        self._wire: CompanionTransport | None = None
        self._tools: list[str] = []
        self._heard = False
        self._told = asyncio.Event()  # the editor's first word is in, or there is no editor to wait for
        self._diffs: dict[str, asyncio.Future[DiffOutcome]] = {}
        self._one_diff = asyncio.Lock()  # editors show one diff view at a time
        self.name = ""  # the editor's, while connected
        self.fault: Phrase | None = None  # why the last try failed, for `/status`

    @property
    def connected(self) -> bool:
        return self._wire is not None

    @property
    def shows_diffs(self) -> bool:
        return self.connected and {"openDiff", "closeDiff"} <= set(self._tools)

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
            self._lose()

    # diffs

    async def open_diff(self, path: Path, content: str) -> DiffOutcome:
        """Show a proposed change and wait for the person's word. A cancel takes the view away again."""
        async with self._one_diff:
            waiting: asyncio.Future[DiffOutcome] = asyncio.get_running_loop().create_future()
            self._diffs[str(path)] = waiting
            try:
                await self._call("openDiff", {"filePath": str(path), "newContent": content})
                return await waiting
            except asyncio.CancelledError:
                with contextlib.suppress(IdeFault, TimeoutError):
                    async with asyncio.timeout(_TIDYING):
                        await self.close_diff(path)
                raise
            finally:
                self._diffs.pop(str(path), None)
                if waiting.done() and not waiting.cancelled():
                    waiting.exception()  # looked at, so that the loop does not complain of it

    async def close_diff(self, path: Path) -> str | None:
        """Take the view away; what it held, with the person's edits, where the editor tells."""
        result = await self._call("closeDiff", {"filePath": str(path), "suppressNotification": True})
        text = _text(result)
        if text is None:
            return None
        try:
            told = msgspec.json.decode(text)
        except msgspec.DecodeError:
            return text  # the protocol's text says plain content, its extension sends an object
        content = told.get("content") if isinstance(told, dict) else text
        return content if isinstance(content, str) else None

    async def _call(self, tool: str, arguments: Message) -> Message:
        if self._wire is None:
            raise IdeFault("context.ide.none")
        result = await self._wire.request("tools/call", {"name": tool, "arguments": arguments})
        if result.get("isError"):
            raise IdeFault("context.ide.says", why=_text(result) or tool)
        return result

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
                self._tools = await wire.open()
                await self._listen(wire, companion)
            except IdeFault as fault:
                self.fault = fault.phrase
            finally:
                self._wire, self.name = None, ""
                await wire.close()
            self._lose()
            if self._heard:
                break
        return self._heard

    async def _listen(self, wire: CompanionTransport, companion: Companion) -> None:
        self._wire, self.name, self.fault = wire, companion.name, None
        async with contextlib.aclosing(wire.notifications()) as notifications:
            async for method, params in notifications:
                self._hear(method, params)

    def _hear(self, method: str, params: Message) -> None:
        self._heard = True
        if method == "ide/contextUpdate":
            self.context.update(params)
            self._told.set()
            return
        waiting = self._diffs.get(str(params.get("filePath")))
        if waiting is None or waiting.done():
            return
        if method == "ide/diffAccepted":
            waiting.set_result(DiffOutcome("accepted", str(params.get("content", ""))))
        elif method in ("ide/diffRejected", "ide/diffClosed"):  # the latter from older extensions
            waiting.set_result(DiffOutcome("rejected"))

    def _lose(self) -> None:
        self._tools = []
        self.context.lost()
        for waiting in self._diffs.values():
            if not waiting.done():
                waiting.set_exception(IdeFault("context.ide.lost"))


def _text(result: Mapping[str, Any]) -> str | None:
    content = result.get("content")
    for part in content if isinstance(content, list) else []:
        if isinstance(part, dict) and part.get("type") == "text":
            return str(part.get("text", ""))
    return None
