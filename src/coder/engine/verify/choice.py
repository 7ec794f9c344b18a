"""Which command verifies: what the person named, else what is configured, else what suits the project."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path, PurePosixPath

import msgspec

from coder.fs.safe_open import read_whole
from coder.policy.verification import in_directories, is_document, is_verification

_MAX_PACKAGE = 4_000_000  # bytes of a package.json that is looked into
_NO_TEST = "no test specified"  # what `npm init` writes where a test would be
_PYTHON = {".py", ".pyi"}
_SCRIPTS = {".js", ".jsx", ".ts", ".tsx", ".mjs", ".cjs", ".vue", ".svelte"}
_JAVA = {".java", ".kt", ".groovy", ".scala"}
_MAX_DIRECTORIES = 3  # sub-projects that one check covers; more are the workspace's own check


class Choice(msgspec.Struct, frozen=True):
    """The command to run ("" for none) and those that were named but are not on the list."""

    command: str
    refused: list[str]


def choose(
    text: str,
    configured: Iterable[str],
    root: Path,
    edited: Iterable[str],
    allow: Collection[str] = (),
) -> Choice:
    """A command that somebody named and that is not on the list is never replaced by another."""
    from coder.engine.verify.words import named

    wanted = named(text, root, allow)
    if wanted:
        listed = [command for command in wanted if is_verification(command, root, allow)]
        refused = [command for command in wanted if command not in listed]
        return Choice(in_directories([("", command) for command in listed]) if listed else "", refused)
    refused = []
    for command in (command.strip() for command in configured):
        if is_verification(command, root, allow):
            return Choice(command, refused)
        refused.append(command)
    return Choice("", refused) if refused else Choice(_inferred(root, edited), [])


def project_check(configured: Iterable[str], root: Path, allow: Collection[str] = ()) -> str:
    """The check of the whole project, before anything is edited; "" where none is known."""
    listed = [command.strip() for command in configured if is_verification(command.strip(), root, allow)]
    return next(iter([*listed, *(command for command, _ in _candidates(root, top=True))]), "")


def _inferred(root: Path, edited: Iterable[str]) -> str:
    """The checks of the sub-projects that the edited files lie in, else of the workspace."""
    found: dict[tuple[str, str], None] = {}
    for path in sorted(edited):
        if not is_document(path) and (check := _check_for(root, PurePosixPath(path))):
            found[check] = None
    if len(found) > _MAX_DIRECTORIES:
        found = {check: None for check in found if not check[0]}
    return in_directories(list(found)) if found else ""


def _check_for(root: Path, path: PurePosixPath) -> tuple[str, str] | None:
    """The directory nearest to a file that has a check for its language; else the nearest that has any."""
    if path.is_absolute() or ".." in path.parts:
        path = PurePosixPath(path.name)
    other: tuple[str, str] | None = None
    for directory in path.parents:
        name = "" if directory == PurePosixPath(".") else str(directory)
        for command, languages in _candidates(root / directory, top=not name):
            if path.suffix in languages and not (languages is _JAVA and name and _has_java(root)):
                return name, command
            other = other or (name, command)
    return other


def _has_java(root: Path) -> bool:
    """Whether modules below belong to a build of the whole."""
    return any(languages is _JAVA for _, languages in _candidates(root, top=True))


def _candidates(directory: Path, *, top: bool) -> Iterable[tuple[str, set[str]]]:
    """Every kind of project the directory looks like, with the files its check is about."""

    def has(*names: str) -> bool:
        return any((directory / name).exists() for name in names)

    python = has("pytest.ini", "pyproject.toml", "setup.py", "setup.cfg", "tox.ini")
    if python or (top and (has("conftest.py") or _has_tests(directory))):  # further down these are its tests
        yield "pytest -q", _PYTHON
    if has("go.mod"):
        yield "go test ./...", {".go"}
    if has("Cargo.toml"):
        yield "cargo test", {".rs"}
    if _has_test_script(directory / "package.json"):
        if has("pnpm-lock.yaml"):
            yield "pnpm test -- --watch=false", _SCRIPTS
        elif has("yarn.lock"):
            yield "yarn test --watch=false", _SCRIPTS
        else:
            yield "npm test -- --watch=false", _SCRIPTS
    if has("pom.xml"):
        yield "mvn -q test", _JAVA
    if has("gradlew"):
        yield "./gradlew test", _JAVA
    elif has("build.gradle", "build.gradle.kts"):
        yield "gradle test", _JAVA


def _has_tests(root: Path) -> bool:
    return any(next(directory.glob("test_*.py"), None) for directory in (root, root / "tests", root / "test"))


def _has_test_script(path: Path) -> bool:
    try:
        package = msgspec.json.decode(read_whole(path, _MAX_PACKAGE))
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return False
    scripts = package.get("scripts") if isinstance(package, dict) else None
    return isinstance(scripts, dict) and "test" in scripts and _NO_TEST not in str(scripts["test"])
