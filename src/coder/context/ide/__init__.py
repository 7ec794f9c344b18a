"""What the person's editor shows, over the companion that tells of it."""
