"""The sessions of one workspace: paths of their logs, their list, their snapshots."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from stat import S_ISREG
from typing import Any, BinaryIO

import msgspec

from coder.base.files import write_atomically
from coder.base.safe_open import parent_of, real_path, scan_directory, status_of, stream_of
from coder.history.sinks import HistoryError, encode, valid_text
from coder.protocol.entries import Command, SessionEnd, SessionStart, State, TurnEnd, TurnStart
from coder.protocol.history import decode_event, title_of
from coder.protocol.messages import Message, ToolSpec, chat_messages

_HEAD = 65536  # bytes of a log searched for its title
_TAIL = 65536
_LONGEST = 8 << 20  # bytes of a line: a first input may be a pasted or piped file


class SessionInfo(msgspec.Struct, frozen=True):
    """One row of `coder sessions`."""

    session_id: str
    title: str
    created_at: str
    updated_at: float
    turns: int
    bytes: int


def new_session_id() -> str:
    """Sortable by time, with a random suffix against collisions."""
    return time.strftime("%Y%m%d-%H%M%S-", time.localtime()) + os.urandom(3).hex()


class SessionStore:
    """`.coder/history` (or `--log-dir`) and `.coder/sessions` of a workspace."""

    def __init__(self, workspace: Path, log_dir: Path | None = None) -> None:
        # Resolved now: what becomes a link later is not followed.
        self.history = Path(real_path(log_dir or workspace / ".coder" / "history"))
        self.sessions = Path(real_path(workspace / ".coder" / "sessions"))
        self._workspace = workspace
        self._chosen_by_user = log_dir is not None

    def log_path(self, session_id: str) -> Path:
        """Raises `HistoryError` where a symlink leads the default directory out of the workspace."""
        if self._escapes_workspace():
            real = real_path(self.history)
            raise HistoryError("record.leads_out", directory=self.history, real=valid_text(real))
        return self.history / f"{session_id}.jsonl"

    @property
    def is_elsewhere(self) -> bool:
        """Whether the person chose a directory outside the workspace."""
        return self._chosen_by_user and not _is_inside(self.history, self._workspace)

    def _escapes_workspace(self) -> bool:
        """A project can ship symlinks that redirect where its sessions are written and read."""
        return not self._chosen_by_user and not _is_inside(self.history, self._workspace)

    def exists(self, session_id: str) -> bool:
        plain = (
            session_id and not session_id.startswith(".") and "/" not in session_id and "\0" not in session_id
        )
        try:
            if not plain or self._escapes_workspace():
                return False
            return _file_stat(self.history / f"{session_id}.jsonl") is not None
        except OSError:  # name too long
            return False

    def matching(self, prefix: str) -> list[str]:
        """The session of this id, or those whose ids start with it, newest first; preferably used ones."""
        if self.exists(prefix):
            return [prefix]
        if not prefix:
            return []
        found = [name for name, _ in self._logs() if name.startswith(prefix)]
        used = [info.session_id for info in self.infos()] if len(found) > 1 else []
        return [name for name in found if name in used] or found

    def infos(self, limit: int | None = None) -> list[SessionInfo]:
        """Newest first; reads only the ends of each log."""
        found = ((self.history / f"{name}.jsonl", stat) for name, stat in self._logs())
        infos = (
            info for path, stat in found if (info := _info(path, stat)) and (info.turns or info.title)
        )  # else only commands such as `/status`
        return list(islice(infos, limit))

    def title(self, session_id: str) -> str:
        """The first input, shortened; empty if unknown."""
        path = self.log_path(session_id)
        stat = _file_stat(path)
        info = _info(path, stat) if stat else None
        return info.title if info else ""

    def begun_by(self, session_id: str) -> str:
        """The kind of front end that began it; empty if unknown."""
        if not self.exists(session_id):
            return ""
        with stream_of(self.log_path(session_id)) as file:
            event = decode_event(file.readline(_LONGEST))
        return event.entry.mode if event is not None and isinstance(event.entry, SessionStart) else ""

    def _logs(self) -> list[tuple[str, os.stat_result]]:
        """Session ids with the stat of their logs, newest first."""
        if self._escapes_workspace():
            return []
        try:
            with scan_directory(self.history) as (entries, _):
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
        """Write the body of a Chat Completions request: POSTing it replays the conversation."""
        if not _is_inside(self.sessions, self._workspace):
            raise PermissionError(errno.EPERM, f"{self.sessions} is a link that leads out of the workspace")
        path = self.sessions / f"{session_id}.json"
        with parent_of(path, make=True, mode=0o700):
            pass
        snapshot = {
            "session_id": session_id,
            "created_at": created_at,
            "updated_at": updated_at,
            "meta": meta,
            "tools": list(tools),
            "messages": chat_messages(messages),
        }
        # The log is locked by us.
        write_atomically(path, encode(snapshot), beside=f".{session_id}.tmp", resolved=True)


def _is_inside(directory: Path, workspace: Path) -> bool:
    return Path(real_path(directory)).is_relative_to(real_path(workspace))


def _file_stat(path: Path) -> os.stat_result | None:
    """None unless a regular file; symlinks are not followed."""
    try:
        stat = status_of(path)
    except OSError:
        return None
    return stat if S_ISREG(stat.st_mode) else None


def _info(path: Path, stat: os.stat_result) -> SessionInfo | None:
    try:
        with stream_of(path) as file:
            head = list(_first_lines(file))
            file.seek(max(0, stat.st_size - _TAIL))
            tail = file.read(_TAIL)
    except OSError:
        return None
    title, created_at, turns = "", "", 0
    for line in head:
        event = decode_event(line)
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
        event = decode_event(line)
        if event is not None:
            turns = event.turn
            if turns:
                break
    return SessionInfo(
        session_id=path.stem,
        title=_given_title(tail) or title,
        created_at=created_at,
        updated_at=stat.st_mtime,
        turns=turns,
        bytes=stat.st_size,
    )


def _given_title(tail: bytes) -> str:
    """The newest that `/rename` gave: the end of every turn and session repeats it."""
    for line in reversed(tail.splitlines()) if b'"title":"' in tail else ():
        entry = event.entry if b'"title":"' in line and (event := decode_event(line)) else None
        if isinstance(entry, State | TurnEnd | SessionEnd) and entry.title:
            return title_of(entry.title)
    return ""


def _first_lines(file: BinaryIO) -> Iterator[bytes]:
    """Lines that begin within `_HEAD` bytes, not counting images, which precede their input."""
    room = _HEAD
    while room > 0 and (line := file.readline(_LONGEST)):
        if b'"type":"image"' in line[:300]:
            while line and not line.endswith(b"\n"):
                line = file.readline(1 << 20)
        else:
            room -= len(line)
            yield line
