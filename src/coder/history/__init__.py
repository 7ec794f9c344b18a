"""What happened: the event log, the snapshot, replay, undo and the search index."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coder.base.lazy import submodules

if TYPE_CHECKING:
    from coder.history import search as search
    from coder.history import store as store
    from coder.history import undo as undo

__getattr__ = submodules(__name__)
