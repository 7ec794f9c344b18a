"""Custom modes: find the files, read them, bind their variables, render them, keep their state.

This room runs nothing and asks nobody: a `!command` and an `@path` of a mode's body go through callbacks
that whoever opens the keeper provides.
"""
