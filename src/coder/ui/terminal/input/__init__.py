"""What a person types: bytes to keys, keys to actions, the prompt's text, menus, history."""
