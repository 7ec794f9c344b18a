"""The editor companion: what is open and selected in the person's editor."""
