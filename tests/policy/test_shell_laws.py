"""Laws of the shell verdict: wrapping never launders a risky command, and no text makes it fail."""

from __future__ import annotations

import random
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coder.policy.decide import decide
from coder.policy.shell.judge import judge

from .place import make_workspace

HERE = Path(__file__).parent

RISKY = st.sampled_from(
    ["rm -rf x", "mv a b", "chmod 777 x", "dd if=a of=b", "sudo ls", "git reset --hard", "git push -f",
     "kill 1", "/bin/rm x", "r\\m x", "shutdown now", "find . -delete", "mkfs.ext4 x", "truncate -s0 x"]
)  # fmt: skip


def _single(line: str) -> str:
    return "'" + line.replace("'", "'\\''") + "'"


def _double(line: str) -> str:
    for char in '\\"$`':
        line = line.replace(char, "\\" + char)
    return f'"{line}"'


# Each takes any line and gives a line that would run it.
WRAPPERS: list[Callable[[str], str]] = [
    lambda line: f"( {line} )",
    lambda line: "{ " + line + "; }",
    lambda line: f"ls; {line}",
    lambda line: f"ls && {line}",
    lambda line: f"false || {line}",
    lambda line: f"ls | {line}",
    lambda line: f"{line} | cat",
    lambda line: f"{line} &",
    lambda line: f"! {line}",
    lambda line: f"echo $({line})",
    lambda line: f'echo "$({line})"',
    lambda line: f"cat <({line})",
    lambda line: f"x=$({line})",
    lambda line: f"echo ${{x:-$({line})}}",
    lambda line: f"if true; then {line}; fi",
    lambda line: f"if {line}; then ls; fi",
    lambda line: f"for f in a b; do {line}; done",
    lambda line: f"while true; do {line}; done",
    lambda line: f"case x in x) {line};; esac",
    lambda line: "f() { " + line + "; }; f",
    lambda line: "ls() { " + line + "; }; ls",
    lambda line: f"sh -c {_single(line)}",
    lambda line: f"bash -c {_double(line)}",
    lambda line: f"eval {_single(line)}",
    lambda line: f"env A=1 sh -c {_single(line)}",
    lambda line: f"timeout 5 sh -c {_single(line)}",
    lambda line: f"nohup bash -lc {_single(line)}",
    lambda line: f"xargs -n1 sh -c {_single(line)}",
    lambda line: f"find . -exec sh -c {_single(line)} \\;",
    lambda line: f"trap {_single(line)} EXIT",
    lambda line: f"ssh host {_single(line)}",
    lambda line: f"cat <<EOF\n$({line})\nEOF",
    lambda line: f"sh <<'EOF'\n{line}\nEOF",
    lambda line: f"ls # quiet\n{line}",
    lambda line: f"cat <<'EOF'\nhello\nEOF\n{line}",
    lambda line: f"set -e\n\n{line}",
]


@pytest.mark.thorough
@settings(max_examples=400, deadline=None)
@given(RISKY, st.lists(st.sampled_from(WRAPPERS), max_size=4))
def test_wrapping_never_launders(line: str, wrappers: list[Callable[[str], str]]) -> None:
    for wrap in wrappers:
        line = wrap(line)
    verdict = judge(line, HERE)
    assert verdict.risks, line
    everything = {segment.name for segment in verdict.segments}
    for preset in ("balanced", "auto-edit", "yolo"):
        for mode in ("default", "auto-edit"):
            assert decide("bash", preset, mode, shell=verdict, allowlist=everything).decision == "ask"
    assert not verdict.read_only, line


DOERS = st.sampled_from(
    ["touch x", "make", "python x.py", "curl http://x", "git commit -m x", "tee f", "./ls"]
)


@pytest.mark.thorough
@settings(max_examples=200, deadline=None)
@given(DOERS, st.lists(st.sampled_from(WRAPPERS), max_size=4))
def test_wrapping_never_makes_read_only(line: str, wrappers: list[Callable[[str], str]]) -> None:
    for wrap in wrappers:
        line = wrap(line)
    assert not judge(line, HERE).read_only, line


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=80))
def test_never_raises_for_any_text(text: str) -> None:
    judge(text, HERE)


SHELL_TOKENS = st.sampled_from(
    [
        "evil", "echo", "cat", "ls", "true", "[", "]", "[[", "]]", "((", "))", "$((", "$(", "`", ")",
        "(", "{", "}", "'", '"', "\\", "\\\n", "\n", " ", " ", " ", ";", "&", "&&", "||", "|", ">", "<",
        ">=", "<<EOF\n", "\nEOF\n", "<<'EOF'\n", "<<<", "$x", "${x:-", "x=", "#", "!", "for x in ",
        "; do ", "; done", "if ", "; then ", "; fi", "f() ", "$'", "a[", "=", "-v", "-eq", "time ",
        "{a,b}", "EOF", ">/dev/null", "2>&1", "\r", "\u00a0", "\t"
    ]
)  # fmt: skip
TOKEN_LINES = st.lists(SHELL_TOKENS, min_size=1, max_size=14).map("".join)


@pytest.mark.thorough
@settings(max_examples=400, deadline=None)
@given(TOKEN_LINES)
def test_never_raises_for_shell_like_text(line: str) -> None:
    verdict = judge(line, HERE)
    assert verdict.parsed or verdict.risks


@pytest.mark.thorough
@pytest.mark.skipif(not shutil.which("bash"), reason="no bash on this machine")
def test_what_is_called_read_only_runs_nothing_else_in_bash(tmp_path: Path) -> None:
    """Mutated lines that count as read-only are given to a real bash: a strange command must not run."""
    seen, work, programs = tmp_path / "seen", tmp_path / "work", tmp_path / "bin"
    work.mkdir()
    programs.mkdir()
    (programs / "evil").write_text(f"#!/bin/sh\n: > {seen}\n", encoding="utf-8")
    (programs / "evil").chmod(0o755)
    for name in ("cat", "ls", "sh", "bash", "xargs", "env"):
        (programs / name).symlink_to(shutil.which(name) or f"/bin/{name}")
    (work / "f").write_text("evil\n", encoding="utf-8")
    (work / "a[$(evil)]").write_text("", encoding="utf-8")
    lines = [line for line in _mutated_lines(6000) if judge(line, work).read_only]
    assert len(lines) > 100
    environment = {"PATH": str(programs), "LC_ALL": "C.UTF-8"}
    for start in range(0, len(lines), 50):
        batch = lines[start : start + 50]
        # A subshell instead of a new bash: it reads the line alike, at a third of the cost.
        script = 'for line in "$@"; do (eval "$line") </dev/null >/dev/null 2>&1; done'
        subprocess.run(
            ["bash", "-c", script, "batch", *batch], cwd=work, env=environment, timeout=60, check=False
        )
        assert not seen.exists(), batch
        assert sorted(path.name for path in work.iterdir()) == ["a[$(evil)]", "f"], batch


def _mutated_lines(count: int) -> list[str]:
    chance = random.Random(7)
    tokens = [
        "evil", " ", "'", '"', "\\", "\n", ";", "|", "$x", "`", "$(", ")", ">", "<", "{", "}", "#", "&",
        "=", "$'", "[", "]", "EOF\n", "*", "!", "((", "))", "\\\n"
    ]  # fmt: skip
    seeds = [
        "echo 'a' \"b\" evil", "cat <<EOF\nevil\nEOF\necho evil", "cat <<'EOF'\n`evil`\nEOF\n",
        "[ evil = evil ]", "for x in evil b; do echo $x; done",
        "case evil in evil) echo evil;; *) ls;; esac", "echo evil # evil",
        "[[ evil == e* ]] && echo evil", 'echo "evil $x evil"', "echo $'evil\\x41' evil",
        "{ echo evil; } 2>&1", "(echo evil; ls)", "cat <f", "cat <<<evil", "sh -c 'echo evil'",
        "xargs -n1 echo evil <f", "echo ${x:-evil}", "while read -r x; do echo $x evil; done <f",
        "printf '%s\\n' evil", "env A=1 echo evil"
    ]  # fmt: skip
    lines = []
    for _ in range(count):
        text = list(chance.choice(seeds) + chance.choice(["", "\n", "; ", " | "]) + chance.choice(seeds))
        for _ in range(chance.randint(1, 3)):
            at = chance.randrange(len(text))
            if chance.random() < 0.6:
                text.insert(at, chance.choice(tokens))
            else:
                text.pop(at)
        lines.append("".join(text))
    return lines


def test_hostile_sizes_fail_closed() -> None:
    for line in (
        "(" * 5000,
        "$(" * 9000 + ")" * 9000,
        "a" * 70_000,
        "echo a; " * 5000,
        "a && " * 5000 + "b",
        "\0",
        "ls\0",
    ):
        verdict = judge(line, HERE)
        assert not verdict.parsed
        assert verdict.risks
        assert not verdict.read_only
    nested = "ls"
    for _ in range(9):
        nested = f"sh -c {_single(nested)}"
        if len(nested) > 60_000:
            break
    assert not judge(nested, HERE).read_only


def test_characters_that_crash_the_grammars_scanner() -> None:
    for line in ("{\U000eab86", "echo {\U000eab86", "cat <<\U0001f600\nx\n\U0001f600", "$\U000eab86"):
        assert not judge(line, HERE).read_only or line.startswith("echo")
    assert judge("echo 'héllo wörld' 漢字 \U0001f600", HERE).read_only
    assert judge("rm é", HERE).risks
    assert judge("é=1 rm x", HERE).risks
    assert judge("echo é; rm ü", HERE).risks


def test_a_program_of_the_workspace_is_not_the_systems(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model may have written it; a link to the system's own is the system's own."""
    root = make_workspace(tmp_path)
    directory = root / ".venv" / "bin"
    directory.mkdir(parents=True)
    monkeypatch.setenv("PATH", f"{directory}:/usr/bin:/bin")
    assert judge("pip list && cat README.md", root).read_only
    (directory / "pip").write_text("#!/bin/sh\nevil\n", encoding="utf-8")
    (directory / "pip").chmod(0o755)
    (directory / "cat").symlink_to("/bin/cat")
    assert not judge("pip list", root).read_only
    assert judge("cat README.md", root).read_only


def test_a_link_to_what_is_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = make_workspace(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "outside"))
    assert judge("cat README.md", root).read_only
    assert not judge("cat link", root).read_only
    assert not judge("ls outlink", root).read_only


@pytest.mark.parametrize(
    ("file", "line"),
    [(".npmrc", "npm ls"), (".npmrc", "npm --version"), ("go.mod", "go version"), ("go.work", "go version")],
)
def test_a_file_of_the_project_steers_the_program(file: str, line: str, tmp_path: Path) -> None:
    root = make_workspace(tmp_path)
    assert judge(line, root).read_only
    (root / file).write_text("x\n", encoding="utf-8")
    assert not judge(line, root).read_only
    assert not judge(f"cd src && {line}", root).read_only
    assert judge(line, root, confined=True).read_only  # the sandbox holds whatever it steers


def test_the_python_of_a_virtual_environment_is_a_link_into_the_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make_workspace(tmp_path)
    installed = tmp_path / ".pyenv" / "bin"
    installed.mkdir(parents=True)
    (installed / "python3.12").touch()
    (installed / "notes").touch()
    made = root / ".venv" / "bin"
    made.mkdir(parents=True)
    (made / "python").symlink_to("python3")
    (made / "python3").symlink_to(installed / "python3.12")
    (made / "notes").symlink_to(installed / "notes")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert judge(".venv/bin/python --version", root, confined=True).read_only
    for python in (".venv/bin/python", f"{root}/.venv/bin/python3", "timeout 60 .venv/bin/python"):
        assert judge(f"{python} -m pytest -q", root).is_check
    assert judge("cd src && ../.venv/bin/python -m pytest -q", root).is_check
    for line in ("cat .venv/bin/notes", f"cat {installed}/python3.12", "cat ../.pyenv/bin/python3.12"):
        assert not judge(line, root, confined=True).read_only


@pytest.mark.parametrize("wrapper", ["uv run", "poetry run"])
def test_code_of_another_language_is_read_as_no_shell_line(wrapper: str, tmp_path: Path) -> None:
    assert judge(f"{wrapper} python -c 'import a; print(a.b, (a.c))'", tmp_path).risks == []
    assert judge(f"{wrapper} sh -c 'rm y'", tmp_path).risks


def test_a_path_is_looked_up_where_the_command_certainly_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make_workspace(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for line in ("cat ../README.md", "grep -rn x ..", "ls .. && cat ../README.md"):
        assert judge(f"cd src && {line}", root).read_only
        assert not judge(f"cd src; {line}", root).read_only  # the `cd` may fail
    assert not judge("cd src && cat ../../outside/file", root).read_only
    assert not judge("cd src && grep -rn x ../..", root).read_only
