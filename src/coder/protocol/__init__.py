"""What the rooms say to each other: ops, events, messages, history entries, usage.

Plain typed data with a JSON form. Imports nothing of ours and does nothing.
"""
