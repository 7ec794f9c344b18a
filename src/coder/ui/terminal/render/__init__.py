"""Output: events to rows, rows to scrollback and the live region."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coder.base.lazy import submodules

if TYPE_CHECKING:
    from coder.ui.terminal.render import width as width

__getattr__ = submodules(__name__)
