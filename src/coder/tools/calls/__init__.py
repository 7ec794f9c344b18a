"""Normalizing a model's call to one that a tool accepts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coder.base.lazy import submodules

if TYPE_CHECKING:
    from coder.tools.calls import resolve as resolve

__getattr__ = submodules(__name__)
