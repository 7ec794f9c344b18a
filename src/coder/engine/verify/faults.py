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
    if not missing or any(_of_the_project(name, root, edited) for name in missing):
        return None
    return Phrase("verify.environment.modules", names=", ".join(sorted(missing))[:_MAX_LINE])


def _of_the_project(name: str, root: Path, edited: Iterable[str]) -> bool:
    """Whether a missing module should be in the project, or is one that this turn's edits ask for."""
    directories = [root, root / "src", root / "lib", *(root / path for path in _parents(edited))]
    if any((directory / name).exists() or (directory / f"{name}.py").exists() for directory in directories):
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
