"""Programs that coder starts: found, run to their end or in the background, never left behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coder.base.lazy import submodules

if TYPE_CHECKING:
    from coder.base.process import output as output

__getattr__ = submodules(__name__)
