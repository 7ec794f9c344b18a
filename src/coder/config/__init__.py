"""Settings of the person, the project, the environment and the command line, merged into one `Config`.

Layers are read, validated and merged here; settings that a project may not set before it is trusted are
removed. What the settings permit is decided in `policy`. Imported at every start, so rare paths are imported
lazily. May import `coder.protocol` and `coder.texts` only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coder.base.lazy import submodules
from coder.texts import CoderError


class ConfigError(CoderError):
    """Invalid configuration (exit status 2)."""


if TYPE_CHECKING:
    from coder.config import prices as prices
    from coder.config import save as save

__getattr__ = submodules(__name__)
