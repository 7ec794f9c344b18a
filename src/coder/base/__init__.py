"""JSON-RPC 2.0 for those who speak it here (MCP's client, ACP's server): requests to their answers, and the
lines that carry them. What the messages mean is the business of the room that uses it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coder.base.lazy import submodules

if TYPE_CHECKING:
    from coder.base import frontmatter_yaml as frontmatter_yaml
    from coder.base import safe_open as safe_open
    from coder.base import text as text

__getattr__ = submodules(__name__)
