"""Full-text index over the records, in SQLite (FTS5). A cache: rebuilt when missing or damaged."""
