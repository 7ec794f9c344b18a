"""Full-text search and statistics over recorded sessions. Derived from the logs, never needed to run one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coder.base.lazy import submodules

if TYPE_CHECKING:
    from coder.history.search import index as index
    from coder.history.search import projects as projects

__getattr__ = submodules(__name__)
