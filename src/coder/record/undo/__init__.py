"""Undo and redo: a journal of what files held, plans made before anything is touched, merging."""
