"""Search for files and lines."""
