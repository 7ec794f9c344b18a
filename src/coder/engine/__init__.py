"""The loop: dispatch, turn, step, tool calls, verify, guards, commands, undo.

Ops in, events out. Knows the protocols of the rooms above it; knows no wire and no terminal.
Start reading at `turn.py`: the way of one turn, top to bottom.
"""
