"""Verification: which check runs after edits, its attempts, and what answers claim."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coder.base.lazy import submodules

if TYPE_CHECKING:
    from coder.engine.verify import attempts as attempts

__getattr__ = submodules(__name__)
