"""Web pages, fetched and turned into text."""
