"""OpenAI's Chat Completions, over any base URL that speaks it."""
