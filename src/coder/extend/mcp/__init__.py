"""A client for the Model Context Protocol: connect to servers, list their tools, call them.

`client.py` is the entry point, `*_transport.py` are the transports, `versions.py` negotiates the protocol
version. The official SDK takes 740 ms to import, holding the GIL, before a session's first request; the
tests run against it. Servers are not trusted: everything they send is bounded and treated as data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coder.base.lazy import submodules

if TYPE_CHECKING:
    from coder.extend.mcp import deferred as deferred
    from coder.extend.mcp import mcp_tools as mcp_tools

__getattr__ = submodules(__name__)
