"""What happened: the event log, the snapshot, replay, undo and the search index."""
