"""The formats of the `patch` tool, and applying their hunks."""
