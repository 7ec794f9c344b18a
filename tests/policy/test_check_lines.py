"""Which shell lines are checks, and how those ended."""

from __future__ import annotations

import pytest

from coder.policy.check_lines import checks_in

WHOLE = [
    "pytest",
    "pytest -q",
    "python -m pytest -q 2>&1",
    ".venv/bin/python3 -m pytest tests/",
    "uv run pytest",
    "uv run --with x pytest -q",
    "cd backend && pytest -q",
    "python3 -m unittest -q",
    "python3 -m unittest discover -s tests",
    "CI=1 npm test",
    "npm run test:unit",
    "yarn test --silent",
    "go test ./...",
    "cargo test --workspace",
    "make check",
    "timeout 60 pytest -q",
    "./run_tests.sh",
    "bash test.sh",
    "./gradlew test",
    "mvn -q -B verify",
    "ruff check . && pytest -q",
    "pytest -q > out.txt 2>&1",
    "pytest -n 4",
    "cd backend || exit 1; pytest -q",
    "cd backend || exit; pytest -q",
    "test -d venv || make venv && pytest -q",
    "make -j4 -k test",
    "pytest -q;",
]
PART = [
    "pytest tests/test_a.py",
    "pytest -q tests/test_a.py::test_b",
    "pytest -k name",
    "python -m unittest tests.test_cache",
    "go test ./pkg/cache",
    "cargo test cache",
    "python3 tests/test_cache.py",
    "npx jest src/a.test.js",
]
NONE = [
    "ls tests",
    "cat test.py",
    "pytest --collect-only",
    "pytest --version",
    "grep -rn pytest .",
    "echo 'pytest -q'",
    "pip install pytest",
    "npm install",
    "git commit -m 'make test pass'",
    "cargo test --no-run",
    "test -f a.py",
    "make",
    "ruff format .",
    "ruff check --fix .",
    "python3 -c 'import pytest'",
    "cat <<EOF\npytest\nEOF",
    "echo $(pytest -q)",
    "'unclosed",
    "make -n test",
    "make -kn check",
    "ruff check --exit-zero .",
    "mvn -B -DskipTests verify",
    "tox -l",
]


@pytest.mark.parametrize("line", WHOLE)
def test_a_run_of_all_tests(line: str) -> None:
    run = checks_in(line, 0, "")[-1]
    assert (run.kind, run.part, run.state, run.by) == ("tests", False, "passed", "model")


@pytest.mark.parametrize("line", PART)
def test_a_run_of_some_tests(line: str) -> None:
    (run,) = checks_in(line, 1, "")
    assert (run.kind, run.part, run.state) == ("tests", True, "failed")


@pytest.mark.parametrize("line", NONE)
def test_what_is_no_check(line: str) -> None:
    assert checks_in(line, 0, "") == []


def test_linters_are_told_apart() -> None:
    runs = checks_in("ruff check . && mypy && pytest -q", 0, "")
    assert [(run.command, run.kind) for run in runs] == [
        ("ruff check .", "lint"),
        ("mypy", "lint"),
        ("pytest -q", "tests"),
    ]


@pytest.mark.parametrize(
    ("line", "exit_code", "output", "state"),
    [
        ("pytest -q 2>&1 | tail -3", 0, "..\n2 passed in 0.1s", "passed"),
        ("pytest -q 2>&1 | tail -3", 0, "1 failed, 2 passed in 0.1s", "failed"),
        ("pytest -q | tail -1", 0, "bye", "unclear"),
        ("pytest -q || true", 0, "E  x\n1 failed in 0.1s", "failed"),
        ("pytest -q; echo done", 0, "done", "unclear"),
        ("pytest -q && git add a.py", 1, "3 passed in 1s\nfatal: not a git repository", "passed"),
        ("pytest -q &", 0, "", "unclear"),
        ("pytest -q & sleep 9", 0, "2 passed in 0.1s", "passed"),
        ("true || pytest -q", 0, "", "unclear"),
        ("test -d dist || npm test", 0, "", "unclear"),
        ("test -f x || pytest -q && echo done", 0, "done", "unclear"),
        ("test -f x || pytest -q", 0, "2 passed in 0.1s", "passed"),
        ("true || pytest -q", 1, "", "failed"),
        ("exit 0; pytest -q", 0, "", "unclear"),
        ("make venv && exit; pytest -q", 0, "", "unclear"),
        ("exec true && pytest -q", 0, "", "unclear"),
        ("alias pytest=true\npytest -q", 0, "", "unclear"),
        ("python3 -m unittest 2>&1 | tail -3", 0, "Ran 3 tests in 0.0s\n\nOK", "passed"),
        ("go test ./... | cat", 0, "ok  \texample.com/a\t0.1s", "passed"),
        ("go test ./... | cat", 0, "--- FAIL: TestA\nFAIL", "failed"),
        ("cargo test 2>&1 | grep result", 0, "test result: ok. 3 passed; 0 failed", "passed"),
    ],
)
def test_how_it_ended_is_read_from_exit_code_or_output(
    line: str, exit_code: int, output: str, state: str
) -> None:
    (run,) = checks_in(line, exit_code, output)
    assert run.state == state
