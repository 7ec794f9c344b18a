"""From a call as a model made it to a call that a tool can take."""
