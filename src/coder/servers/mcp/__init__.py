"""coder as a server of the Model Context Protocol: one tool, a task in a directory."""
