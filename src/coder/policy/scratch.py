"""The scratch folder: a temporary folder of a workspace's own, outside it. It is `TMPDIR` for commands that
may write, and the file tools reach it under the same path."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

TEMP = ("/tmp", "/var/tmp")  # noqa: S108 - the shared temporary folders, not files of ours


def scratch_of(root: str | Path) -> str:
    """Made where it is not there; it outlives the command and the session. OSError where it cannot be."""
    from hashlib import blake2b

    path = _ours() / blake2b(os.fsencode(os.path.realpath(root)), digest_size=8).hexdigest()
    path.mkdir(mode=0o700, exist_ok=True)
    return str(path)


def _ours() -> Path:
    """A folder that is the user's alone."""
    ours = Path(os.path.realpath(_base())) / f"coder-{os.getuid()}"
    try:
        ours.mkdir(0o700)
    except FileExistsError:
        info = os.lstat(ours)
        # Someone else may have put a folder or a link there first.
        if info.st_uid != os.getuid() or info.st_mode & 0o170077 != 0o040000:
            return _another()
    return ours


@cache
def _another() -> Path:
    from tempfile import mkdtemp

    return Path(mkdtemp(prefix="coder-"))


def _base() -> str:
    return os.environ.get("TMPDIR") or TEMP[0]


def temporary_folder(path: str) -> str:
    """Which of the shared temporary folders a path, as it is written, lies in; "" where in none."""
    found = (folder.rstrip("/") for folder in (_base(), *TEMP))
    return next((folder for folder in found if path == folder or path.startswith(f"{folder}/")), "")
