"""Custom modes: discover, parse, bind variables, render, keep state.

A mode's `!command` and `@path` go through callbacks of the caller. (`patterns` may match a regular expression
in a child process.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coder.base.lazy import submodules

if TYPE_CHECKING:
    from coder.extend.modes import render as render

__getattr__ = submodules(__name__)
