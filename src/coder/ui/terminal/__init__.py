"""The interactive terminal: shows the engine's events and sends its ops."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coder.base.lazy import submodules

if TYPE_CHECKING:
    from coder.ui.terminal import start as start

__getattr__ = submodules(__name__)
