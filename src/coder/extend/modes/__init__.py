"""Custom modes: discover, parse, bind variables, render, keep state.

A mode's `!command` and `@path` go through callbacks of the caller. (`patterns` may match a regular expression
in a child process.)
"""
