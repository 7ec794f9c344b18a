"""Read a mode's `@path` through the workspace, with the same access as the `read` tool."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from coder.fs.safe_open import open_file
from coder.modes.render import NotThere, ReadFile, Refused
from coder.tools.base import OutsideWorkspace, Workspace


def reader(workspace: Workspace) -> ReadFile:
    """For `ModeKeeper`: bounded reads of text files inside the workspace."""

    def read_file(path: str, most: int) -> str:
        try:
            real = workspace.resolve(path)
        except OutsideWorkspace as outside:
            raise Refused(str(outside)) from None
        except (OSError, ValueError, RuntimeError):
            raise NotThere from None
        return _text(real, most)

    return read_file


def _text(path: Path, most: int) -> str:
    try:
        descriptor = open_file(path)
    except (FileNotFoundError, NotADirectoryError):
        raise NotThere from None
    except OSError as error:
        raise Refused(error.strerror or str(error)) from None
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise NotThere  # a directory: the model can list it
        if not stat.S_ISREG(mode):
            raise Refused("it is not a regular file")
        data = os.read(descriptor, most * 4)  # UTF-8 takes at most four bytes per character
    except OSError as error:
        raise Refused(error.strerror or str(error)) from None
    finally:
        os.close(descriptor)
    if b"\0" in data:
        raise Refused("it is a binary file")
    return data.decode("utf-8", errors="replace")[:most]
