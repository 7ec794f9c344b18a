"""Where the tests' own environment lies."""

from __future__ import annotations

import sys
import tempfile

import pytest

# Commands in bubblewrap see a /tmp of their own, so an interpreter that is not on PATH cannot be in it.
outside_temp = pytest.mark.skipif(
    any(sys.prefix.startswith(f"{place}/") for place in {"/tmp", "/var/tmp", tempfile.gettempdir()}),
    reason="the environment of the tests lies in the temporary directory, which the sandbox replaces",
)
