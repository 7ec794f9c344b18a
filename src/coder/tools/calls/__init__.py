"""Normalizing a model's call to one that a tool accepts."""
