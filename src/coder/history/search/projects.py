"""The directories that hold this person's records, for searches over all projects.

A text file beside the index, as the index may be deleted and could not be rebuilt for `--all` without it.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

import msgspec

from coder.base.files import locked, write_durably
from coder.history.sinks import encode

_FILE = "projects.jsonl"


class Project(msgspec.Struct, frozen=True):
    """A workspace and the directory of its records; `--log-dir` puts those elsewhere."""

    root: str
    history: str


def known_projects(home: Path) -> list[Project]:
    """In the order of their first session. Lines that do not decode are skipped."""
    try:
        lines = (home / _FILE).read_bytes().splitlines()
    except OSError:
        return []
    found: dict[str, Project] = {}
    for line in lines:
        with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
            project = msgspec.json.decode(line, type=Project)
            found[project.history] = project
    return list(found.values())


def remember_project(home: Path, project: Project) -> None:
    """Raises OSError."""
    if project in known_projects(home):
        return
    path = home / _FILE
    with locked(path):
        lines = [encode(one) for one in (*known_projects(home), project)]
        write_durably(path, b"".join(line + b"\n" for line in lines))
