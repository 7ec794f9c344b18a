"""Hooks: programs of the person or project that are run at points of a session and may decide or add to it.

What a hook is told and answers is JSON in the shape that other agents use. The engine starts the programs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coder.base.lazy import submodules

if TYPE_CHECKING:
    from coder.extend import hooks as hooks
    from coder.extend import modes as modes

__getattr__ = submodules(__name__)
