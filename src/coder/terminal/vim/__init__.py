"""Vim keys at the prompt."""
