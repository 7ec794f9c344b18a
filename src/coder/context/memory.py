"""Memory: facts that outlive a session, one bullet each, in files that a person can read and edit.

`.coder/memory.md` of the project, and `memory.md` in coder's home for what is true of the person
everywhere. Both are in the first message of each session.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import msgspec

from coder.fs.atomic import replace_file
from coder.fs.safe_open import open_beneath, real_path
from coder.texts import Phrase
from coder.tools.base import Journal
from coder.tools.save_memory import NotSaved, Saved, Scope

MAX_FACT = 500  # characters: a fact is a sentence; longer text belongs in AGENTS.md or a skill
MAX_TEXT = 8_000  # characters of one file in the context, about 2,000 tokens in every request
MAX_FILE = 262_144  # bytes; far more than the context takes, so nobody meant it
HEADING = "# Memory\n\n"
SCOPES: tuple[Scope, ...] = ("project", "home")
_END, _ESCAPED = "</memory", "&lt;/memory"  # as a fact holds it, and as the first message does


class _Unusable(NotSaved):
    """The file is there, but nothing that could be read or added to."""

    def __init__(self, key: str, path: Path, **values: object) -> None:
        super().__init__(Phrase(key, path=path, **values))


class Fact(msgspec.Struct, frozen=True):
    """One remembered line. `number` counts through both files, as `/memory` shows it."""

    number: int
    scope: Scope
    text: str


class Memory:
    """The two files of one workspace. Read anew each time: a person may edit them at any moment."""

    def __init__(self, workspace: Path, coder_home: Path) -> None:
        # A project's file may not lead out of it by links; the person's own may be a link to anywhere.
        self._bounds: dict[Scope, Path | None] = {
            "project": Path(os.path.realpath(workspace)),
            "home": None,
        }
        self._paths = {"project": workspace / ".coder" / "memory.md", "home": coder_home / "memory.md"}

    def path(self, scope: Scope) -> Path:
        return self._paths[scope]

    def text(self, limit: int = MAX_TEXT) -> str:
        """Both files for the system prompt, each at most `limit` characters; empty where there are none."""
        titles = {"project": "About this project", "home": "About the person"}
        parts = []
        for scope in SCOPES:
            body = _bounded(_without_heading(self._held(scope)), limit, self._paths[scope])
            if body:
                parts.append(f"{titles[scope]} ({self._paths[scope]}):\n{body}")
        return "\n\n".join(parts)

    def facts(self) -> list[Fact]:
        found = [(scope, text) for scope in SCOPES for text in _bullets(self._held(scope))]
        return [Fact(number, scope, text) for number, (scope, text) in enumerate(found, 1)]

    def missing_from(self, prompt: str) -> list[str]:
        """Facts that a session's first message does not hold: saved since it was made.

        After a compaction, which may have dropped the result that told of them, they must be said again.
        """
        now = self.text()  # bounded: what is too old for the context is not said again either
        prompt = prompt.replace(_ESCAPED, _END)
        return [
            fact.text for fact in self.facts() if not _holds(prompt, fact.text) and _holds(now, fact.text)
        ]

    def gone_from(self, prompt: str) -> list[str]:
        """Facts that a session's first message still holds, but the files no longer do."""
        block = prompt.partition("<memory>")[2].partition("</memory>")[0].replace(_ESCAPED, _END)
        held = {fact.text for fact in self.facts()}
        return [text for text in _bullets(block) if text not in held]

    def save(self, fact: str, scope: Scope = "project", journal: Journal | None = None) -> Saved:
        """Append a fact. Raises `NotSaved`; the file is then as it was."""
        text = _checked(fact)
        path = self._paths[scope]
        with self._alone(scope):
            held = self._read(scope)
            if _same(text) in map(_same, _bullets(held)):
                return Saved(path, text, added=False)
            data = held.encode("utf-8", "surrogateescape") + _appended(held, text)
            if journal is not None:
                journal.before_change(path, data)
            _replace(path, data, None if scope == "project" else 0o600)
        return Saved(path, text, added=True)

    def forget(self, number: int) -> Fact | None:
        """Remove the fact of that number; None where there is none. Raises `NotSaved`."""
        fact = next((one for one in self.facts() if one.number == number), None)
        if fact is None:
            return None
        path = self._paths[fact.scope]
        with self._alone(fact.scope):
            lines = self._read(fact.scope).splitlines(keepends=True)
            at = next((i for i, line in enumerate(lines) if _bullet(line) == fact.text), None)
            if at is None:
                return None
            kept = "".join(lines[:at] + lines[at + 1 :])
            _replace(path, kept.encode("utf-8", "surrogateescape"), None)
        return fact

    def faults(self) -> list[Phrase]:
        """Why a file that is there is not in the context."""
        found: list[Phrase] = []
        for scope in SCOPES:
            try:
                self._read(scope)
            except _Unusable as fault:
                found.append(fault.phrase)
            except OSError as error:
                why = (error.strerror or str(error)).lower()
                found.append(Phrase("context.file.unreadable", path=self._paths[scope], why=why))
        return found

    def _held(self, scope: Scope) -> str:
        """What is there; a file that cannot be read is no memory, and no reason to fail."""
        try:
            return self._read(scope)
        except (OSError, ValueError, NotSaved):
            return ""

    @contextlib.contextmanager
    def _alone(self, scope: Scope) -> Iterator[None]:
        """Nobody else of ours changes the file meanwhile. A fault of the disk becomes `NotSaved`."""
        import fcntl

        path = self._paths[scope]
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if scope == "project":
                self._refuse_links(path)
            # The folder is locked and not the file, which may not be there yet and may be replaced.
            descriptor = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                yield
            finally:
                os.close(descriptor)
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise NotSaved(Phrase("context.memory.unwritable", path=path, why=why)) from error

    def _refuse_links(self, path: Path) -> None:
        """A link in somebody's project must not make us write into the person's other files."""
        bound = self._bounds["project"]
        inside = bound is not None and Path(real_path(path.parent)).is_relative_to(bound)
        if not inside or path.is_symlink():
            raise NotSaved(Phrase("context.memory.link", path=path), refused=True)

    def _read(self, scope: Scope) -> str:
        """What the file holds; empty where it is not there. Never waits on a pipe."""
        path = self._paths[scope]
        try:
            descriptor = open_beneath(path, self._bounds[scope])
        except FileNotFoundError:
            return ""
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
        return data.decode("utf-8", "surrogateescape")


def note_of(saved: Saved) -> str:
    """For the model, with the person's next message, where the person saved it and not the model."""
    return f"The person added to the memory ({saved.path.name}): {saved.fact}"


def _checked(fact: str) -> str:
    """The fact on one line; `NotSaved` where it is none."""
    from coder.policy.secrets.formats import secret_in

    words = "".join(c if c.isprintable() else " " for c in fact)
    line = " ".join(words.split())
    text = line.lstrip("-*+#> ").strip()
    if not text:
        raise NotSaved(Phrase("context.memory.empty"))
    if len(text) > MAX_FACT:
        raise NotSaved(Phrase("context.memory.long", length=len(text), limit=MAX_FACT))
    if secret_in(line):
        raise NotSaved(Phrase("context.memory.secret"), refused=True)
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
    """What must be written after `held` for the fact to stand on a line of its own."""
    before = HEADING if not held.strip() else "" if held.endswith("\n") else "\n"
    return f"{before}- {fact}\n".encode()


def _replace(path: Path, data: bytes, mode_if_new: int | None) -> None:
    """All of it or nothing: half a line would be half a fact. A file that is not to be written stays."""
    there = path.exists()
    if there and not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    replace_file(Path(real_path(path)), data, None if there else mode_if_new)


def _without_heading(text: str) -> str:
    return text.removeprefix("\ufeff").strip().removeprefix("# Memory").strip()


def _bounded(text: str, limit: int, path: Path) -> str:
    """The newest part that fits, from the start of a line: what was saved last is most likely to hold."""
    text = text.encode("utf-8", "replace").decode("utf-8")
    if len(text) <= limit:
        return text
    tail = text[-limit:]
    tail = tail.partition("\n")[2] or tail
    return f"[older facts are left out here; read {path} for all of them]\n{tail}"
