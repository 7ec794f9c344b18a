"""`--model local`: a small open model, fetched once and served in a child process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coder.base.lazy import submodules

if TYPE_CHECKING:
    from coder.addons.local import local_wire as local_wire

__getattr__ = submodules(__name__)
