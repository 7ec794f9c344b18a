"""Files on disk: opened without symlink races (TOCTOU), replaced atomically, kept private."""
