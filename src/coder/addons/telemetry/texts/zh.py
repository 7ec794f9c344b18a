"""OpenTelemetry，中文。"""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "servers.otel_failed": "无法设置 OpenTelemetry，因此不会发送任何内容：{why}",
    "servers.otel_missing": ("已设置 OTEL_EXPORTER_OTLP_ENDPOINT，但不会发送任何内容：发送 span 需要 {line}"),
    "servers.otel_protocol": (
        "OTEL_EXPORTER_OTLP_PROTOCOL 为 {protocol}，但 span 只能通过 http/protobuf 发送；不会发送任何内容。"
    ),
}
