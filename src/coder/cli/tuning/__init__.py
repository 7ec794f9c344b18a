"""`coder tune`: small real tasks, run in throw-away directories, and what a model makes of them."""
