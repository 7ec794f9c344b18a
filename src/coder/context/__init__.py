"""The model's context: system prompt, project instructions, environment, token counts, compaction.

Every injected item is bounded, with the reason beside the bound. Between compactions the conversation is
only appended to, so that the provider's prompt cache holds.
"""
