"""Questions that the person answers at the prompt."""
