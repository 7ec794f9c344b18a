"""The sandbox: a ladder of backends (rungs), what each closes, and how it is described."""
