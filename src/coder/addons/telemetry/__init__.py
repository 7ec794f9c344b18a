"""Sends OpenTelemetry spans where `OTEL_EXPORTER_OTLP_ENDPOINT` is set."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coder.base.lazy import submodules

if TYPE_CHECKING:
    from coder.addons.telemetry import spans as spans

__getattr__ = submodules(__name__)
