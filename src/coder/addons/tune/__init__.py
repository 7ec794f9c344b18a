"""`coder tune`: tries a model with small real tasks and keeps what suits it."""
