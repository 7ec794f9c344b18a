"""Memory: facts that outlive a session, one bullet each, in files that a person can edit.

`.coder/memory.md` of the project, and `memory.md` in `$CODER_HOME` for the person. Both are part of the first
message of each session.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from coder.base.files import ChangedMeanwhile, exchange_file, locked_by_directory
from coder.base.safe_open import open_file, real_path
from coder.policy.secrets.formats import secret_in
from coder.texts import Text
from coder.tools.save_memory import NotSaved, Saved, Scope

if TYPE_CHECKING:
    from coder.tools.changes import Change

MAX_FACT = 500  # characters; longer text belongs in AGENTS.md or a skill
MAX_TEXT = 8_000  # characters of one file in the context, about 2,000 tokens in every request
MAX_FILE = 262_144  # bytes; far more than the context takes
HEADING = "# Memory\n\n"
SCOPES: tuple[Scope, ...] = ("project", "home")
_END, _ESCAPED = "</memory", "&lt;/memory"  # in a fact, and in the first message


class _Unusable(NotSaved):
    """The file exists, but cannot be read or appended to."""

    def __init__(self, key: str, path: Path, **values: object) -> None:
        super().__init__(Text(key, path=path, **values))


class Fact(msgspec.Struct, frozen=True):
    """One line. `number` counts across both files, as in `/memory`."""

    number: int
    scope: Scope
    text: str


class Memory:
    """The two files of one workspace. Not cached: a person may edit them at any time."""

    def __init__(self, workspace: Path, coder_home: Path) -> None:
        # A project's file may not be a symlink out of it; the person's own may.
        self._bounds: dict[Scope, Path | None] = {"project": Path(os.path.realpath(workspace)), "home": None}
        self._paths = {"project": workspace / ".coder" / "memory.md", "home": coder_home / "memory.md"}

    def path(self, scope: Scope) -> Path:
        return self._paths[scope]

    def text(self, limit: int = MAX_TEXT) -> str:
        """Both files for the system prompt, each at most `limit` characters."""
        titles = {"project": "About this project", "home": "About the person"}
        parts = []
        for scope in SCOPES:
            body = _bounded(_without_heading(self._read_or_empty(scope)), limit, self._paths[scope])
            if body:
                parts.append(f"{titles[scope]} ({self._paths[scope]}):\n{body}")
        return "\n\n".join(parts)

    def facts(self) -> list[Fact]:
        found = [(scope, text) for scope in SCOPES for text in _bullets(self._read_or_empty(scope))]
        return [Fact(number, scope, text) for number, (scope, text) in enumerate(found, 1)]

    def missing_from(self, prompt: str) -> list[str]:
        """Facts saved since the session's first message, to repeat after a compaction."""
        now = self.text()  # bounded: facts too old for the context are not repeated
        prompt = prompt.replace(_ESCAPED, _END)
        return [
            fact.text for fact in self.facts() if not _holds(prompt, fact.text) and _holds(now, fact.text)
        ]

    def gone_from(self, prompt: str) -> list[str]:
        """Facts of the session's first message that were deleted from the files since."""
        block = prompt.partition("<memory>")[2].partition("</memory>")[0].replace(_ESCAPED, _END)
        held = {fact.text for fact in self.facts()}
        return [text for text in _bullets(block) if text not in held]

    def planned(self, fact: str, scope: Scope = "project") -> Saved:
        """What `save` would do. Raises `NotSaved`."""
        from coder.tools.changes import Change

        text, target = _checked(fact), self._target(scope)
        held = self._held(scope, target)
        if _same(text) in map(_same, _bullets(_decoded(held))):
            return Saved(self._paths[scope], text, None)
        after = (held or b"") + _appended(_decoded(held), text)
        mode = 0o600 if held is None and scope == "home" else None
        return Saved(self._paths[scope], text, Change(target, held, after, mode))

    def save(
        self, fact: str, scope: Scope = "project", before: Callable[[Change], None] | None = None
    ) -> Saved:
        """Append a fact. `before` gets the change and may raise to prevent it. Raises `NotSaved`."""
        with self._locked(scope):
            planned = self.planned(fact, scope)
            if planned.change is not None:
                if before is not None:
                    before(planned.change)
                _make(planned.change)
        return planned

    def forget(self, number: int) -> Fact | None:
        """Remove a fact by number; None if there is none. Raises `NotSaved`."""
        from coder.tools.changes import Change

        fact = next((one for one in self.facts() if one.number == number), None)
        if fact is None:
            return None
        with self._locked(fact.scope):
            target = self._target(fact.scope)
            held = self._held(fact.scope, target)
            lines = _decoded(held).splitlines(keepends=True)
            at = next((i for i, line in enumerate(lines) if _bullet(line) == fact.text), None)
            if at is None:
                return None
            kept = "".join(lines[:at] + lines[at + 1 :])
            _make(Change(target, held, kept.encode("utf-8", "surrogateescape")))
        return fact

    def problems(self) -> list[Text]:
        """Why an existing file is not in the context."""
        found: list[Text] = []
        for scope in SCOPES:
            try:
                self._read(scope)
            except _Unusable as error:
                found.append(error.phrase)
            except OSError as error:
                why = (error.strerror or str(error)).lower()
                found.append(Text("context.file.unreadable", path=self._paths[scope], why=why))
        return found

    def _read_or_empty(self, scope: Scope) -> str:
        """The file's text; empty if it is unreadable."""
        try:
            return self._read(scope)
        except (OSError, ValueError, NotSaved):
            return ""

    @contextlib.contextmanager
    def _locked(self, scope: Scope) -> Iterator[None]:
        """Hold the lock on the directory. Turns OSError into `NotSaved`."""
        try:
            with locked_by_directory(self._target(scope), make=True):
                yield
        except ChangedMeanwhile:
            raise NotSaved(Text("tool.changed_since", path=self._paths[scope])) from None
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise NotSaved(Text("context.memory.unwritable", path=self._paths[scope], why=why)) from error

    def _target(self, scope: Scope) -> Path:
        """The resolved file. A symlink that a project ships is never written through."""
        path, bound = self._paths[scope], self._bounds[scope]
        target = Path(real_path(path))
        if bound is not None and (not target.is_relative_to(bound) or path.is_symlink()):
            raise NotSaved(Text("context.memory.link", path=path), refused=True)
        return target

    def _read(self, scope: Scope) -> str:
        """The file's text; empty if it is absent."""
        bound = self._bounds[scope]
        real = Path(real_path(self._paths[scope]))
        if bound is not None and not real.is_relative_to(bound):
            raise PermissionError(errno.EPERM, "it is a link that leads out of the project")
        return _decoded(self._held(scope, real))

    def _held(self, scope: Scope, target: Path) -> bytes | None:
        """The content of the resolved file; None if it is absent. Does not block on a FIFO."""
        path = self._paths[scope]
        try:
            descriptor = open_file(target)
        except FileNotFoundError:
            return None
        try:
            info = os.fstat(descriptor)
            if not stat.S_ISREG(info.st_mode):
                raise _Unusable("context.file.irregular", path)
            if info.st_size > MAX_FILE:
                raise _Unusable("context.file.large", path, limit=MAX_FILE)
            data = os.read(descriptor, MAX_FILE)
        finally:
            os.close(descriptor)
        if b"\0" in data:
            raise _Unusable("context.file.binary", path)
        return data


def note_of(saved: Saved) -> str:
    """Note for the model about a fact that the person saved."""
    return f"The person added to the memory ({saved.path.name}): {saved.fact}"


def _checked(fact: str) -> str:
    """The fact on one line. Raises `NotSaved`."""
    words = "".join(c if c.isprintable() else " " for c in fact)
    line = " ".join(words.split())
    text = line.lstrip("-*+#> ").strip()
    if not text:
        raise NotSaved(Text("context.memory.empty"))
    if len(text) > MAX_FACT:
        raise NotSaved(Text("context.memory.long", length=len(text), limit=MAX_FACT))
    if secret_in(line):
        raise NotSaved(Text("context.memory.secret"), refused=True)
    return text


def _holds(text: str, fact: str) -> bool:
    return f"- {fact}" in text or f"* {fact}" in text


def _same(text: str) -> str:
    return text.casefold().rstrip(".。!")


def _bullet(line: str) -> str:
    text = line.strip()
    return text[2:].strip() if text[:2] in ("- ", "* ") else ""


def _bullets(text: str) -> list[str]:
    return [bullet for line in text.splitlines() if (bullet := _bullet(line))]


def _appended(held: str, fact: str) -> bytes:
    """The bytes to append to `held` for the fact."""
    before = HEADING if not held.strip() else "" if held.endswith("\n") else "\n"
    return f"{before}- {fact}\n".encode()


def _decoded(held: bytes | None) -> str:
    return (held or b"").decode("utf-8", "surrogateescape")


def _make(change: Change) -> None:
    """Make the change, unless the file is read-only."""
    if change.before is not None and not os.access(change.path, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    exchange_file(change.path, change.before, change.after, change.mode)


def _without_heading(text: str) -> str:
    return text.removeprefix("\ufeff").strip().removeprefix("# Memory").strip()


def _bounded(text: str, limit: int, path: Path) -> str:
    """The newest lines that fit: they are most likely still true."""
    text = text.encode("utf-8", "replace").decode("utf-8")
    if len(text) <= limit:
        return text
    tail = text[-limit:]
    tail = tail.partition("\n")[2] or tail
    return f"[older facts are left out here; read {path} for all of them]\n{tail}"
