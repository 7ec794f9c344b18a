"""Sends OpenTelemetry spans where `OTEL_EXPORTER_OTLP_ENDPOINT` is set."""
