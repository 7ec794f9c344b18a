"""The first look at a task: calls that the dialect makes without asking the model.

A small model spends its few good steps on the change; which files there are, where a name occurs and what a
failing check says can be found out without it.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import PurePosixPath
from typing import Any

from coder.model.guided.state import State

MOST_FILES = 4  # read at the beginning
MOST_NAMES = 3  # searched for
PAGE = 160  # lines of a file that are read at once
_FEW = 3  # files of a workspace that is read whole
_IDENTIFIER = re.compile(
    r"`([A-Za-z_]\w{2,})(?:\(\))?`|\b([a-z]+_\w+|[a-z]+[A-Z]\w+|[A-Z]\w*[a-z]\w*[A-Z]\w+|[A-Z]{3,}\w*)\b|\b([A-Za-z_]\w+)\("
)
_PLAIN_NAME = re.compile(
    r"\b(?:function|method|class|variable|constant|rename)\s+`?([A-Za-z_]\w+)", re.IGNORECASE
)
_FAILS = re.compile(r"\bfail|\bbroken\b|\bpass\b|失败|不通过|通过", re.IGNORECASE)
_TESTS = re.compile(r"\btests?\b|\bchecks?\b|测试", re.IGNORECASE)
_ENDING = re.compile(
    r"\.(?:py|pyi|js|mjs|jsx|tsx?|json|toml|ya?ml|md|rst|txt|html?|css|s?css|sh|c|h|cc|cpp|hpp|rs|go|java|kt|rb|php|"
    r"sql|ini|cfg|conf|env|xml|csv|lua|swift|cs|vue|svelte|r|jl|pl|ex|exs|hs|ml|scala|dart|zig)\Z",
    re.IGNORECASE,
)
_DOCUMENT = re.compile(r"\.(?:md|rst|txt|adoc)\Z|(?:\A|/)(?:LICENSE|CHANGELOG|NOTICE)\Z", re.IGNORECASE)
_TEXT = re.compile(r"\.(?:lock|png|jpe?g|gif|pdf|zip|gz|whl|so|pyc|ico|woff2?|gguf|bin)\Z", re.IGNORECASE)

Wanted = tuple[str, dict[str, Any]]


def first_look(state: State, tools: Collection[str]) -> list[Wanted]:
    """The calls of the next step; empty once there is nothing left to look for."""
    if state.steps:
        return []
    if state.looks == 0:
        calls: list[Wanted] = [("glob", {"pattern": "**/*"})] if "glob" in tools else [("list", {})]
        calls += [("grep", {"pattern": rf"\b{name}\b"}) for name in names_in(state.task) if "grep" in tools]
        if asks_about_tests(state.task) and state.check and "bash" in tools and "bash" not in state.denied:
            calls.append(("bash", {"command": state.check}))
        return [one for one in calls if one[0] in tools]
    if state.looks == 1 and "read" in tools:
        unread = [path for path in relevant(state) if path not in state.texts]
        return [("read", {"path": path, "limit": PAGE}) for path in unread]
    return []


def names_in(task: str) -> list[str]:
    """Identifiers that a task names."""
    found = [next(filter(None, groups)) for groups in _IDENTIFIER.findall(task)]
    found += _PLAIN_NAME.findall(task)
    words = [name for name in dict.fromkeys(found) if not re.search(rf"\b{re.escape(name)}\.\w", task)]
    return words[:MOST_NAMES]


def paths_in(task: str) -> list[str]:
    """The file names in a task; `Stack.pop` is none."""
    found = re.findall(r"(?<![\w/.-])[\w./-]*\w\.[A-Za-z]\w{0,4}\b(?!\()", task)
    return list(dict.fromkeys(name for name in found if "/" in name or _ENDING.search(name)))


def may_be_wrong(path: str) -> bool:
    """Whether it can make a test fail: the code, not what tests or describes it."""
    return not is_test(path) and not _DOCUMENT.search(path)


def asks_about_tests(task: str) -> bool:
    return bool(_TESTS.search(task) and _FAILS.search(task))


def relevant(state: State) -> list[str]:
    """The files to read first: named ones, then those that have the names, then all of a small workspace."""
    paths = [path for path in state.paths if not _TEXT.search(path) and not path.startswith(".")]
    chosen = [path for path in paths if named(path, state.task)]
    for files in state.found.values():
        chosen += [path for path in files if path in paths]
    chosen += [path for path in paths if PurePosixPath(path).name in state.output]
    if not chosen and len(paths) <= _FEW:
        chosen = paths
    chosen += [path for name in chosen for path in paths if path != name and _tests(name) == _tests(path)]
    # Tests first: what a later try shows in another way is the code, and the cache holds up to there.
    return sorted(list(dict.fromkeys(chosen))[:MOST_FILES], key=lambda path: not is_test(path))


def named(path: str, task: str) -> bool:
    name = PurePosixPath(path)
    if re.search(rf"(?<![\w/.-]){re.escape(path)}(?![\w-])", task):
        return True
    return bool(re.search(rf"(?<![\w.-]){re.escape(name.name)}(?![\w-])", task)) and "." in name.name


def check_again(state: State, tools: Collection[str]) -> list[Wanted]:
    """The check, after a change that was to mend it."""
    due = asks_about_tests(state.task) and state.unchecked and not state.broken and not state.last_check
    if not due or not state.check or "bash" not in tools or "bash" in state.denied:
        return []
    return [("bash", {"command": state.check})]


def is_test(path: str) -> bool:
    name = path.rpartition("/")[2]
    return name.startswith("test_") or name.partition(".")[0].endswith("_test")


def _tests(path: str) -> str:
    """The name that a module and its tests share."""
    return PurePosixPath(path).stem.removeprefix("test_").removesuffix("_test")
