"""Secrets: how they look, where they lie in a home, and how they are redacted."""
