"""The Agent Client Protocol on stdio."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coder.base.lazy import submodules

if TYPE_CHECKING:
    from coder.ui.acp import acp_server as acp_server
    from coder.ui.acp import acp_session as acp_session

__getattr__ = submodules(__name__)
