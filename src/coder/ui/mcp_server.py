"""`coder serve_mcp-mcp`: other agents give it tasks, under the person's policy and sandbox."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from coder import __version__
from coder.base.rpc import INVALID_PARAMS, Id, Json, Method, RpcError
from coder.config.load import home_directory
from coder.engine.sdk import create_agent_session
from coder.history.store import SessionStore
from coder.policy.workspace import DirectoryWorkspace
from coder.protocol.events import SessionStarted, ToolCallChanged
from coder.texts import CoderError
from coder.tools.paths import steers
from coder.tools.tool import OutsideWorkspace
from coder.ui.stdio import EditorOutbox, EditorPeer, serve_on_stdio

VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")  # newest first
_AT_ONCE = 4  # tasks
_KIND = "sdk"  # of sessions that tasks begin
_CLOSING = 10.0  # seconds for tasks to end in, when the client is gone

_TASK = {
    "name": "task",
    "title": "Coding task",
    "description": (
        "Give a coding agent a task in a folder: it reads, edits, runs and verifies there by itself and "
        "answers with what it did. It cannot ask back: say everything that it needs to know. What its "
        "person's policy does not allow is refused and named in the answer."
    ),
    "inputSchema": {
        "type": "object",
        "properties": {
            "task": {"type": "string", "description": "What to do, in full"},
            "folder": {"type": "string", "description": "Below the server's folder; that folder if left out"},
            "look_only": {"type": "boolean", "description": "Read and propose only, change nothing"},
            "session": {
                "type": "string",
                "description": "A session_id of an earlier answer, to go on with it",
            },
        },
        "required": ["task"],
        "additionalProperties": False,
    },
}


class McpChoices(msgspec.Struct, frozen=True, kw_only=True):
    """Command-line choices for every task; a caller can only ask for less."""

    root: Path
    environ: Mapping[str, str]
    mode: Literal["plan", "default", "auto-edit", "yolo"] = "default"
    preset: str = ""
    model: str = ""
    config_file: Path | None = None
    log_dir: Path | None = None


class _Initialize(msgspec.Struct):
    protocol_version: str = msgspec.field(name="protocolVersion", default="")


class _Cancelled(msgspec.Struct):
    request_id: Id = msgspec.field(name="requestId", default=None)


class _Call(msgspec.Struct):
    name: str
    arguments: Json = {}
    meta: Json = msgspec.field(name="_meta", default_factory=dict)


class _Arguments(msgspec.Struct, forbid_unknown_fields=True):
    task: str
    directory: str = msgspec.field(name="folder", default="")
    look_only: bool = False
    session: str | None = None


class McpTaskServer:
    def __init__(self, chosen: McpChoices, outbox: EditorOutbox) -> None:
        self._chosen = chosen
        self._places = asyncio.Semaphore(_AT_ONCE)
        self.peer = EditorPeer(
            outbox,
            {
                "initialize": Method(_Initialize, self.initialize),
                "ping": Method(Json, self.nothing),
                "notifications/initialized": Method(Json, self.nothing),
                "notifications/cancelled": Method(_Cancelled, self.cancelled),
                "tools/list": Method(Json, self.list_tools),
                "tools/call": Method(_Call, self.call),
            },
        )

    async def close(self) -> None:
        self.peer.cancel_all()
        await self.peer.settled(_CLOSING)

    async def initialize(self, params: _Initialize) -> Json:
        version = params.protocol_version if params.protocol_version in VERSIONS else VERSIONS[0]
        return {
            "protocolVersion": version,
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "coder", "version": __version__},
        }

    async def nothing(self, params: Json) -> Json:
        return {}

    async def list_tools(self, params: Json) -> Json:
        return {"tools": [_TASK]}

    async def cancelled(self, params: _Cancelled) -> Json:
        self.peer.cancel(params.request_id)
        return {}

    async def call(self, params: _Call) -> Json:
        if params.name != "task":
            raise RpcError(INVALID_PARAMS, f"there is no tool {params.name[:100]!r}")
        try:
            given = msgspec.convert(params.arguments, _Arguments)
        except msgspec.ValidationError as error:
            return _failed(f"the arguments are wrong: {error}")
        if not given.task.strip():
            return _failed("the task is empty")
        async with self._places:  # looked up only now: other tasks may exchange it while this one waits
            directory = self._directory(given.directory)
            if directory is None:
                return _failed(f"{given.directory} is no folder below {self._chosen.root}")
            if given.session is not None and not self._is_ours(directory, given.session):
                return _failed(f"{given.session} is no session of an earlier answer in this folder")
            return await self._run(given, directory, params.meta.get("progressToken"))

    def _is_ours(self, directory: Path, session_id: str) -> bool:
        """Whether a caller's task began it: the person's own conversations are private."""
        return SessionStore(directory, self._chosen.log_dir).begun_by(session_id) == _KIND

    def _directory(self, name: str) -> Path | None:
        """The resolved directory; None if it is outside ours, or protected (`.git/hooks` would be ordinary in
        a workspace of its own)."""
        root = Path(os.path.realpath(self._chosen.root))
        own = str(home_directory(self._chosen.environ))
        try:
            workspace = DirectoryWorkspace(root, person=self._chosen.environ.get("HOME", ""), own=own)
            directory = workspace.resolve(name or ".", write=True)
            below = directory.is_relative_to(root) and directory.is_dir()
        except (OutsideWorkspace, OSError, ValueError):
            return None
        return directory if below and not steers(root, directory) else None

    async def _run(self, given: _Arguments, directory: Path, token: object) -> Json:
        chosen = self._chosen
        session = create_agent_session(
            cwd=directory,
            environ=chosen.environ,
            mode="plan" if given.look_only else chosen.mode,
            permissions=chosen.preset,
            model=chosen.model,
            resume=given.session,
            config_file=chosen.config_file,
            log_dir=chosen.log_dir,
            on_event=_Progress(self.peer, token, directory).handle,
        )
        try:
            # Attached, not typed: a caller's `!` and `/` are words, and never the person's shell.
            result = await session.run_turn("", attached=given.task)
        except CoderError as error:
            return _failed(str(error))
        finally:
            await asyncio.shield(session.close())
        fields = {
            "status": result.status,
            "session_id": result.session_id,
            "steps": len(result.steps),
            "verification": msgspec.to_builtins(result.verification),
        }
        text = result.final_text or result.error or result.status
        return {"content": [_text(text)], "structuredContent": fields, "isError": result.status != "ok"}


class _Progress:
    """Reports each tool call to the client, and ends a session that began elsewhere."""

    def __init__(self, peer: EditorPeer, token: object, directory: Path) -> None:
        self._peer, self._token, self._count = peer, token, 0
        self._directory = directory

    def handle(self, event: Any) -> None:
        if isinstance(event, SessionStarted) and Path(event.cwd) != self._directory:
            raise CoderError("config.no_folder", directory=self._directory)  # a link has taken its place
        if not isinstance(self._token, int | str):
            return
        if isinstance(event, ToolCallChanged) and event.state == "executing":
            self._count += 1
            words = f"{event.tool} {event.argument}".strip()[:200]
            fields = {"progressToken": self._token, "progress": self._count, "message": words}
            self._peer.tell("notifications/progress", fields, "")


def _text(text: str) -> Json:
    return {"type": "text", "text": text}


def _failed(text: str) -> Json:
    return {"content": [_text(text)], "isError": True}


async def serve_mcp(chosen: McpChoices) -> int:
    """Serve until EOF or a signal; returns the exit status."""
    return await serve_on_stdio(lambda outbox: McpTaskServer(chosen, outbox))
