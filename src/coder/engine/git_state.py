"""Branch and number of changed files of the repository, queried while the session starts.

The repository is untrusted: programs that its settings name are not run.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping
from pathlib import Path

from coder.base.process.git import driver_names, git_line
from coder.base.process.programs import DEVNULL, PIPE, Process, Runs, TimeoutExpired, start
from coder.base.text import shown

PATIENCE = 0.15  # seconds that a message waits for it; otherwise a later one has it
_SECONDS = 5.0  # time-out of git
_BRANCH_ROOM = 60  # bytes
_STATUS = ("status", "--porcelain=v2", "--branch", "-z", "--ignore-submodules=all")


class GitState:
    """The result of the query, once available."""

    def __init__(self, root: Path, environment: Mapping[str, str]) -> None:
        self._root, self._environment = root, environment
        self._asked: Process | None = None
        self.start()

    def start(self) -> None:
        """Start the query in a thread; once it was told, it may be started again."""
        self.text, self.told = "", False
        self.late = False  # the message that waited for it went without
        self._done = threading.Event()
        threading.Thread(target=self._ask, daemon=True).start()

    @property
    def done(self) -> bool:
        return self._done.is_set()

    def wait(self) -> None:
        self._done.wait(PATIENCE)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            if self._asked is not None:
                self._asked.kill()

    def _ask(self) -> None:
        try:
            with contextlib.suppress(OSError, ValueError, TimeoutExpired):
                self.text = self._told()
        finally:
            self._done.set()

    def _told(self) -> str:
        drivers = driver_names(self._root, self._root, into=False)
        found = None
        if drivers is not None:
            found = git_line(_STATUS, self._environment, self._root, drivers=drivers)
        if found is None:
            return ""
        pipes = {"stdin": DEVNULL, "stdout": PIPE, "stderr": DEVNULL}
        with start(
            found[0],
            runs=Runs.HARDENED,
            environment=found[1],
            cwd=self._root,
            start_new_session=True,
            **pipes,
        ) as self._asked:
            try:
                output = self._asked.communicate(timeout=_SECONDS)[0]
            finally:
                self._asked.kill()
        return described(output) if self._asked.returncode == 0 else ""


def described(output: bytes) -> str:
    """`git status --porcelain=v2 --branch -z` in one line."""
    branch, changed = "", 0
    entries = iter(output.split(b"\0"))
    for entry in entries:
        if entry.startswith(b"# branch.head "):
            branch = shown(entry.partition(b"head ")[2].decode("utf-8", errors="replace"))
        elif entry[:2] in (b"1 ", b"2 ", b"u ", b"? ") and entry != b"? .coder/":  # which is ours
            changed += 1
            if entry.startswith(b"2 "):  # a rename: the old name follows
                next(entries, b"")
    if not branch:
        return ""
    branch = branch if len(branch.encode("utf-8", "replace")) <= _BRANCH_ROOM else f"{branch[:16]}…"
    where = "no branch (detached)" if branch == "(detached)" else f"branch {branch}"
    files = "no changed files" if not changed else f"{changed} changed file{'s' if changed > 1 else ''}"
    return f"git: {where}, {files}."
