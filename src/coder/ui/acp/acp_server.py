"""The methods of the Agent Client Protocol (version 1) on stdio.

Each session has its own agent and engine. The engine is imported lazily, after `initialize` is answered.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from coder import __version__
from coder.base.rpc import INVALID_PARAMS, Id, Method, ResultThen, RpcError, request_id
from coder.texts import Catalog, pick_language
from coder.ui import acp
from coder.ui.acp.params import (
    PROTOCOL_VERSION,
    Authenticate,
    CancelRequest,
    Initialize,
    ListSessions,
    NewSession,
    OldSession,
    OneSession,
    PromptRequest,
    SetMode,
    SetOption,
)
from coder.ui.stdio import AUTH_REQUIRED, FLUSHING, NOT_FOUND, EditorOutbox, EditorPeer, serve_on_stdio

if TYPE_CHECKING:
    from coder.config.schema import OperatingMode
    from coder.ui.acp.acp_session import EditorSession

_PAGE = 50  # sessions in one answer of `session/list`
_BATCH = 100  # events replayed before yielding to other sessions
_OPENING = 5.0  # seconds for pending requests to finish, when the client is gone
_CLOSING = 10.0  # seconds for sessions to end in, when the client is gone
_AUTH = "provider"
_PROVIDER_VARIABLES = (
    "CODER_API_KEY",
    "CODER_BASE_URL",
    "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY",
    "GEMINI_API_KEY",
)


class AcpChoices(msgspec.Struct, frozen=True, kw_only=True):
    """Command-line choices, for every session."""

    environ: Mapping[str, str]
    mode: OperatingMode | None = None
    preset: str = ""
    model: str = ""
    lang: str = ""
    config_file: Path | None = None
    log_dir: Path | None = None


class AcpServer:
    """The open sessions, and a handler per method."""

    def __init__(self, chosen: AcpChoices, outbox: EditorOutbox) -> None:
        self._chosen = chosen
        self._texts = Catalog(pick_language(chosen.lang, "", chosen.environ))
        self._sessions: dict[str, EditorSession] = {}
        self._directories: dict[
            str, str
        ] = {}  # directories of sessions by real path, as the client spells them
        self._prompts: dict[Id, EditorSession] = {}  # running ones, by request
        self._opening = asyncio.Lock()
        self._outbox = outbox
        self.peer = EditorPeer(outbox, self._methods())

    def _methods(self) -> dict[str, Method]:
        return {
            "initialize": Method(Initialize, self.initialize),
            "authenticate": Method(Authenticate, self.authenticate),
            "session/new": Method(NewSession, self.new_session),
            "session/load": Method(OldSession, self.load_session),
            "session/resume": Method(OldSession, self.resume_session),
            "session/list": Method(ListSessions, self.list_sessions),
            "session/close": Method(OneSession, self.close_session),
            "session/prompt": Method(PromptRequest, self.prompt),
            "session/cancel": Method(OneSession, self.cancel),
            "session/set_mode": Method(SetMode, self.set_mode),
            "session/set_config_option": Method(SetOption, self.set_option),
            "$/cancel_request": Method(CancelRequest, self.cancel_request),
        }

    # before any session

    async def initialize(self, params: Initialize) -> dict[str, Any]:
        """We support one version; a client that does not will disconnect."""
        self.peer.has_forms = params.has_forms
        capabilities = {
            "loadSession": True,
            "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
            "mcpCapabilities": {"http": True, "sse": True},
            "sessionCapabilities": {"list": {}, "resume": {}, "close": {}},
        }
        return {
            "protocolVersion": PROTOCOL_VERSION,
            "agentCapabilities": capabilities,
            "agentInfo": {"name": "coder", "title": "coder", "version": __version__},
            "authMethods": self._auth_methods(),
        }

    def _auth_methods(self) -> list[dict[str, Any]]:
        """Empty if a provider is configured; else a method that describes what to set."""
        if any(self._chosen.environ.get(name) for name in _PROVIDER_VARIABLES):
            return []  # reading the settings would double the time of this answer
        problem = acp.acp_session.provider_problem(self._chosen, self._texts)
        if not problem:
            return []
        return [{"id": _AUTH, "name": self._texts.say("acp.auth"), "description": problem}]

    async def authenticate(self, params: Authenticate) -> dict[str, Any]:
        if params.method_id != _AUTH:
            raise RpcError(INVALID_PARAMS, self._texts.say("acp.no_auth", name=params.method_id))
        if problem := acp.acp_session.provider_problem(self._chosen, self._texts):
            raise RpcError(AUTH_REQUIRED, problem)
        return {}

    async def cancel_request(self, params: CancelRequest) -> None:
        """A prompt is cancelled as by `session/cancel`, and answered as then; any other request is answered
        with an error."""
        session = self._prompts.get(params.request_id)
        if session is not None:
            session.cancel()
        else:
            self.peer.cancel(params.request_id)

    # sessions

    async def new_session(self, params: NewSession) -> ResultThen:
        session = await self._open(params, None)
        return ResultThen({"sessionId": session.id, **_state(session)}, session.begin)

    async def load_session(self, params: OldSession) -> ResultThen:
        """Replays the record before the answer, as the protocol requires."""
        async with self._opening:
            session = await self._reopen(params)
            try:
                for number in session.replay(acp.acp_session.store_of(self._chosen, params.cwd)):
                    await self._outbox.room()
                    if not number % _BATCH:
                        await asyncio.sleep(0)
            except BaseException:  # cancelled, or unreadable
                self._sessions.pop(session.id, None)
                await session.close()
                raise
        return ResultThen(_state(session), session.begin)

    async def resume_session(self, params: OldSession) -> ResultThen:
        async with self._opening:
            session = await self._reopen(params)
        return ResultThen(_state(session), session.begin)

    async def _reopen(self, params: OldSession) -> EditorSession:
        self._directory(params.cwd)
        if not acp.acp_session.store_of(self._chosen, params.cwd).exists(params.session_id):
            raise RpcError(NOT_FOUND, self._texts.say("session.missing", id=params.session_id))
        if open_one := self._sessions.pop(params.session_id, None):  # a reloaded window
            await open_one.close()
        session = await self._open(params, params.session_id)
        session.updates.titled = True
        return session

    async def _open(self, params: NewSession, resume: str | None) -> EditorSession:
        """Raises `RpcError` with a message for the person."""
        directory = self._directory(params.cwd)
        if params.additional_directories:
            raise RpcError(INVALID_PARAMS, self._texts.say("acp.one_folder"))
        session = await acp.acp_session.open_session(
            self.peer, self._chosen, self._texts, directory, params, resume
        )
        self._sessions[session.id] = session
        return session

    def _directory(self, cwd: str) -> Path:
        if not os.path.isabs(cwd) or "\0" in cwd:  # noqa: PTH117 - text of the client's
            raise RpcError(INVALID_PARAMS, self._texts.say("acp.relative", directory=cwd))
        if not os.path.isdir(cwd):  # noqa: PTH112 - False for an unreadable directory; pathlib would raise
            raise RpcError(INVALID_PARAMS, self._texts.say("config.no_folder", directory=cwd))
        self._directories.setdefault(os.path.realpath(cwd), cwd)
        return Path(cwd)

    async def list_sessions(self, params: ListSessions) -> dict[str, Any]:
        """Sessions of one directory, or of all that this client has used: records are stored per
        directory."""
        start = self._page(params.cursor)
        if params.cwd:
            self._directory(params.cwd)
        directories = [params.cwd] if params.cwd else list(self._directories.values()) or [str(Path.cwd())]
        found = await asyncio.to_thread(self._listed, directories)
        result: dict[str, Any] = {"sessions": found[start : start + _PAGE]}
        return {**result, "nextCursor": str(start + _PAGE)} if len(found) > start + _PAGE else result

    def _page(self, cursor: str | None) -> int:
        if not cursor:
            return 0
        if not cursor.isascii() or not cursor.isdigit() or len(cursor) > 9:
            raise RpcError(INVALID_PARAMS, self._texts.say("acp.cursor", cursor=cursor))
        return int(cursor)

    def _listed(self, directories: list[str]) -> list[dict[str, Any]]:
        found = [
            (info, cwd) for cwd in directories for info in acp.acp_session.store_of(self._chosen, cwd).infos()
        ]
        found.sort(key=lambda pair: pair[0].updated_at, reverse=True)
        return [
            {
                "sessionId": info.session_id,
                "cwd": cwd,
                "title": info.title,
                "updatedAt": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(info.updated_at)),
            }
            for info, cwd in found
        ]

    def _session(self, session_id: str) -> EditorSession:
        session = self._sessions.get(session_id)
        if session is None or session.ended:
            raise RpcError(NOT_FOUND, self._texts.say("acp.no_session", id=session_id[:100]))
        return session

    async def close_session(self, params: OneSession) -> dict[str, Any]:
        session = self._session(params.session_id)
        del self._sessions[params.session_id]
        await session.close()
        return {}

    # in a session

    async def prompt(self, params: PromptRequest) -> dict[str, Any]:
        session, number = self._session(params.session_id), request_id.get()
        self._prompts[number] = session
        try:
            return await session.prompt(params.prompt)
        finally:
            self._prompts.pop(number, None)

    async def cancel(self, params: OneSession) -> None:
        self._session(params.session_id).cancel()

    async def set_mode(self, params: SetMode) -> dict[str, Any]:
        session = self._session(params.session_id)
        session.set_mode(params.mode_id)
        session.send_options()
        return {}

    async def set_option(self, params: SetOption) -> dict[str, Any]:
        session = self._session(params.session_id)
        return {"configOptions": await session.set_option(params.config_id, params.value)}

    # the end

    async def close(self) -> None:
        """Complete records, end child processes, answer pending requests."""
        self.peer.hang_up()
        await self.peer.settled(_OPENING, but="session/prompt")
        closing = [asyncio.create_task(session.close()) for session in self._sessions.values()]
        self._sessions.clear()
        if closing:
            await asyncio.wait(closing, timeout=_CLOSING)
        await self.peer.settled(FLUSHING)


def _state(session: EditorSession) -> dict[str, Any]:
    return {"modes": session.modes(), "configOptions": session.options()}


async def serve_acp(chosen: AcpChoices) -> int:
    """Serve until EOF or a signal; returns the exit status."""
    return await serve_on_stdio(lambda outbox: AcpServer(chosen, outbox))
