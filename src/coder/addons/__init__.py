"""Parts that the core does not need. They use public doors only; each directory can be deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coder.base.lazy import submodules

if TYPE_CHECKING:
    from coder.addons import local as local
    from coder.addons import telemetry as telemetry

__getattr__ = submodules(__name__)
