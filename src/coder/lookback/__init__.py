"""Reads what was recorded: search, figures, evidence, traces. All of it is derived from the records; none of
it is needed to run or resume a session."""
