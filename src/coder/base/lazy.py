"""Package doors: modules that are imported when they are first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType


def submodules(package: str) -> Callable[[str], ModuleType]:
    """A `__getattr__` for a package's `__init__`: `package.name` imports the module."""

    def load(name: str) -> ModuleType:
        full = f"{package}.{name}"
        try:
            return import_module(full)
        except ModuleNotFoundError as error:
            if error.name != full:
                raise
            raise AttributeError(f"module {package!r} has no attribute {name!r}") from None

    return load
