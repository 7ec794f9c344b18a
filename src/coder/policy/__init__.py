"""Who may: presets, operating modes, the shell line's verdict, workspace paths, trust.

Decides and explains; never runs anything and never asks anyone.
"""
