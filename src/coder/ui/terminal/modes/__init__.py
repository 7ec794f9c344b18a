"""Custom modes at the prompt: what is known of them, the menu's entries, the bar, its form."""
