"""OpenTelemetry, in English."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "servers.otel_failed": "OpenTelemetry could not be set up, so nothing is sent: {why}",
    "servers.otel_missing": ("OTEL_EXPORTER_OTLP_ENDPOINT is set, but nothing is sent: spans need {line}"),
    "servers.otel_protocol": (
        "OTEL_EXPORTER_OTLP_PROTOCOL is {protocol}, but spans are sent by http/protobuf alone; nothing is "
        "sent."
    ),
}
