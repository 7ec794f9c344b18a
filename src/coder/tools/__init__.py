"""What the model can do: one file per tool, its parameters and description beside it.

A tool never raises into the loop: whatever happens it returns a `ToolResult`. Tools know nothing of policy,
models or screens; who may run them is decided before they are called."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coder.base.lazy import submodules

if TYPE_CHECKING:
    from coder.tools import calls as calls
    from coder.tools import changes as changes
    from coder.tools import images as images

__getattr__ = submodules(__name__)
