"""Makes the shared test kit importable as `kit`, and keeps the clock out of property tests."""

from __future__ import annotations

import sys
from pathlib import Path

from hypothesis import settings

_HERE = str(Path(__file__).parent)
if _HERE not in sys.path:
    sys.path.insert(0, _HERE)

settings.register_profile("coder", deadline=None)  # a busy machine is not a failure
settings.load_profile("coder")
