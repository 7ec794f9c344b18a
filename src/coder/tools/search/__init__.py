"""Finding files and lines: by ripgrep, else by a walk of our own with the same answers."""
