"""Parts that the core does not need. They use public doors only; each directory can be deleted."""
