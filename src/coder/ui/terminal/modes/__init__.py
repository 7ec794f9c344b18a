"""Custom modes at the prompt: their state, menu entries, bar and form."""
