"""Files on disk: opened without following links that came in between, replaced whole, kept private."""
