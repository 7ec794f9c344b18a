"""Texts of files: encodings, lines, differences, and finding the piece that a model meant."""
