"""The ReAct dialect: tool calls as XML in the model's text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coder.base.lazy import submodules

if TYPE_CHECKING:
    from coder.models.react import react_dialect as react_dialect

__getattr__ = submodules(__name__)
