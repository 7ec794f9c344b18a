"""Hooks: programs of the person or project that are run at points of a session and may decide or add to it.

What a hook is told and answers is JSON in the shape that other agents use. The engine starts the programs.
"""
