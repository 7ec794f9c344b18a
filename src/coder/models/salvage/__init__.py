"""Tool calls that a model wrote into its text instead of making them natively."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coder.base.lazy import submodules

if TYPE_CHECKING:
    from coder.models.salvage import find_calls as find_calls
    from coder.models.salvage import hold as hold

__getattr__ = submodules(__name__)
