"""Commands that may run unprompted to verify edits: a fixed list, and what the person's configuration adds.

A command must match exactly, alone or in a directory of the workspace (`cd backend && pytest -q`)."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from pathlib import Path, PurePosixPath
from shlex import quote
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coder.policy.shell.tree import SimpleCommand

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

_IN_DIRECTORY = r"cd ([A-Za-z0-9_.@+=:,/-]+|'[^'\n]+') && (.+)"  # compiled lazily, off the start-up path
# The command of the list that a check is, in whatever words. Maven's and Gradle's must have no other goal.
_LISTED = {
    **dict.fromkeys(("pytest", "py.test"), "pytest -q"),
    "npm test": "npm test -- --watch=false",
    "pnpm test": "pnpm test -- --watch=false",
    "yarn test": "yarn test --watch=false",
    "cargo test": "cargo test",
    "mvn": "mvn -q test",
    "gradle": "gradle test",
    "gradlew": "./gradlew test",
}
_BESIDE = frozenset({"cd", "echo", "tail", "head", "grep", "cat", "sort", "wc"})


def is_document(path: str) -> bool:
    """Whether no check is about the file."""
    pure = PurePosixPath(path)
    return pure.suffix.lower() in _DOCUMENTS or "docs" in pure.parts[:-1]


def is_cache(path: str) -> bool:
    """Whether it is a cache file of a program."""
    return path.endswith(".pyc") or not _CACHES.isdisjoint(path.split("/"))


def is_verification(line: str, root: Path, allow: Collection[str] = ()) -> bool:
    """Whether a line is one of these commands, or several as `in_directories` joins them."""
    parts = _parts(line)
    return all(_inside(root, directory) and (one in WHITELIST or one in allow) for directory, one in parts)


def in_directories(commands: Collection[tuple[str, str]]) -> str:
    """One line for pairs of directory ("" for the workspace root) and command."""
    lines = [
        f"cd {quote(directory)} && {command}" if directory else command for directory, command in commands
    ]
    return lines[0] if len(lines) == 1 else " && ".join(f"({line})" for line in lines)


def same_check(line: str, root: Path, allow: Collection[str] = ()) -> str:
    """The listed commands that a line runs, in any spelling; "" if it does anything else."""
    line = " ".join(line.split())
    if is_verification(line, root, allow):
        return line
    from coder.policy.check_lines import plain_line

    read = plain_line(line)
    if read is None:
        return ""
    found: list[tuple[str, str]] = []
    for command, directory in zip(read.commands, read.directories(), strict=True):
        listed = _as_listed(command, allow)
        targets = [one.target.text for one in command.redirects if ">" in one.operator]
        into_file = any(not target.isdigit() and target != "/dev/null" for target in targets)
        if listed and directory is not None and not into_file:
            path = os.path.relpath(os.path.normpath(root / directory), root)
            found.append(("" if path == "." else path, listed))
        elif into_file or not command.words or command.words[0].text not in _BESIDE:
            return ""
    return in_directories(found) if found and all(_inside(root, directory) for directory, _ in found) else ""


def _as_listed(command: SimpleCommand, allow: Collection[str]) -> str:
    from coder.policy.checks import find_check

    if command.text in (*WHITELIST, *allow):
        return command.text
    check = find_check(command.words)
    if check is None or check.part or check.dry or check.doubt is not None:
        return ""
    words = {word.text for word in command.words}
    if check.name == "go test":
        return "go test ./..." if "./..." in words else ""
    listed = _LISTED.get(check.name.replace(" run ", " "), "")
    goals = words & {"check", "verify", "compile", "test-compile"}
    return "" if goals and check.name in ("mvn", "gradle", "gradlew") else listed


def _parts(line: str) -> list[tuple[str, str]]:
    """Directory and command of each part of a line."""
    line = line.strip(" \t\n")  # bash's blanks
    parts = line[1:-1].split(") && (") if line.startswith("(") and line.endswith(")") else [line]
    found = [(re.fullmatch(_IN_DIRECTORY, part), part) for part in parts]
    return [(match[1].strip("'"), match[2]) if match else ("", part) for match, part in found]


def _inside(root: Path, directory: str) -> bool:
    """Whether the shell stays in the workspace. `cd -` and `cd ~` may go anywhere; `cd link/..` is lexical,
    so both the lexical and the real path must be inside."""
    if not directory:
        return True
    if directory.startswith(("-", "~", "/")):
        return False
    base = os.path.realpath(root)
    paths = os.path.normpath(Path(base, directory)), os.path.realpath(Path(base, directory))
    return all(Path(path).is_relative_to(base) for path in paths)


def with_project_tools(line: str, root: Path, environment: Mapping[str, str]) -> Mapping[str, str]:
    """The environment with the project's own tools first in PATH."""
    from coder.policy.check_lines import plain_line

    read = plain_line(line)
    bases = [root / directory for directory in (read.directories() if read else ()) if directory]
    directories = [base / name for base in [*bases, root] for name in TOOL_DIRECTORIES]
    if environment.get("VIRTUAL_ENV"):
        directories.append(Path(environment["VIRTUAL_ENV"]) / "bin")
    found = [str(directory) for directory in dict.fromkeys(directories) if directory.is_dir()]
    if not found:
        return environment
    return {**environment, "PATH": os.pathsep.join([*found, environment.get("PATH", os.defpath)])}
