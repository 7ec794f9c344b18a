"""What the model can do: one file per tool, its parameters and description beside it.

A tool never raises into the loop: whatever happens it returns a `ToolResult`. Tools know nothing of policy,
models or screens; who may run them is decided before they are called.
"""
