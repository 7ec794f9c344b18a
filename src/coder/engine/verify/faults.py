"""What a failing check tells: whether the code is at fault, and which tests fail."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from coder.fs.safe_open import read_whole
from coder.texts import Phrase
from coder.tools.base import ToolResult

_COULD_NOT_RUN = {124: "timeout", 126: "denied", 127: "missing"}
# Called in a wrong way (a plugin's option, a bad setting); nothing was collected.
_PYTEST_NOT_RUN = {4: "usage", 5: "no_tests"}
# What the programs of the list say where they, or what they need, are not there.
_MISSING = (
    r"no module named pytest|command not found|: not found$|missing script: .?test"
    r"|could not resolve dependencies|could not transfer artifact|failed to download|dial tcp: "
    r"|temporary failure in name resolution|node_modules.* missing"
)
_PYTHON_MISSING = r"(?:ModuleNotFoundError: )?No module named '([^']+)'"
_NODE_MISSING = r"Cannot find (?:module|package) '([^'./][^']*)'"
_TEST_FAILED = (
    r"(?m)^FAILED |^=+ .*\b\d+ failed\b|^\d+ failed\b|^--- FAIL|^test .*FAILED$|^\s*(?:✕|×|✗) |^not ok "
)
_FAILING = (
    r"^(?:FAILED|ERROR) \S.*|^--- FAIL: .*|^test .* \.\.\. FAILED|^\s*(?:✕|×|✗) .*|^not ok .*|^\[ERROR\] .*"
)
_NOT_COLLECTED = r"(?m)^ERROR (\S+\.py)\b"
_PYTEST_SETTINGS = {"conftest.py", "pyproject.toml", "pytest.ini", "setup.cfg", "setup.py", "tox.ini"}
_MAX_SOURCE = 1_000_000
_MAX_LINE = 200  # characters of an output that are quoted as the reason


def environment_fault(command: str, result: ToolResult, root: Path, edited: Iterable[str]) -> Phrase | None:
    """Why the check failed, where no edit of the code can repair that; None where one might."""
    exit_code = int(result.meta.get("exit_code", 127))
    codes = {**_COULD_NOT_RUN, **(_PYTEST_NOT_RUN if "pytest" in command else {})}
    if exit_code in codes:
        return Phrase(f"verify.environment.{codes[exit_code]}")
    output = result.for_model
    if re.search(_TEST_FAILED, output):
        return None
    if found := re.search(_MISSING, output, re.IGNORECASE | re.MULTILINE):
        start = output.rfind("\n", 0, found.start()) + 1
        line = output[start:].partition("\n")[0].strip()
        return Phrase("verify.environment.printed", line=line[:_MAX_LINE])
    missing = {name.split(".")[0] for name in re.findall(_PYTHON_MISSING, output)}
    missing |= set(re.findall(_NODE_MISSING, output))
    repairable = any(_of_the_project(name, root, edited) for name in missing)
    if not missing or (repairable and not _never_installed(missing, output, root, set(edited))):
        return None
    return Phrase("verify.environment.modules", names=", ".join(sorted(missing))[:_MAX_LINE])


def _of_the_project(name: str, root: Path, edited: Iterable[str]) -> bool:
    """Whether a missing module should be in the project, or is one that this turn's edits ask for."""
    directories = [root, root / "src", root / "lib", *(root / path for path in _parents(edited))]
    if any((directory / name).exists() or (directory / f"{name}.py").exists() for directory in directories):
        return True
    return any(name in _source(root / path) for path in edited)


def _never_installed(missing: set[str], output: str, root: Path, edited: set[str]) -> bool:
    """Whether they are packages of the project that its own tests cannot import, edited or not, as where
    nobody has installed it: `python -m pytest` finds those that lie beside the tests."""
    if any(Path(path).name in _PYTEST_SETTINGS for path in edited):
        return False
    there = all((root / name).is_dir() or (root / "src" / name).is_dir() for name in missing)
    return there and any(file not in edited for file in re.findall(_NOT_COLLECTED, output))


def _parents(edited: Iterable[str]) -> set[Path]:
    return {parent for path in edited for parent in Path(path).parents}


def _source(path: Path) -> str:
    try:
        return read_whole(path, _MAX_SOURCE).decode("utf-8", errors="replace")
    except OSError:
        return ""


def failing(result: ToolResult) -> frozenset[str]:
    """What fails, in a form that can be compared with another run of the same check."""
    if result.ok:
        return frozenset()
    lines = re.findall(_FAILING, result.for_model, re.MULTILINE) or [result.for_model]
    # Messages and times differ from run to run, names do not.
    return frozenset(re.sub(r" - .*|\(?\b[\d.]+ ?m?s\b\)?", "", line).strip() for line in lines)
