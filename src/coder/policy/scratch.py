"""The scratch directory: a per-workspace temporary directory outside the workspace. It is `TMPDIR` for
commands that may write, and the file tools reach it under the same path.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from coder.fs import digest

TEMP = ("/tmp", "/var/tmp")  # noqa: S108 - shared directories, not files of ours


def scratch_of(root: str | Path) -> str:
    """The scratch directory of a workspace, created if missing; it outlives the session. Raises OSError."""
    path = private_base() / digest(os.fsencode(os.path.realpath(root)), 8)
    path.mkdir(mode=0o700, exist_ok=True)
    return str(path)


def private_base() -> Path:
    """A directory that only this user can write."""
    base = Path(os.path.realpath(_base())) / f"coder-{os.getuid()}"
    try:
        base.mkdir(0o700)
    except FileExistsError:
        info = os.lstat(base)
        # Another user may have planted a directory or symlink there.
        if info.st_uid != os.getuid() or info.st_mode & 0o170077 != 0o040000:
            return _fresh_base()
    return base


def state_directory(home: Path) -> Path:
    """Where the sandbox keeps its files: $CODER_HOME, or a private temporary directory if that cannot be
    written, as in a container whose user owns no home.
    """
    above = home
    while not above.exists() and above != above.parent:
        above = above.parent
    return home if os.access(above, os.W_OK | os.X_OK) else private_base() / "home"


@cache
def _fresh_base() -> Path:
    from tempfile import mkdtemp

    return Path(mkdtemp(prefix="coder-"))


def _base() -> str:
    return os.environ.get("TMPDIR") or TEMP[0]


def temporary_directory(path: str) -> str:
    """The shared temporary directory that `path`, as written, lies in; "" if none."""
    found = (directory.rstrip("/") for directory in (_base(), *TEMP))
    return next(
        (directory for directory in found if path == directory or path.startswith(f"{directory}/")), ""
    )
