"""Static analysis of shell lines: two independent parsers, simple commands, the effect of each part."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coder.base.lazy import submodules

if TYPE_CHECKING:
    from coder.policy.shell import judge as judge

__getattr__ = submodules(__name__)
