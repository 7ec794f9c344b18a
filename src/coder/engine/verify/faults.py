"""What a failing check tells: whether the code is at fault, and which tests fail."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from coder.fs.safe_open import read_whole
from coder.tools.base import ToolResult

# No such program, not executable, time-out.
_COULD_NOT_RUN = {124, 126, 127}
_PYTEST_NOT_RUN = {
    4,
    5,
}  # it was called in a wrong way (a plugin's option, a bad setting); nothing was collected
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
_MAX_SOURCE = 1_000_000


def environment_fault(command: str, result: ToolResult, root: Path, edited: Iterable[str]) -> bool:
    """Whether the check failed for a reason that no edit of the code can repair."""
    exit_code = int(result.meta.get("exit_code", 127))
    if exit_code in _COULD_NOT_RUN or ("pytest" in command and exit_code in _PYTEST_NOT_RUN):
        return True
    output = result.for_model
    if re.search(_TEST_FAILED, output):
        return False
    if re.search(_MISSING, output, re.IGNORECASE | re.MULTILINE):
        return True
    missing = {name.split(".")[0] for name in re.findall(_PYTHON_MISSING, output)}
    missing |= set(re.findall(_NODE_MISSING, output))
    return bool(missing) and not any(_of_the_project(name, root, edited) for name in missing)


def _of_the_project(name: str, root: Path, edited: Iterable[str]) -> bool:
    """Whether a missing module should be in the project, or is one that this turn's edits ask for."""
    folders = [root, root / "src", root / "lib", *(root / path for path in _parents(edited))]
    if any((folder / name).exists() or (folder / f"{name}.py").exists() for folder in folders):
        return True
    return any(name in _source(root / path) for path in edited)


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
