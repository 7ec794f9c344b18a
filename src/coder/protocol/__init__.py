"""Data types that packages exchange: ops, events, messages, history entries, usage.

Plain typed data with a JSON form. Imports no other package of coder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coder.base.lazy import submodules

if TYPE_CHECKING:
    from coder.protocol import ops as ops

__getattr__ = submodules(__name__)
