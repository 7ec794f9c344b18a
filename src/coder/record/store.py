"""The sessions of one workspace: where their files are, which there are, and the snapshot of each."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from stat import S_ISREG
from typing import Any

import msgspec

from coder.fs.atomic import write_atomically
from coder.fs.safe_open import real_path
from coder.protocol.entries import Command, TurnStart
from coder.protocol.history import HistoryEvent
from coder.protocol.messages import Message, ToolSpec
from coder.record.files import RecordError, encode, valid_text
from coder.record.replay import title_of

_HEAD = 65536  # the first turn is within this of a log's start, or the list goes without a title
_TAIL = 65536


class SessionInfo(msgspec.Struct, frozen=True):
    """One row of `coder sessions`."""

    session_id: str
    title: str
    created_at: str
    updated_at: float
    turns: int
    bytes: int


def new_session_id() -> str:
    """Sortable by time, unguessable enough not to clash."""
    return time.strftime("%Y%m%d-%H%M%S-", time.localtime()) + os.urandom(3).hex()


class SessionStore:
    """`.coder/history` (or `--log-dir`) and `.coder/sessions` of a workspace."""

    def __init__(self, workspace: Path, log_dir: Path | None = None) -> None:
        self.history = log_dir or workspace / ".coder" / "history"
        self.sessions = workspace / ".coder" / "sessions"
        self._workspace = workspace
        self._named = log_dir is not None

    def log_path(self, session_id: str) -> Path:
        """Raises `RecordError` where a link would lead the record out of the workspace, unasked."""
        if self._leads_out():
            real = real_path(self.history)
            raise RecordError("record.leads_out", folder=self.history, real=valid_text(real))
        return self.history / f"{session_id}.jsonl"

    @property
    def is_elsewhere(self) -> bool:
        """Whether the records are in a folder that the person named and that is no part of the project."""
        return self._named and not _is_inside(self.history, self._workspace)

    def _leads_out(self) -> bool:
        """A project can ship links, and with them choose where its sessions are written to and read from."""
        return not self._named and not _is_inside(self.history, self._workspace)

    def exists(self, session_id: str) -> bool:
        plain = (
            session_id and not session_id.startswith(".") and "/" not in session_id and "\0" not in session_id
        )
        try:
            if not plain or self._leads_out():
                return False
            return _file_stat(self.history / f"{session_id}.jsonl") is not None
        except OSError:  # a name that is too long for any file
            return False

    def matching(self, beginning: str) -> list[str]:
        """The session of this id, or else those whose ids begin so; newest first."""
        if self.exists(beginning):
            return [beginning]
        if not beginning:
            return []
        return [name for name, _ in self._logs() if name.startswith(beginning)]

    def infos(self, limit: int | None = None) -> list[SessionInfo]:
        """Newest first; reads only the ends of each log."""
        found = ((self.history / f"{name}.jsonl", stat) for name, stat in self._logs())
        infos = (info for path, stat in found if (info := _info(path, stat)) and _was_used(info))
        return list(islice(infos, limit))

    def title(self, session_id: str) -> str:
        """What the session began with; empty where that cannot be told."""
        path = self.log_path(session_id)
        stat = _file_stat(path)
        info = _info(path, stat) if stat else None
        return info.title if info else ""

    def _logs(self) -> list[tuple[str, os.stat_result]]:
        """The ids that have a log, with its status, newest first."""
        if self._leads_out():
            return []
        try:
            with os.scandir(self.history) as entries:
                names = [entry.name for entry in entries if entry.name.endswith(".jsonl")]
        except OSError:
            return []
        found = [(name[:-6], stat) for name in names if (stat := _file_stat(self.history / name))]
        return sorted(found, key=lambda pair: pair[1].st_mtime_ns, reverse=True)

    def latest(self) -> str | None:
        infos = self.infos(1)
        return infos[0].session_id if infos else None

    def write_snapshot(
        self,
        session_id: str,
        created_at: str,
        updated_at: str,
        meta: dict[str, Any],
        tools: Sequence[ToolSpec],
        messages: Sequence[Message],
    ) -> None:
        """What a Chat Completions request takes, so that POSTing it replays the conversation."""
        if not _is_inside(self.sessions, self._workspace):
            raise PermissionError(errno.EPERM, f"{self.sessions} is a link that leads out of the workspace")
        self.sessions.mkdir(mode=0o700, parents=True, exist_ok=True)
        snapshot = {
            "session_id": session_id,
            "created_at": created_at,
            "updated_at": updated_at,
            "meta": meta,
            "tools": list(tools),
            "messages": list(messages),
        }
        path = self.sessions / f"{session_id}.json"
        write_atomically(path, encode(snapshot), beside=f".{session_id}.tmp")  # the log is locked by us


def _is_inside(folder: Path, workspace: Path) -> bool:
    return Path(real_path(folder)).is_relative_to(real_path(workspace))


def _file_stat(path: Path) -> os.stat_result | None:
    """None for what is no regular file, whatever its name; a link is none, wherever it leads."""
    try:
        stat = path.lstat()
    except OSError:
        return None
    return stat if S_ISREG(stat.st_mode) else None


def _was_used(info: SessionInfo) -> bool:
    """A session of nothing but `/status` and its like is nobody's to go on with."""
    return bool(info.turns or info.title)


def _info(path: Path, stat: os.stat_result) -> SessionInfo | None:
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
            file.seek(max(0, stat.st_size - _TAIL))
            tail = file.read(_TAIL)
    except OSError:
        return None
    title, created_at, turns = "", "", 0
    decoder = msgspec.json.Decoder(HistoryEvent)
    for line in head.splitlines():
        event = _event(decoder, line)
        if event is not None:
            created_at = created_at or event.ts
            entry = event.entry
            if isinstance(entry, Command) and event.role == "user":
                title = title_of(entry.input)
                break
            if isinstance(entry, TurnStart):
                title = title_of(event.content)
                break
    for line in reversed(tail.splitlines()):
        event = _event(decoder, line)
        if event is not None:
            turns = event.turn
            if turns:
                break
    return SessionInfo(
        session_id=path.stem,
        title=title,
        created_at=created_at,
        updated_at=stat.st_mtime,
        turns=turns,
        bytes=stat.st_size,
    )


def _event(decoder: msgspec.json.Decoder[HistoryEvent], line: bytes) -> HistoryEvent | None:
    try:
        return decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
