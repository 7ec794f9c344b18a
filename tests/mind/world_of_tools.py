"""A tool that is only a name."""

from __future__ import annotations

from coder.tools.tool import spec


class Named:
    declared = True

    def __init__(self, name: str) -> None:
        self.spec = spec(name, "", {}, [])
