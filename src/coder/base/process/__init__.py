"""Programs that coder starts: found, run to their end or in the background, never left behind."""
