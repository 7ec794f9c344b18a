"""The sandbox: a ladder of mechanisms, what each closes, and what is said of it."""
