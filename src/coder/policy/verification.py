"""Commands that may run unprompted to verify edits: a fixed list, and what the person's configuration adds.

A command must match exactly, alone or in a directory of the workspace (`cd backend && pytest -q`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from pathlib import Path, PurePosixPath

# `workflow.verify_allow` adds to it.
WHITELIST = (
    "go test ./...",
    "pytest -q",
    "npm test -- --watch=false",
    "pnpm test -- --watch=false",
    "yarn test --watch=false",
    "cargo test",
    "mvn -q test",
    "gradle test",
    "./gradlew test",
)
_DOCUMENTS = {".md", ".markdown", ".rst", ".txt", ".adoc"}
_CACHES = {
    "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".benchmarks", ".coverage", ".hypothesis",
    ".nox", ".tox",
}  # fmt: skip
TOOL_DIRECTORIES = (".venv/bin", "venv/bin", "node_modules/.bin")

# Compiled lazily, off the start-up path.
_IN_DIRECTORY = r"cd ([A-Za-z0-9_.@+=:,/-]+|'[^'\n]+') && (.+)"
_PYTHON = r"(?:[\w./-]+/)?python[\d.]*"
_PYTEST_FLAGS = (
    r"(?: (?:-q+|-v+|-[xls]|-r\w+|--quiet|--verbose|--tb=\w+|--color=\w+|--no-header|--maxfail=\d+))*"
)
# A part of the suite: pytest by name or from the project's environment, then files and tests, or words of
# their names.
_NARROW = (
    rf"(?:(?:\.venv|venv)/bin/)?(?:pytest|python3? -m pytest){_PYTEST_FLAGS}"
    r"((?: [\w.][\w./-]*(?:::[\w\[\]-]+)*)*)" + _PYTEST_FLAGS + r"""(?: -k (?:\w+|"[\w ]+"|'[\w ]+'))?"""
)
_MAVEN_FLAGS = r"(?: (?:-q|-B|-ntp|--quiet|--batch-mode|--no-transfer-progress))*"
_GRADLE_FLAGS = r"(?: (?:-q|--quiet|--info|--no-daemon|--offline|--console=\w+))*"
_NODE_FLAGS = r"(?: (?:-s|--silent))?(?: --(?: (?:--watch=false|--watchAll=false|--run))*)?"
# Other spellings: they run the same tests and differ only in output.
_SAME = {
    "go test ./...": r"go test(?: (?:-v|-race|-count=1))* \./\.\.\.(?: (?:-v|-race|-count=1))*",
    "pytest -q": (
        rf"(?:(?:uv|poetry|pdm|pipenv) run )?(?:(?:[\w./-]+/)?pytest|{_PYTHON} -m pytest){_PYTEST_FLAGS}"
    ),
    "npm test -- --watch=false": rf"npm (?:test|t|run test){_NODE_FLAGS}",
    "pnpm test -- --watch=false": rf"pnpm (?:test|t|run test){_NODE_FLAGS}",
    "yarn test --watch=false": r"yarn (?:run )?test(?: (?:--watch=false|--silent))*",
    "cargo test": r"cargo test(?: (?:-q|--quiet|-v|--verbose|--workspace|--all))*",
    "mvn -q test": rf"mvn{_MAVEN_FLAGS} test{_MAVEN_FLAGS}",
    "gradle test": rf"gradle{_GRADLE_FLAGS} test{_GRADLE_FLAGS}",
    "./gradlew test": rf"\./gradlew{_GRADLE_FLAGS} test{_GRADLE_FLAGS}",
}


def is_document(path: str) -> bool:
    """Whether no check is about the file."""
    pure = PurePosixPath(path)
    return pure.suffix.lower() in _DOCUMENTS or "docs" in pure.parts[:-1]


def is_cache(path: str) -> bool:
    """Whether it is what programs write for themselves and nobody reads."""
    return path.endswith(".pyc") or not _CACHES.isdisjoint(path.split("/"))


def is_verification(line: str, root: Path, allow: Collection[str] = ()) -> bool:
    """Whether a line is one of these commands, or several as `in_directories` joins them."""
    parts = _parts(line)
    return all(_inside(root, directory) and (one in WHITELIST or one in allow) for directory, one in parts)


def may_run(line: str, root: Path, allow: Collection[str] = ()) -> bool:
    """Whether a model may run a line unprompted to verify: a listed check or a narrower one (some test files,
    the tail of the output).
    """
    return is_verification(line, root, allow) or _is_narrower(line, root)


def _is_narrower(line: str, root: Path) -> bool:
    found = re.fullmatch(_NARROW, without_tail(line))
    if found is None:
        return False
    return all(_inside(root, operand.split("::")[0]) for operand in found[1].split())


def without_tail(line: str) -> str:
    """The line without `2>&1` and `| tail -5`, which show only a part of what it prints."""
    # Only spaces: a newline begins another command.
    return re.sub(r" \| (?:tail|head)(?: -n)? -?[0-9]+\Z", "", line.strip(" ")).removesuffix(" 2>&1")


def in_directories(commands: Collection[tuple[str, str]]) -> str:
    """One line for pairs of directory ("" for the workspace root) and command."""
    from shlex import quote

    lines = [
        f"cd {quote(directory)} && {command}" if directory else command for directory, command in commands
    ]
    return lines[0] if len(lines) == 1 else " && ".join(f"({line})" for line in lines)


def same_check(line: str, root: Path, allow: Collection[str] = ()) -> str:
    """The line with its command as the list spells it; "" if it is no such check."""
    line = " ".join(line.split()).removesuffix(" 2>&1")
    line = line.removeprefix(f"cd {root} && ")
    line = re.sub(r"^(?:(?:CI|NO_COLOR|TERM)=\w* )+", "", line)
    found = [(directory, _as_listed(command, allow)) for directory, command in _parts(line)]
    return in_directories(found) if all(command for _, command in found) else ""


def _as_listed(command: str, allow: Collection[str]) -> str:
    if command in WHITELIST or command in allow:
        return command
    return next((listed for listed, form in _SAME.items() if re.fullmatch(form, command)), "")


def _parts(line: str) -> list[tuple[str, str]]:
    """Directory and command of each part of a line."""
    line = line.strip(" \t\n")  # what is blank to bash
    joined = line.startswith("(") and line.endswith(")")
    return [_split(part) for part in (line[1:-1].split(") && (") if joined else [line])]


def _split(line: str) -> tuple[str, str]:
    found = re.fullmatch(_IN_DIRECTORY, line)
    return (found[1].strip("'"), found[2]) if found else ("", line)


def _inside(root: Path, directory: str) -> bool:
    """Whether the shell stays in the workspace. `cd -` and `cd ~` may go anywhere; `cd link/..` is lexical,
    so both the lexical and the real path must be inside.
    """
    if not directory:
        return True
    if directory.startswith(("-", "~", "/")):
        return False
    base = os.path.realpath(root)
    lexical, real = (
        Path(os.path.normpath(Path(base, directory))),
        Path(os.path.realpath(Path(base, directory))),
    )
    return lexical.is_relative_to(base) and real.is_relative_to(base)


def with_project_tools(line: str, root: Path, environment: Mapping[str, str]) -> Mapping[str, str]:
    """The environment with the project's own tools first in PATH."""
    bases = [root / directory for directory, _ in _parts(line) if directory]
    directories = [base / name for base in [*bases, root] for name in TOOL_DIRECTORIES]
    if environment.get("VIRTUAL_ENV"):
        directories.append(Path(environment["VIRTUAL_ENV"]) / "bin")
    found = [str(directory) for directory in dict.fromkeys(directories) if directory.is_dir()]
    if not found:
        return environment
    return {**environment, "PATH": os.pathsep.join([*found, environment.get("PATH", os.defpath)])}
