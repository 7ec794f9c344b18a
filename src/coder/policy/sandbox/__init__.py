"""The sandbox: a list of backends (backends), what each closes, and how it is described."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coder.base.lazy import submodules

if TYPE_CHECKING:
    from coder.policy.sandbox import grants as grants

__getattr__ = submodules(__name__)
