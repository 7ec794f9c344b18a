"""Make a new mode file."""

from __future__ import annotations

import re
from pathlib import Path

from coder.fs.safe_open import create_file, real_path
from coder.protocol.modes import ModeKind
from coder.texts import Fault, Phrase

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


def create_mode(directory: Path, name: str, kind: ModeKind, bound: Path | None = None) -> Path:
    """`a:b` is `a/b.md` below `directory`. `bound`: the project that it must not lead out of. Raises `Fault`
    where the name is not allowed or taken."""
    if not _NAME.fullmatch(name):
        raise Fault("modes.bad_name", name=name)
    parts = re.split("[:/]", name.removeprefix("/"))
    path = directory.joinpath(*parts[:-1], f"{parts[-1]}.md")
    text = (_INSTANT if kind == "instant" else _PERSISTENT).format(name=parts[-1])
    try:
        real = Path(real_path(path))
        if bound is not None and not real.is_relative_to(real_path(bound)):
            raise Fault("modes.not_made", path=path, why=Phrase("modes.import_outside", directory=bound))
        create_file(real, text.encode("utf-8"))
    except FileExistsError:
        raise Fault("modes.file_exists", path=path) from None
    except OSError as error:
        raise Fault("modes.not_made", path=path, why=error.strerror or error) from None
    return path
