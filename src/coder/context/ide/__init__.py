"""Open files and selection of the person's editor, from its companion extension."""
