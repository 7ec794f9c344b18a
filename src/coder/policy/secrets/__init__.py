"""Secrets: token formats, their places in a home directory, redaction."""
