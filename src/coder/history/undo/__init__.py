"""Undo and redo: a journal of file contents, plans made before any write, three-way merge."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coder.base.lazy import submodules

if TYPE_CHECKING:
    from coder.history.undo import journal as journal

__getattr__ = submodules(__name__)
