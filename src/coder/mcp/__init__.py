"""Servers of the Model Context Protocol, seen from the client: connect, list tools, call them.

`client.py` is the door; `stdio.py` and `http.py` are the two wires; `eras.py` finds out which of the
protocol's two eras a server speaks. The official SDK takes 740 ms to import, with the interpreter's lock
held, on the way to a session's first request; it is what the tests run against. Nothing that a server says
is trusted here: everything is bounded, and its words are data.
"""
