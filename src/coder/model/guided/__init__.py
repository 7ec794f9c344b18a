"""The guided dialect, for small models: one JSON action per answer, constrained by a schema.

A pure function of the conversation. `state.py` reads from it what was seen and done; `opening.py` looks at
the workspace without asking the model; `actions.py` has the actions that make sense now, their schema and the
calls that they become; `render.py` shows all that to the model in few words; `dialect.py` is the adapter.
"""
