"""A workspace with an undo journal and a shell undo, without an engine around them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from coder.history.tree.scan import TreeLimits
from coder.history.undo.journal import UndoJournal
from coder.history.undo.shell_changes import ShellChanges, ShellUndo


class Shop:
    """A workspace, its journal and its shell undo; several sessions' and processes' worth where asked."""

    def __init__(self, directory: Path, limits: TreeLimits | None = None, session: str = "one") -> None:
        self.root, self.home = directory / "ws", directory / "home"
        self.root.mkdir(exist_ok=True)
        self.limits = limits
        self.journal = UndoJournal(self.home / "undo" / session)
        self.journal.begin_turn(1)
        self.shell = ShellUndo(self.root, self.home, self.journal, limits)

    def put(self, name: str, text: str | bytes) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def do(self, line: str) -> None:
        """What a command does, or a person; whether undo looks is another question."""
        subprocess.run(["/bin/sh", "-c", line], cwd=self.root, check=True)

    def run(self, line: str) -> ShellChanges:
        self.shell.before(line)
        self.do(line)
        return self.shell.after()

    def tool(self, name: str, text: str) -> None:
        """As the file tools do it."""
        path = self.root / name
        self.journal.before_change(path, text.encode())
        path.write_bytes(text.encode())

    def again(self) -> None:
        """As the next process of the same session finds it."""
        self.shell.close()
        self.shell = ShellUndo(self.root, self.home, self.journal, self.limits)

    def names(self, paths: list[str]) -> list[str]:
        return [str(Path(path).relative_to(self.root)) for path in paths]

    def held(self) -> dict[str, str]:
        """The files of the workspace."""
        found = (path for path in sorted(self.root.rglob("*")) if path.is_file())
        return {
            str(path.relative_to(self.root)): path.read_text() for path in found if os.access(path, os.R_OK)
        }
