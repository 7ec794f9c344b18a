"""Automatic verification: which check runs, what the person said, whose fault a failure is."""
