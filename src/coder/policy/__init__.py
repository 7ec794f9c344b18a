"""Permissions: presets, operating modes, analysis of shell lines, workspace paths, the sandbox, secrets.

Decides and explains; never runs a tool and never prompts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coder.base.lazy import submodules

if TYPE_CHECKING:
    from coder.policy import check_lines as check_lines

__getattr__ = submodules(__name__)
