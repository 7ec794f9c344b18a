"""What is known of programs: which only look, which run others, and git's environment."""
