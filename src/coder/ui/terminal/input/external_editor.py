"""Edits text in `$VISUAL` or `$EDITOR`."""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from prompt_toolkit.application import run_in_terminal

from coder.base.process.programs import Runs, find_chosen, own_environment, run

if TYPE_CHECKING:
    from prompt_toolkit.application import Application

_USUAL = ("editor", "nano", "vi", "emacs")


def edit_outside(
    app: Application[None], text: str, suffix: str, workspace: Path, done: Callable[[str | None], None]
) -> None:
    """Edit in the background; `done` gets the text, or None if there is no editor."""

    async def edit() -> None:
        edited = await run_in_terminal(
            lambda: edited_text(text, os.environ, workspace, suffix), in_executor=True
        )
        if edited is None:
            app.output.bell()
        done(edited)

    app.create_background_task(edit())


def edited_text(text: str, environ: Mapping[str, str], workspace: Path, suffix: str = ".md") -> str | None:
    """The edited text; None if there is no editor or it failed. `suffix` tells the editor the kind of
    text."""
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
