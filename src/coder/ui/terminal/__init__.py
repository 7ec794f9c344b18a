"""What a person sees and types. Reads the engine's events, sends its ops, and has no other way in."""
