"""Edits the prompt's text in `$VISUAL` or `$EDITOR`."""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from coder.process.programs import Runs, find_chosen, own_environment, run

_USUAL = ("editor", "nano", "vi", "emacs")


def edited_text(text: str, environ: Mapping[str, str], workspace: Path, suffix: str = ".md") -> str | None:
    """The edited text; None if there is no editor or it failed. The temporary file has mode 0600. `suffix`
    tells the editor what kind of text it is."""
    handle, name = tempfile.mkstemp(prefix="coder-", suffix=suffix)
    path = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="replace", newline="") as file:
            file.write(text)
        if not _ran(path, environ, workspace):
            return None
        return path.read_bytes().decode("utf-8", errors="replace").replace("\r\n", "\n").removesuffix("\n")
    except OSError:
        return None
    finally:
        path.unlink(missing_ok=True)


def _ran(path: Path, environ: Mapping[str, str], workspace: Path) -> bool:
    for first, *rest in filter(None, _commands(environ)):
        program = find_chosen(first, environ.get("PATH"), workspace)
        try:
            if program is not None:
                line, kept = [program, *rest, str(path)], own_environment(environ)
                return run(line, runs=Runs.FOR_PERSON, environment=kept)[0] == 0
        except OSError:
            continue
    return False


def _commands(environ: Mapping[str, str]) -> Iterator[list[str]]:
    for name in ("VISUAL", "EDITOR"):
        if value := environ.get(name, "").strip():
            try:
                yield shlex.split(value)
            except ValueError:  # unbalanced quotes: perhaps a path
                yield [value]
    yield from ([name] for name in _USUAL)
