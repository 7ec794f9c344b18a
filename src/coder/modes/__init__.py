"""Custom modes: find the files, read them, bind their variables, render them, keep their state.

This room asks nobody and runs nothing of a mode: a `!command` and an `@path` of its body go through callbacks
that whoever opens the keeper provides. (`patterns` may match a regular expression in a process of its own.)
"""
