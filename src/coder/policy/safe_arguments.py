"""Arguments that cannot make a command run other code, so that `always` may cover them (an allowlist).

What is not listed costs one more prompt, never a program that nobody approved."""

from __future__ import annotations

import re
from collections.abc import Callable

from coder.policy.programs import names
from coder.policy.shell.words import Word

# No argument of these runs a program, or `wrappers` and `git_rules` know those that do.
PLAIN = names(
    """
    touch mkdir cp tee mkfifo mktemp csplit split gzip gunzip bzip2 bunzip2 xz unxz zstd unzstd zip
    gtar bsdtar rsync install cpio dos2unix unix2dos git
    """
)
# Options of verbosity and scope.
_ANYWHERE = names(
    """
    -q -v -vv -vvv -y --quiet --verbose --silent --color --colour --no-color --help --version --dry-run
    --release --all --workspace --offline --locked --frozen --json --ci --limit --no-progress --yes --fix
    --check --write --diff --stat --watch --no-watch --watchAll --coverage
    """
)
# The same per program: whole words, and letters that may be clustered (`-xvs`) or precede a number.
_WORDS: dict[str, frozenset[str]] = {
    "pytest": names("--tb --maxfail --lf --ff --last-failed --failed-first --durations --no-header"
                    " --exitfirst --collect-only --co --cov --no-cov -k -m -n"),
    "unittest": names("-k"),
    "ruff": names("--select --ignore --output-format"),
    "mypy": names("--strict --no-error-summary --pretty"),
    "eslint": names("--ext --max-warnings"),
    "tsc": names("--noEmit"),
    **dict.fromkeys(("jest", "vitest"), names("--runInBand -t --testNamePattern --run")),
    "cargo": names("--lib --tests --all-targets --all-features --features --no-default-features"
                   " --message-format --no-fail-fast"),
    "go": names("-race -count -run -short -cover -bench -timeout"),
    **dict.fromkeys(("make", "gmake"), names("--jobs --keep-going --no-print-directory --always-make")),
    "mvn": names("-B -ntp -DskipTests -o -U"),
    "gradle": names("--info --stacktrace --no-daemon --console"),
}  # fmt: skip
_LETTERS = {"pytest": "xslrqv", "unittest": "fcbqv", "make": "jksBniwO", "gmake": "jksBniwO",
            "ninja": "jkv"}  # fmt: skip
# Subcommands whose operands select a part of the workspace.
_NARROWED: dict[str, frozenset[str]] = {
    "go": names("test build vet fmt list"),
    "cargo": names("test build check clippy fmt bench doc"),
    "dotnet": names("test build"),
}
# Their operands name what is built or run.
_BY_OPERAND = names("cmake ninja scons waf ctest nox tox")


def harmless(word: Word, program: str, subcommand: str, family: bool, inside: Callable[[str], bool]) -> bool:
    """Whether the argument `word` of `program` runs no other code. `family`: operands are tasks, plans,
    charts and the like unless the subcommand is known."""
    if word.maybe_option():
        return word.exact and _is_harmless_option(word.text, program)
    if program in _BY_OPERAND or (family and subcommand not in _NARROWED.get(program, ())):
        return False
    return "://" not in word.text and inside(word.text)


def _is_harmless_option(text: str, program: str) -> bool:
    if text.split("=", 1)[0] in _ANYWHERE | _WORDS.get(program, frozenset()):
        return True
    letters = _LETTERS.get(program, "")
    return bool(letters) and re.fullmatch(rf"-[{letters}]+\d*", text) is not None
