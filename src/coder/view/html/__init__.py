"""A session's events as HTML, the same for the server and for an exported file. No script, no reference to
anything outside the page."""
