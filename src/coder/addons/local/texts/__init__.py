"""Texts of this add-on, a module per language."""
