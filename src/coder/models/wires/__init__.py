"""Wires: one directory for each API that models are reached by; `client.py` has what they share.

A wire's directory exports its `HttpWire` and imports no other wire; `make.py` imports the ones in use.
"""
