"""Lazy imports: what packages import with themselves and few runs use is loaded when it is used.

`ssl` (5 of the 85 ms to the first request) is needed for TLS alone, `inspect` (3 ms) to tell coroutine
functions, `ipaddress` (1 ms) for addresses in brackets, `textwrap` and `tokenize` (1 ms) for tracebacks. On
the way to the prompt (200 ms) `prompt_toolkit` itself would import its dialogs and progress bars (7 ms), and
`wcwidth` tables and wrappers (15 ms) of which a line of ASCII needs nothing.
`importlib.util.LazyLoader` would do the same, but is not thread-safe before Python 3.12.
"""

from __future__ import annotations

import sys
from _thread import RLock
from importlib.machinery import PathFinder
from types import ModuleType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.abc import Loader
    from importlib.machinery import ModuleSpec

# With the submodule that has to be the first, where those of a package import each other.
_LAZY = {
    "ssl": "",
    "asyncio.sslproto": "",
    "inspect": "",
    "ipaddress": "",
    "textwrap": "",
    "tokenize": "",
    "prompt_toolkit": "prompt_toolkit.application",
    "prompt_toolkit.widgets": "",
    "wcwidth": "",
}
_LOCK = RLock()


class _LazyModule(ModuleType):
    """Runs the module's code when an attribute is asked for that it does not have yet."""

    class SSLSocket:
        """asyncio asks of every socket whether it is one. As long as `ssl` is not loaded, none is."""

    @staticmethod
    def wcwidth(char: str) -> int:
        """prompt_toolkit takes this function along when it is imported. What is printable in Latin-1 has one
        column; for anything else the package is loaded."""
        if " " <= char <= "~" or "\xa0" <= char <= "\xff":
            return 1
        import wcwidth

        _ = wcwidth.list_versions
        width: int = wcwidth.wcwidth(char)
        return width

    def __getattr__(self, name: str) -> object:
        with _LOCK:
            loader: Loader | None = self.__dict__.pop("_loader", None)
            if loader is not None:
                try:
                    loader.exec_module(self)
                except BaseException:
                    self.__dict__["_loader"] = loader
                    raise
                self.__class__ = ModuleType  # type: ignore[assignment]  # what it is from now on
        return ModuleType.__getattribute__(self, name)


class _LazyLoader:
    """Leaves the code of a module to be run later."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__["_loader"] = self._loader
        module.__class__ = _LazyModule
        if first := _LAZY[module.__name__]:
            __import__(first)


class _LazyFinder:
    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in _LAZY:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _LazyLoader(spec.loader)  # type: ignore[assignment]  # `abc` is slow to load
        return spec


def import_lazily() -> None:
    """Called before asyncio is imported."""
    sys.meta_path.insert(0, _LazyFinder)
