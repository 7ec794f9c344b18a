"""Makes the shared test kit importable as `kit`, whichever folder pytest is started for."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import settings

_HERE = str(Path(__file__).parent)
if _HERE not in sys.path:
    sys.path.insert(0, _HERE)
# A text that nobody wrote is a defect in a test, and never a traceback for a person.
os.environ["CODER_STRICT_TEXTS"] = "1"

# A background job (`pytest &` in a script) ignores SIGINT, and so would every child that a test interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

from kit.driving import Project  # noqa: E402 - the path above must be set first

# A busy machine is no failure: speed is measured in bench/, never in a test.
settings.register_profile("coder", deadline=None)
settings.load_profile("coder")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A workspace and a home of its own."""
    return Project(tmp_path)
