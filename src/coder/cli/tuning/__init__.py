"""`coder tune`: small real tasks, run in throw-away folders, and what a model makes of them."""
