"""Recognizes checks (tests, linters, type checkers, builds) in a shell line and tells how they ended.

Wider than `verification`: nothing is allowed to run because of it. It only says what a line has shown.
"""

from __future__ import annotations

import re
import shlex
from itertools import pairwise
from typing import Literal, NamedTuple

from coder.protocol.entries import CheckRun

_MAX_LINE = 4_000  # characters; a longer line is a script
_MAYBE = re.compile(
    r"test|spec|check|verify|lint|mypy|ruff|pyright|flake|ava|tox|nox|jest|mocha|tsc|biome|bats|pest|trial"
    r"|green|cop"
    r"|phpstan|build|vet|clippy|compile|types|\bty\b|\bt\b"
)
_OPERATORS = frozenset({"&&", "||", ";", "|", "|&", "&"})
_PYTHON = re.compile(r"python[\d.]*|py")
# Programs that run the command after them, with what may stand in between.
_WRAPPERS = frozenset(
    {"time", "nice", "env", "xvfb-run", "npx", "bunx", "command", "exec", "stdbuf", "unbuffer"}
)
_RUNNERS = frozenset({"uv", "poetry", "pdm", "pipenv", "hatch", "rye", "bundle"})
_PACKAGE_MANAGERS = frozenset({"npm", "pnpm", "yarn", "bun"})
_TASKS = frozenset({"make", "gmake", "just", "task", "rake", "invoke", "inv", "doit", "nox", "composer"})
_TEST_PROGRAMS = frozenset(
    {
        "pytest", "py.test", "tox", "nox", "nose2", "jest", "vitest", "mocha", "ava", "ctest", "phpunit",
        "rspec", "bats", "pest", "stestr", "green", "trial",
    }
)  # fmt: skip
_LINTERS = frozenset(
    {
        "ruff", "mypy", "pyright", "basedpyright", "flake8", "pylint", "pyflakes", "eslint", "tsc", "vue-tsc",
        "biome", "shellcheck", "golangci-lint", "staticcheck", "rubocop", "phpstan", "hadolint", "stylelint",
        "ty",
    }
)  # fmt: skip
_SUBCOMMANDS: dict[str, dict[str, Literal["tests", "lint"]]] = {
    "go": {"test": "tests", "vet": "lint", "build": "lint"},
    "cargo": {"test": "tests", "nextest": "tests", "check": "lint", "clippy": "lint", "build": "lint"},
    "deno": {"test": "tests", "check": "lint", "lint": "lint"},
    "dotnet": {"test": "tests", "build": "lint"},
    "mix": {"test": "tests", "compile": "lint"},
    "swift": {"test": "tests", "build": "lint"},
    "bazel": {"test": "tests", "build": "lint"},
    "zig": {"test": "tests", "build": "lint"},
    "playwright": {"test": "tests"},
    "ng": {"test": "tests", "lint": "lint", "build": "lint"},
}
_MODULES: dict[str, Literal["tests", "lint"]] = {
    "pytest": "tests", "unittest": "tests", "nose2": "tests", "doctest": "tests", "tox": "tests",
    "nox": "tests", "mypy": "lint", "ruff": "lint", "flake8": "lint", "pylint": "lint", "pyflakes": "lint",
    "pyright": "lint", "compileall": "lint", "py_compile": "lint",
}  # fmt: skip
_TEST_TASK = re.compile(r"(?:[\w-]+:)?(?:unit-?|e2e-?|run-?)?(?:tests?|specs?|check)(?:[:_-][\w:-]+)?")
_LINT_TASK = re.compile(r"(?:lint|type-?check|types|tsc|build|compile|mypy|ruff|eslint)(?:[:_-][\w:-]+)?")
_TEST_SCRIPT = re.compile(
    r"(?:.*/)?(?:run[-_]?)?(?:unit[-_]?)?tests?(?:[-_](?:all|unit))?(?:\.(?:sh|py|js|rb))?"
)
# They look without running anything, or change what they look at.
_NO_RUN = frozenset(
    {
        "--help", "-h", "--version", "-V", "--collect-only", "--co", "--no-run", "--list", "--listtests",
        "--fixtures", "--markers", "--fix", "--dry-run", "--setup-plan", "--setup-only", "--init",
        "--exit-zero", "--notest", "--listTests", "--just-print", "--recon", "--touch", "--question",
        "--ignore-errors", "-DskipTests", "-DskipTests=true", "-Dmaven.test.skip=true", "-Dmaven.test.skip",
        "-Dmaven.test.failure.ignore=true", "-Dmaven.test.failure.ignore",
    }
)  # fmt: skip
# The same of one program, as letters that may be clustered.
_NO_RUN_LETTERS = {"make": "ntqi", "gmake": "ntqi", "tox": "l", "ctest": "N", "gradle": "m", "gradlew": "m"}
_REPLACING = frozenset({"exec", "alias", "trap"})  # what follows may not run, or not be what it is called
_WHOLE = frozenset(
    {".", "./...", "all", "discover", "tests", "tests/", "test", "test/", "run", "--", "check", "verify"}
)
_NARROWING = re.compile(
    r"-k|-m|--lf|--last-failed|--ff|-t|-run|--filter|--testNamePattern|--grep|-g|--deselect|--ignore.*|-p"
    r"|--package"
)
_VALUED = frozenset(
    {"-s", "-p", "-t", "-C", "-f", "-c", "-j", "-n", "-o", "--prefix", "--timeout", "-timeout"}
)
_PASSED = re.compile(
    r"(?m)^=* ?\d+ passed\b|^(?:OK)\b(?: \(.*\))?$|^ok\s+\S+|^test result: ok\.|^Tests:\s+(?:.*\b)?\d+ passed"
    r"|^\s*Tests\s+\d+ passed|BUILD SUCCESS|^All checks passed!|^Success: no issues found|^\s*\d+ passing\b"
    r"|^\d+ examples?, 0 failures|^# fail 0$|^100% tests passed"
)
_FAILED = re.compile(
    r"(?m)\b[1-9]\d* (?:failed|failing|errors?|failures?)\b|^FAILED\b|^FAIL\b|^--- FAIL|^test result: FAILED"
    r"|^ERRORS?\b"
    r"|BUILD FAIL|^not ok |^Found \d+ errors?|^error(?:\[|:)|^Traceback "
)


class _Stage(NamedTuple):
    words: list[str]
    after: str  # the operator that follows; "" at the end


def checks_in(line: str, exit_code: int, output: str) -> list[CheckRun]:
    """The checks that the line ran, by the model, and how each ended; none where that is not plain."""
    stages = _stages(line) if _MAYBE.search(line) else []
    found = [(at, check) for at, stage in enumerate(stages) if (check := _check(stage.words))]
    runs = []
    for at, (kind, part) in found:
        after = [stage.after for stage in stages[at:-1]]
        certain = _is_reached(stages[:at])
        state = _state(after, exit_code, output, alone=len(found) == 1, certain=certain)
        runs.append(CheckRun(shlex.join(stages[at].words), state, "model", kind, part))
    return runs


def _is_reached(before: list[_Stage]) -> bool:
    """Whether a line that succeeded has run what comes after these: `a || pytest` and `exit 0; pytest` need
    not have.
    """
    operators = ["", *(stage.after for stage in before)]
    for operator, stage in zip(operators, before, strict=False):
        name, *arguments = stage.words or [""]
        failing = operator == "||" if not arguments else arguments[0] != "0"
        if name in _REPLACING or (name in ("exit", "return") and not failing):
            return False
    return operators[-1] != "||"


def _state(
    after: list[str], exit_code: int, output: str, *, alone: bool, certain: bool
) -> Literal["passed", "failed", "unclear"]:
    """By the exit code where it is the check's own; else by what it printed, where nothing else did."""
    if set(after) <= {"&&"} and exit_code == 0 and certain:
        return "passed"
    if not after and alone and exit_code != 0:
        return "failed"
    if _FAILED.search(output):
        return "failed"
    return "passed" if alone and _PASSED.search(output) else "unclear"


def _stages(line: str) -> list[_Stage]:
    """The simple commands of a plain line; none of one with more than lists, pipes and redirections."""
    line = line.strip()
    if len(line) > _MAX_LINE or re.search(r"\$\(|`|<<|[<>]\(", line):
        return []
    try:
        lexer = shlex.shlex(
            line.replace("\\\n", " ").replace("\n", " ; "), posix=True, punctuation_chars="();<>|&"
        )
        lexer.whitespace_split = True
        lexer.commenters = ""
        tokens = list(lexer)
    except ValueError:  # an open quote
        return []
    stages: list[_Stage] = []
    words: list[str] = []
    skip = False
    for token, following in pairwise([*tokens, ""]):
        if skip:
            skip = False
        elif token in _OPERATORS:
            stages.append(_Stage(words, token))
            words = []
        elif token in ("(", ")"):
            continue
        elif token[0] in "<>&" and token.strip("<>&") == "":
            skip = bool(following) and following not in _OPERATORS
            if words and words[-1].isdigit():
                words.pop()  # a file descriptor
        elif token.strip("();<>|&") == "":
            return []
        else:
            words.append(token)
    stages.append(_Stage(words, ""))
    while len(stages) > 1 and not stages[-1].words and stages[-2].after != "&":  # a trailing `;`
        stages.pop()
        stages[-1] = _Stage(stages[-1].words, "")
    return stages


def _check(words: list[str]) -> tuple[Literal["tests", "lint"], bool] | None:
    """What kind of check the command is, and whether it is only a part of the tests."""
    words = _unwrapped(words)
    if not words or _NO_RUN.intersection(words):
        return None
    name, rest = words[0].rsplit("/", 1)[-1], words[1:]
    if name in _NO_RUN_LETTERS and any(
        re.fullmatch(rf"-\w*[{_NO_RUN_LETTERS[name]}]\w*", word) for word in rest
    ):
        return None
    if _PYTHON.fullmatch(name):
        if rest[:1] == ["-m"] and len(rest) > 1:
            kind = _MODULES.get(rest[1])
            return (kind, _is_part(rest[2:])) if kind else None
        if rest[:2] and rest[0].endswith("manage.py") and rest[1:2] == ["test"]:
            return "tests", _is_part(rest[2:])
        return _script(rest[0]) if rest else None
    if name in _TEST_PROGRAMS:
        return "tests", _is_part(rest)
    if name in _LINTERS:
        return None if rest[:1] == ["format"] and "--check" not in rest else ("lint", False)
    if name == "node":
        return ("tests", _is_part(rest[1:])) if rest[:1] == ["--test"] else None
    if name in _SUBCOMMANDS:
        kind = _SUBCOMMANDS[name].get(next((word for word in rest if word[:1] not in "-+"), ""))
        return (kind, _is_part(rest[1:])) if kind else None
    return _task(name, rest, words[0])


def _task(name: str, rest: list[str], program: str) -> tuple[Literal["tests", "lint"], bool] | None:
    """A task of the project: `npm test`, `make check`, `./gradlew test`, `./run_tests.sh`."""
    operands = [word for word in rest if not word.startswith("-") and "=" not in word]
    if name in _PACKAGE_MANAGERS:
        operands = operands[1:] if operands[:1] in (["run"], ["run-script"]) else operands
        if operands[:1] == ["t"]:
            operands[0] = "test"
        if operands[:1] == ["install"] or operands[:1] == ["ci"]:
            return None
    elif name in ("mvn", "mvnw", "gradle", "gradlew"):
        goal = next(
            (word for word in operands if word.rsplit(":")[-1] in ("test", "verify", "check", "build")), ""
        )
        return ("tests", "--tests" in rest or any(w.startswith("-Dtest=") for w in rest)) if goal else None
    elif name in ("bash", "sh"):
        return _script(operands[0]) if operands else None
    elif name not in _TASKS:
        return _script(program) if program.startswith("./") else None
    task = operands[0] if operands else ""
    if _TEST_TASK.fullmatch(task):
        return "tests", _is_part(operands[1:])
    return ("lint", False) if _LINT_TASK.fullmatch(task) else None


def _script(path: str) -> tuple[Literal["tests", "lint"], bool] | None:
    if _TEST_SCRIPT.fullmatch(path):
        return "tests", False
    return ("tests", True) if re.fullmatch(r"(?:.*/)?(?:test_\w+|\w+_test)\.\w+", path) else None


def _unwrapped(words: list[str]) -> list[str]:
    while words:
        name = words[0].rsplit("/", 1)[-1]
        if re.fullmatch(r"[A-Za-z_]\w*=.*", words[0], re.DOTALL) or name in _WRAPPERS:
            words = words[1:]
        elif name == "timeout":
            words = [word for word in words[1:] if not word.startswith("-")][1:]
        elif name in _RUNNERS and words[1:2] in (["run"], ["exec"]):
            words = words[2:]
            while words and words[0].startswith("-"):  # uv run --with x pytest
                words = (
                    words[2:] if words[0] in ("--with", "--python", "-p", "--extra", "--group") else words[1:]
                )
        else:
            return words
    return words


def _is_part(arguments: list[str]) -> bool:
    before = ""
    for word in arguments:
        if _NARROWING.fullmatch(word):
            return True
        if not word.startswith("-") and word not in _WHOLE and before not in _VALUED and "=" not in word:
            return True
        before = word
    return False
