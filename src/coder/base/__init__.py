"""Files, processes, HTTP, JSON-RPC and text. Nothing here knows of agents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coder.base.lazy import submodules

if TYPE_CHECKING:
    from coder.base import safe_open as safe_open
    from coder.base import text as text

__getattr__ = submodules(__name__)
