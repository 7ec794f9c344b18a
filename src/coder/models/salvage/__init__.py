"""Tool calls that a model wrote into its text instead of making them natively."""
