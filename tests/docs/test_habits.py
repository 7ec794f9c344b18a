"""The files around the code name things that exist: workflow, hooks, editor settings, pinned versions."""

from __future__ import annotations

import ast
import configparser
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
SOURCES = [
    path
    for directory in ("src", "tests", "bench", "docs")
    for path in (ROOT / directory).rglob("*")
    if path.suffix in (".py", ".md", ".yml", ".toml")
]


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def required() -> dict[str, list[str]]:
    """The packages of the project itself (under "") and of each extra."""
    extras = {"": PROJECT["dependencies"], **PROJECT["optional-dependencies"]}
    return {
        extra: [plain(re.match(r"[\w.-]+", line)[0]) for line in lines]  # type: ignore[index] # every line matches
        for extra, lines in extras.items()
    }


def workflow() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))
    return loaded


def commands() -> Iterator[str]:
    for job in workflow()["jobs"].values():
        assert {"runs-on", "timeout-minutes", "steps"} <= job.keys()
        for step in job["steps"]:
            assert ("uses" in step) != ("run" in step), step
            yield step.get("run", "")


def test_the_workflow_runs_what_is_promised() -> None:
    promised = [word.rpartition(" ")[2] for word in PROJECT["classifiers"] if ":: Python :: 3" in word]
    jobs = workflow()["jobs"]
    assert jobs["linux"]["strategy"]["matrix"]["python-version"] == promised
    assert {job["runs-on"].partition("-")[0] for job in jobs.values()} == {"ubuntu", "macos"}


def test_the_workflow_names_files_and_words_that_exist() -> None:
    dev = (ROOT / "dev").read_text(encoding="utf-8")
    for command in commands():
        for word in re.findall(r"(?<!\S)tests/\S+", command):
            assert (ROOT / word).exists(), word
        for word in re.findall(r"\./dev (\w+)", command):
            assert re.search(rf"^  {word}\)", dev, re.MULTILINE), word


def test_hooks_use_the_tools_of_the_dev_extra() -> None:
    loaded = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    entries = [hook["entry"].split() for repo in loaded["repos"] for hook in repo["hooks"]]
    assert {entry[0] for entry in entries} <= set(required()["dev"])
    assert all((ROOT / word).exists() for entry in entries for word in entry if word.startswith("tests/"))


@pytest.mark.parametrize("extra", sorted(required()))
def test_every_package_is_pinned(extra: str) -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = {plain(line.partition("==")[0]) for line in lines}
    assert set(required()[extra]) <= pinned


def at_import(node: ast.AST) -> Iterator[str]:
    """The packages that are imported whenever a module is."""
    match node:
        case ast.Import():
            yield from (alias.name.partition(".")[0] for alias in node.names)
        case ast.ImportFrom(module=str(module), level=0):
            yield module.partition(".")[0]
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
            pass
        case ast.If() if ast.unparse(node.test) == "TYPE_CHECKING":
            pass
        case _:
            for child in ast.iter_child_nodes(node):
                yield from at_import(child)


def test_nothing_is_imported_that_is_not_required() -> None:
    """Tests have more packages than who installs coder."""
    packages = {
        name for name, dists in packages_distributions().items() if {*map(plain, dists)} & {*required()[""]}
    }
    known = {*sys.stdlib_module_names, *packages, "coder"}
    for path in (ROOT / "src").rglob("*.py"):
        found = set(at_import(ast.parse(path.read_text(encoding="utf-8"))))
        assert found <= known, path


def test_sources_are_as_the_editor_is_told() -> None:
    told = configparser.ConfigParser()
    told.read_string("[top]\n" + (ROOT / ".editorconfig").read_text(encoding="utf-8"))
    assert told["*"]["end_of_line"] == "lf"
    assert int(told["*.py"]["max_line_length"]) == 110
    for path in SOURCES:
        data = path.read_bytes()
        assert b"\r" not in data, path
        assert not data or (data.endswith(b"\n") and not data.endswith(b"\n\n")), path
        assert not re.search(rb"[ \t]$", data, re.MULTILINE), path
