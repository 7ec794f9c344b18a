"""What a person sees and types. Reads the engine's events, sends its ops, and has no other way in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coder.base.lazy import submodules

if TYPE_CHECKING:
    from coder.ui.terminal import start as start

__getattr__ = submodules(__name__)
