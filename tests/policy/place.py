"""A workspace with the files that the table of shell lines speaks of, and the table itself."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

TABLE = Path(__file__).with_name("shell_lines.tsv")


class Row(NamedTuple):
    """One line of the table. `valid`: whether bash accepts it."""

    expected: str
    line: str
    valid: bool


def rows() -> list[Row]:
    """The table: expected verdict, a tab, the line with ␤ for a newline and ␉ for a tab inside it.

    `read` read-only without a risk; `read+risk` with one; `risk`; `ask` neither. `!`: bash rejects it.
    """
    found = []
    for text in TABLE.read_text(encoding="utf-8").splitlines():
        expected, line = text.split("\t", 1)
        line = line.replace("␤", "\n").replace("␉", "\t")
        found.append(Row(expected.rstrip("!"), line, not expected.endswith("!")))
    return found


def make_workspace(directory: Path) -> Path:
    """`README.md`, `src/a.py`, a repository, and three links that lead out."""
    root = directory / "workspace"
    (root / "src").mkdir(parents=True)
    (root / "src" / "a.py").write_text("a = 1\n", encoding="utf-8")
    (root / "README.md").write_text("hello\n", encoding="utf-8")
    git = root / ".git"
    git.mkdir()
    (git / "config").write_text("[core]\n\tbare = false\n", encoding="utf-8")
    outside = directory / "outside"
    outside.mkdir()
    (outside / "file").write_text("theirs\n", encoding="utf-8")
    (root / "link").symlink_to(outside / "file")
    (root / "dangling").symlink_to(outside / "missing")
    (root / "outlink").symlink_to(outside)
    return root
