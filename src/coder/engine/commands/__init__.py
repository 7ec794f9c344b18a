"""Built-in slash commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coder.base.lazy import submodules

if TYPE_CHECKING:
    from coder.engine.commands import mode_commands as mode_commands
    from coder.engine.commands import table as table

__getattr__ = submodules(__name__)
