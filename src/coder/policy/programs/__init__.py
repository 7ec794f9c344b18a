"""Knowledge of programs: which are read-only, which are wrappers, which destroy, and git's environment."""
