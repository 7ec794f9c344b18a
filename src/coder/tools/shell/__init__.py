"""Shell lines, run to their end or as background jobs."""
