"""The sandbox: a list of backends (backends), what each closes, and how it is described."""
