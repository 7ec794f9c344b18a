"""The event log, the snapshot derived from it, resume and undo.

Every write is append-only or atomic. Calls no model and runs no tool.
"""
