"""Make a new mode file."""

from __future__ import annotations

import re
from pathlib import Path

from coder.protocol.modes import ModeKind
from coder.texts import Fault

_NAME = re.compile(r"/?[A-Za-z0-9_-]+([:/][A-Za-z0-9_-]+)*")

_INSTANT = """\
---
kind: instant
description: {name}
argument_hint: "[what]"
variables:
  - name: what
    rest: true
    default: the current changes
---
Look at {{{{what}}}} and say in three sentences what you see.
"""
_PERSISTENT = """\
---
kind: persistent
description: {name}
variables:
  - name: tone
    enum: [brief, thorough]
    default: brief
---
Answer in a {{{{tone}}}} way.
"""


def create_mode(directory: Path, name: str, kind: ModeKind) -> Path:
    """`a:b` is `a/b.md` below `directory`. Raises `Fault` where the name is not allowed or taken."""
    if not _NAME.fullmatch(name):
        raise Fault("modes.bad_name", name=name)
    parts = re.split("[:/]", name.removeprefix("/"))
    path = directory.joinpath(*parts[:-1], f"{parts[-1]}.md")
    text = (_INSTANT if kind == "instant" else _PERSISTENT).format(name=parts[-1])
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise Fault("modes.file_exists", path=path) from None
    except OSError as error:
        raise Fault("modes.not_made", path=path, why=error.strerror or error) from None
    return path
