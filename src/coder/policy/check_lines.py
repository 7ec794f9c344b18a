"""The checks of a shell line that ran, and how each ended.

Wider than what may run unasked: nothing is allowed because of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from coder.policy.check_programs import NAMES
from coder.policy.checks import find_check
from coder.policy.shell.tree import Line, SimpleCommand, read_line
from coder.policy.shell.words import ShellParseError
from coder.protocol.entries import CheckRun

_MAX_LINE = 4_000  # characters; a longer line is a script
_MAYBE = re.compile(r"test|python|node|np[mx]|yarn|bun|uv |poetry|pdm|pipenv|rye")
_REPLACING = frozenset({"exec", "alias", "trap"})  # what follows may not run, or not be what it is called
_PASSED = re.compile(
    r"(?m)^=* ?\d+ passed\b|^(?:OK)\b(?: \(.*\))?$|^ok\s+\S+|^test result: ok\.|^Tests:\s+(?:.*\b)?\d+ passed"
    r"|^\s*Tests\s+\d+ passed|BUILD SUCCESS|^All checks passed!|^Success: no issues found|^\s*\d+ passing\b"
    r"|^\d+ examples?, 0 failures|^# fail 0$|^100% tests passed"
)
_FAILED = re.compile(
    r"(?m)\b[1-9]\d* (?:failed|failing|errors?|failures?)\b|^FAILED\b|^FAIL\b|^--- FAIL|^test result: FAILED"
    r"|^ERRORS?\b|BUILD FAIL|^not ok |^Found \d+ errors?|^error(?:\[|:)|^Traceback "
)


def plain_line(line: str) -> Line | None:
    """The commands of a plain line that may have a check; None of one with more than lists, pipes and
    redirections."""
    if len(line) > _MAX_LINE or not (_MAYBE.search(line) or NAMES.intersection(re.findall(r"[\w.-]+", line))):
        return None  # the parser stays unloaded
    return _parsed(line)


def _parsed(line: str) -> Line | None:
    try:
        found = read_line(line.strip())
    except (ShellParseError, RecursionError, ValueError):
        return None
    return found if found.plain else None


def checks_in(line: str, exit_code: int, output: str, statuses: Sequence[int] = ()) -> list[CheckRun]:
    """The checks that the line ran, by the model, and how each ended; empty if that is ambiguous.
    `statuses`: of the commands of its last pipeline."""
    read = plain_line(line)
    commands = read.commands if read else []
    found = [(at, check) for at, command in enumerate(commands) if (check := find_check(command.words))]
    runs = []
    for at, check in found:
        if check.dry:
            continue
        after = [command.after for command in commands[at:-1]] + (["&"] if commands[-1].after == "&" else [])
        status = _status(commands, at, statuses)
        if status is None:
            certain = _is_reached(commands[:at])
            state = _state(after, exit_code, output, alone=len(found) == 1, certain=certain)
        else:
            state = "failed" if status else "passed"
        runs.append(CheckRun(commands[at].text, state, "model", check.kind, check.part))
    return runs


_MATCHING = frozenset({"grep", "egrep", "fgrep", "zgrep", "rg"})  # exit with 1 if nothing matches
_SIGPIPE = 141  # ends what a filter reads no further


def in_last_pipeline(line: str) -> list[str]:
    """The names of the commands in a line's last pipeline; empty if that is not plain."""
    if "|" not in line or len(line) > _MAX_LINE:
        return []
    # A subshell's status is known, but not which of its commands it comes from.
    parsed = _parsed(line)
    last = last_pipeline(parsed.commands) if parsed else ()
    names = ["" if command.scope else _name(command) for command in last]
    return names if len(names) > 1 and all(names) else []


def failing_parts(line: str, statuses: Sequence[int]) -> str:
    """How the commands of the last pipeline ended, in words; "" if none of them failed."""
    names = in_last_pipeline(line)
    ended = list(zip(names, statuses, strict=False))
    if len(names) != len(statuses) or all(_is_fine(*one) for one in ended):
        return ""
    (first, code), *rest = ended
    return ", ".join([f"{first} exited {code}", *(f"{name} {status}" for name, status in rest)])


def found_nothing(line: str, statuses: Sequence[int] = ()) -> bool:
    """Whether exit code 1 of this line says only that its last command, a search, found nothing."""
    parsed = _parsed(line) if re.search(r"grep|rg", line) and len(line) <= _MAX_LINE else None
    commands = parsed.commands if parsed else []
    if not commands or commands[-1].after or _name(commands[-1]) not in _MATCHING:
        return False
    last = last_pipeline(commands)
    before = commands[: len(commands) - len(last)]
    names = list(map(_name, last))
    return all(command.after != "&&" or _name(command) == "cd" for command in before) and (
        len(last) == 1 or (len(last) == len(statuses) and all(map(_is_fine, names, statuses)))
    )


def _is_fine(name: str, status: int) -> bool:
    return status in (0, _SIGPIPE) or (status == 1 and name in _MATCHING)


def _name(command: SimpleCommand) -> str:
    words = [word.text for word in command.words[:2]]
    return "grep" if words == ["git", "grep"] else words[0].rpartition("/")[2] if words else ""


def last_pipeline(commands: Sequence[SimpleCommand]) -> Sequence[SimpleCommand]:
    begin = len(commands) - 1
    while begin > 0 and commands[begin - 1].after in ("|", "|&"):
        begin -= 1
    return commands[begin:]


def _status(commands: Sequence[SimpleCommand], at: int, statuses: Sequence[int]) -> int | None:
    """The exit code of a command of the last pipeline, if each was reported."""
    begin = len(commands) - len(statuses)
    reported = len(statuses) > 1 and len(last_pipeline(commands)) == len(statuses)
    return statuses[at - begin] if reported and at >= begin else None


def _is_reached(before: Sequence[SimpleCommand]) -> bool:
    """Whether a line that succeeded has run what comes after these: `a || pytest` and `exit 0; pytest` need
    not have."""
    operators = ["", *(command.after for command in before)]
    for operator, command in zip(operators, before, strict=False):
        name, *arguments = [word.text for word in command.words] or [""]
        failing = operator == "||" if not arguments else arguments[0] != "0"
        if name in _REPLACING or (name in ("exit", "return") and not failing):
            return False
    return operators[-1] != "||"


def _state(
    after: list[str], exit_code: int, output: str, *, alone: bool, certain: bool
) -> Literal["passed", "failed", "unclear"]:
    """By the exit code if it is the check's own; else by its output, if nothing else printed."""
    if set(after) <= {"&&"} and exit_code == 0 and certain:
        return "passed"
    if not after and alone and exit_code != 0:
        return "failed"
    if _FAILED.search(output):
        return "failed"
    return "passed" if alone and _PASSED.search(output) else "unclear"
