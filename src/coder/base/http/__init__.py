"""An HTTP/1.1 client on asyncio: connections, proxies, TLS, bodies, server-sent events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coder.base.lazy import submodules

if TYPE_CHECKING:
    from coder.base.http import body as body
    from coder.base.http import sse as sse

__getattr__ = submodules(__name__)
