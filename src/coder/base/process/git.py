"""An environment in which git reads an untrusted repository without running what it configures.

A repository's settings name programs: fsmonitor, hooks, pagers, filters, diff drivers. Parsing those settings
ourselves would have to match git exactly, so each is overridden through git's own environment variables for
lines known to be read-only. Filters and drivers have arbitrary names: git itself is asked for them, in a way
that runs nothing. If it does not answer, the line is not read-only.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path

from coder.base.process.programs import (
    DEVNULL,
    PIPE,
    Runs,
    TimeoutExpired,
    find_program,
    outside_workspaces,
    own_environment,
    start,
)

_SECONDS = 5.0
_MOST_REPOSITORIES = 100
_MOST_DRIVERS = 500
_GITLINK = b"160000 "
_NOWHERE = "/dev/null"  # as a program, it cannot be executed

_VARIABLES = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_PAGER": "cat",
    "PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_EDITOR": _NOWHERE,
    "GIT_SEQUENCE_EDITOR": _NOWHERE,
    "GIT_NO_LAZY_FETCH": "1",
    # Not git: update checks of other programs.
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "npm_config_update_notifier": "false",
    "npm_config_logs_max": "0",
}
_OFFLINE_VARIABLES = {
    "GIT_ASKPASS": _NOWHERE,
    "SSH_ASKPASS": _NOWHERE,
    "GIT_SSH_COMMAND": _NOWHERE,
    "GIT_ALLOW_PROTOCOL": "none",  # no transport, whatever the settings
}
_DROPPED = (
    *("GIT_EXTERNAL_DIFF", "GIT_SSH", "GIT_PROXY_COMMAND", "GIT_CONFIG_PARAMETERS", "GIT_CONFIG_COUNT"),
    *("CDPATH", "DEBUGINFOD_URLS"),
)
_DROPPED_PREFIXES = ("GIT_TRACE", "GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_")
_SETTINGS = {
    "core.fsmonitor": "false",
    "core.hooksPath": _NOWHERE,
    "core.pager": "cat",
    "core.editor": _NOWHERE,
    "core.alternateRefsCommand": _NOWHERE,
    "gpg.program": _NOWHERE,
    "gpg.openpgp.program": _NOWHERE,
    "gpg.x509.program": _NOWHERE,
    "gpg.ssh.program": _NOWHERE,
    "gpg.ssh.defaultKeyCommand": _NOWHERE,
    "interactive.diffFilter": "cat",
    "log.showSignature": "false",
    "log.diffMerges": "separate",  # `remerge` starts merge drivers
    "diff.autoRefreshIndex": "false",  # writes the index
    "diff.submodule": "short",  # `diff` uses that repository's settings
    "status.submoduleSummary": "false",
    "submodule.recurse": "false",
    "fetch.recurseSubmodules": "false",
    "maintenance.auto": "false",
    "gc.auto": "0",
}
_OFFLINE_SETTINGS = {
    "core.askPass": _NOWHERE,
    "core.sshCommand": _NOWHERE,
    "credential.helper": "",
    "safe.bareRepository": "explicit",
    "protocol.allow": "never",
    **{f"protocol.{kind}.allow": "never" for kind in ("file", "git", "ssh", "http", "https", "ext")},
}
# Bytes: to git's own regular expressions a name that is not valid in the locale matches nothing.
_DRIVERS = re.compile(
    rb"diff\.external|(?:diff|filter|merge)\..*\.(?:command|textconv|clean|smudge|process|driver)", re.DOTALL
)
# Replaces an external diff program; git passes it seven arguments.
_PLAIN_DIFF = 'f() {{ {diff} -u --label "a/$1" --label "b/$1" "$2" "$5"; true; }}; f'


def git_line(
    words: Iterable[str],
    environment: Mapping[str, str],
    *workspaces: Path,
    drivers: Iterable[str] = (),
    remote: bool = False,
) -> tuple[list[str], dict[str, str]] | None:
    """Argument vector and hardened environment of our own git call; None without a trusted git. `drivers`
    are disabled. `remote`: remotes may be reached with the person's credentials."""
    program = find_program("git", environment.get("PATH"), *workspaces)
    if program is None:
        return None
    kept = _kept(own_environment(environment), *workspaces)
    if not remote:
        return [program, *words], _offline(kept, drivers)
    kept |= {name: environment[name] for name in ("GIT_SSH_COMMAND", "GIT_SSH") if name in environment}
    return [program, *words], kept | _VARIABLES | _configured([*_SETTINGS.items()])


def driver_names(directory: Path, workspace: Path, *, into: bool) -> frozenset[str] | None:
    """Settings of the repository (`into`: nested ones too) that name programs; None if unknown."""
    on_path = shutil.which("git")
    if on_path is None or not directory.is_dir():
        return frozenset()  # no line can run it there
    git = find_program("git", None, workspace)
    if git is None or not outside_workspaces(on_path, workspace):
        return None
    if not _obeys(git):
        return None
    environment = read_only_environment(own_environment(), workspace)
    found: set[str] = set()
    waiting, seen = [os.path.realpath(directory)], set[str]()
    while waiting:
        place = waiting.pop()
        if place in seen:
            continue
        seen.add(place)
        answer = _ask(git, place, environment, into)
        if answer is None or len(seen) > _MOST_REPOSITORIES:
            return None
        found.update(answer[0])
        waiting += answer[1]
    return frozenset(found) if len(found) <= _MOST_DRIVERS else None


def read_only_environment(
    environment: Mapping[str, str],
    workspace: Path,
    drivers: Iterable[str] | None = (),
    *,
    confined: bool = False,
) -> dict[str, str]:
    """Environment for a read-only line. `drivers`: None if no repository is read. `confined`: sandboxed."""
    kept = _kept(environment, workspace)
    if confined and "PATH" in environment:
        kept["PATH"] = environment["PATH"]
    return _offline(kept, drivers)


def _offline(kept: dict[str, str], drivers: Iterable[str] | None) -> dict[str, str]:
    kept = kept | _VARIABLES | _OFFLINE_VARIABLES
    if drivers is None:
        return kept
    overridden = (pair for name in sorted(drivers) for pair in _overridden(name))
    return kept | _configured([*_SETTINGS.items(), *_OFFLINE_SETTINGS.items(), *overridden])


def _kept(environment: Mapping[str, str], *workspaces: Path) -> dict[str, str]:
    kept = {
        name: value
        for name, value in environment.items()
        if name not in _DROPPED and not name.startswith(_DROPPED_PREFIXES)
    }
    kept["PATH"] = outside_workspaces(environment.get("PATH", os.defpath), *workspaces)
    return kept


def _configured(settings: list[tuple[str, str]]) -> dict[str, str]:
    """Settings as variables, which win over every file."""
    variables = {"GIT_CONFIG_COUNT": str(len(settings))}
    for number, (key, value) in enumerate(settings):
        variables |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return variables


def _overridden(name: str) -> list[tuple[str, str]]:
    """Harmless values for a setting that names a program, and for settings that depend on it."""
    driver, _, kind = name.rpartition(".")
    if kind in ("clean", "smudge", "process"):
        return [(name, ""), (f"{driver}.required", "false")]
    if kind == "textconv":
        return [(name, _system("cat")), (f"{driver}.cachetextconv", "false")]
    if kind == "driver":
        return [(name, _NOWHERE)]
    return [(name, _PLAIN_DIFF.format(diff=_system("diff")))]


def _system(name: str) -> str:
    directories = [
        directory for directory in ("/bin", "/usr/bin") if os.access(f"{directory}/{name}", os.X_OK)
    ]
    return f"{directories[0]}/{name}" if directories else name


@lru_cache(maxsize=4)
def _obeys(git: str) -> bool:
    """Whether this git takes settings from the environment: those before 2.31 do not."""
    asked = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "coder.asks", "GIT_CONFIG_VALUE_0": "yes"}
    answers = _answers([[git, "config", "coder.asks"]], "/", {**own_environment(), **asked})
    return answers is not None and answers[0][1] == b"yes\n"


def _ask(
    git: str, directory: str, environment: Mapping[str, str], into: bool
) -> tuple[list[str], list[str]] | None:
    """A repository's drivers, and its nested repositories, according to git."""
    questions = [["config", "--null", "--list"]]
    if into:
        questions.append(["ls-files", "--stage", "-z", "--full-name", "--", ":/"])
    answers = _answers([[git, *words] for words in questions], directory, environment)
    if answers is None or answers[0][0] != 0:
        return None
    settings = {entry.partition(b"\n")[0] for entry in answers[0][1].split(b"\0")}
    drivers = [os.fsdecode(name) for name in settings if _DRIVERS.fullmatch(name)]
    status, files = answers[1] if into else (0, b"")
    if status == 0 and _GITLINK not in files:
        return drivers, []
    tops = _answers([[git, "rev-parse", "--show-toplevel"]], directory, environment)
    if tops is None or (status != 0 and tops[0][0] == 0):
        return None
    if status != 0:  # no work tree here
        return drivers, []
    entries = [entry.partition(b"\t") for entry in files.split(b"\0") if entry.startswith(_GITLINK)]
    top = os.fsdecode(tops[0][1].removesuffix(b"\n"))
    within = [f"{top}/{os.fsdecode(path)}" for _, _, path in entries]
    return drivers, [os.path.realpath(path) for path in within if os.path.lexists(f"{path}/.git")]


def _answers(
    questions: list[list[str]], directory: str, environment: Mapping[str, str]
) -> list[tuple[int, bytes]] | None:
    """Exit status and output of each, run concurrently."""
    with contextlib.ExitStack() as stack:
        pipes = {"cwd": directory, "stdin": DEVNULL, "stdout": PIPE, "stderr": DEVNULL}
        processes = [
            stack.enter_context(start(argv, runs=Runs.HARDENED, environment=environment, **pipes))
            for argv in questions
        ]
        try:
            outputs = [one.communicate(timeout=_SECONDS)[0] for one in processes]
        except TimeoutExpired:
            for one in processes:
                one.kill()
            return None
    return [(one.returncode, output) for one, output in zip(processes, outputs, strict=True)]
