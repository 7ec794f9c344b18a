"""What happened: the event log, the snapshot derived from it, resume, undo.

Every write is append-only or atomic. Knows files and the protocol; asks no model and runs no tool.
"""
