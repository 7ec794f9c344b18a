"""Texts of files: encodings, pages, differences, and replacing the piece that a model meant."""
