"""The person's own editor, for a text that outgrew the prompt."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from coder.process.executables import own_command

_USUAL = ("editor", "nano", "vi", "emacs")


def edited_text(text: str, environ: Mapping[str, str]) -> str | None:
    """What the editor made of it; None where there is none, or where it says that it failed.

    The file is readable by its person alone. The newline that editors put at the end is not part of the text.
    """
    handle, name = tempfile.mkstemp(prefix="coder-", suffix=".md")
    path = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="replace", newline="") as file:
            file.write(text)
        if not _ran(path, environ):
            return None
        return path.read_bytes().decode("utf-8", errors="replace").replace("\r\n", "\n").removesuffix("\n")
    except OSError:
        return None
    finally:
        path.unlink(missing_ok=True)


def _ran(path: Path, environ: Mapping[str, str]) -> bool:
    for first, *rest in filter(None, _commands(environ)):
        program = own_command(first, environ.get("PATH"))
        try:
            if program is not None:
                return subprocess.call([program, *rest, str(path)]) == 0
        except OSError:
            continue  # there is no such program: the next one
    return False


def _commands(environ: Mapping[str, str]) -> Iterator[list[str]]:
    for name in ("VISUAL", "EDITOR"):
        if value := environ.get(name, "").strip():
            try:
                yield shlex.split(value)
            except ValueError:  # quotes that do not match: a path, perhaps
                yield [value]
    yield from ([name] for name in _USUAL)
