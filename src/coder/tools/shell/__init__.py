"""Shell lines, run to completion or as background jobs."""
