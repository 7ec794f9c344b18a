"""Data types that packages exchange: ops, events, messages, history entries, usage.

Plain typed data with a JSON form. Imports no other package of coder.
"""
