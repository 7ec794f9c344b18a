"""Makes the shared test kit importable as `kit`, whichever directory pytest is started for."""

from __future__ import annotations

import gc
import os
import re
import shutil
import signal
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

_HERE = str(Path(__file__).parent)
if _HERE not in sys.path:
    sys.path.insert(0, _HERE)
# A text that nobody wrote is a defect in a test, and never a traceback for a person.
os.environ["CODER_STRICT_TEXTS"] = "1"

# A background job (`pytest &` in a script) ignores SIGINT, and so would every child that a test interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

from kit.driving import Project  # noqa: E402 - the path above must be set first
from kit.fork_server import FORK_SERVER  # noqa: E402 - as above

# A busy machine is no failure: speed is measured in bench/, never in a test.
settings.register_profile("coder", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("coder")


def pytest_collection_finish() -> None:
    """What was collected stays to the end: spare the garbage collector, and forks, another look at it."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A workspace and a home of its own."""
    return Project(tmp_path)


# What the suite leaves behind is a defect of a test or of the product, and is named. Temporary files go to a
# directory of this run's own, so that another run's are not taken for ours.

_OWN_TEMP = "CODER_TESTS_TMPDIR"
_EXPECTED = r"pytest-of-.*|coder-\d+"  # pytest's directories; the scratch directories of workspaces, by user
_BEFORE = pytest.StashKey[dict[Path, set[str]]]()
_LEFT = pytest.StashKey[list[str]]()


def _names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()} if directory.is_dir() else set()


def pytest_configure(config: pytest.Config) -> None:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # `nohup` would leave it ignored in what the tests start
    if hasattr(config, "workerinput"):
        return
    own = tempfile.mkdtemp(prefix="coder-tests-")
    Path(own).chmod(0o1777)  # as /tmp is: some tests look from another user's side
    os.environ[_OWN_TEMP] = os.environ["TMPDIR"] = tempfile.tempdir = own
    config.stash[_BEFORE] = {directory: _names(directory) for directory in (Path("/"), Path.home())}


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Runs in each worker of xdist, and then, when they have ended, in the main process."""
    FORK_SERVER.close()
    before = session.config.stash.get(_BEFORE, None)
    if before is None:
        return
    left = [
        str(directory / name) for directory, names in before.items() for name in _names(directory) - names
    ]
    own = Path(os.environ[_OWN_TEMP])
    left += [str(own / name) for name in _names(own) if not re.fullmatch(_EXPECTED, name)]
    session.config.stash[_LEFT] = sorted(left)
    if left and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for path in config.stash.get(_LEFT, []):
        terminalreporter.write_line(f"LEFT BEHIND {path}: a test must clean up what it makes", red=True)


def pytest_unconfigure(config: pytest.Config) -> None:
    if config.stash.get(_BEFORE, None) is not None:
        shutil.rmtree(os.environ[_OWN_TEMP], ignore_errors=True)
