"""Undo and redo: a journal of file contents, plans made before any write, three-way merge."""
