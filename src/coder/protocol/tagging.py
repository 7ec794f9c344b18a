"""How a struct's name becomes the tag of its JSON form."""

from __future__ import annotations


def snake(name: str) -> str:
    return "".join("_" + c.lower() if c.isupper() and at else c.lower() for at, c in enumerate(name))
