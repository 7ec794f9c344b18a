"""Input at the prompt: bytes to keys, keys to actions, text, menus, history."""
