"""The environment in which git looks at a repository without believing it.

A repository's settings name programs for git to run: fsmonitor, hooks, pagers, filters, drivers of diffs. No
parser of ours decides whether it names any, since it would have to read every file as git does. Instead each
such setting is overridden by git's own means, in the environment of the lines that are known to be read-only.
Filters and drivers have names of the repository's choice: which there are, git itself is asked, in a way that
runs nothing. Where it does not answer, the line is not known to be read-only.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

from coder.policy.programs.tables import names
from coder.process.child import own_environment
from coder.process.executables import find_program

_SECONDS = 5.0
_MOST_REPOSITORIES = 100
_MOST_DRIVERS = 500
_GITLINK = b"160000 "
_NOWHERE = "/dev/null"  # as a program: it cannot be started

_VARIABLES = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_PAGER": "cat",
    "PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": _NOWHERE,
    "SSH_ASKPASS": _NOWHERE,
    "GIT_EDITOR": _NOWHERE,
    "GIT_SEQUENCE_EDITOR": _NOWHERE,
    "GIT_SSH_COMMAND": _NOWHERE,
    "GIT_ALLOW_PROTOCOL": "none",  # no transport at all, whatever the settings allow
    "GIT_NO_LAZY_FETCH": "1",
    # Not git's: what else looks around itself while it lists something.
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "npm_config_update_notifier": "false",
    "npm_config_logs_max": "0",
}
_DROPPED = names(
    """
    GIT_EXTERNAL_DIFF GIT_SSH GIT_PROXY_COMMAND GIT_CONFIG_PARAMETERS GIT_CONFIG_COUNT CDPATH DEBUGINFOD_URLS
    """
)
_SETTINGS = {
    "core.fsmonitor": "false",
    "core.hooksPath": _NOWHERE,
    "core.pager": "cat",
    "core.editor": _NOWHERE,
    "core.askPass": _NOWHERE,
    "core.sshCommand": _NOWHERE,
    "core.alternateRefsCommand": _NOWHERE,
    "credential.helper": "",
    "gpg.program": _NOWHERE,
    "gpg.openpgp.program": _NOWHERE,
    "gpg.x509.program": _NOWHERE,
    "gpg.ssh.program": _NOWHERE,
    "gpg.ssh.defaultKeyCommand": _NOWHERE,
    "interactive.diffFilter": "cat",
    "log.showSignature": "false",
    "log.diffMerges": "separate",  # `remerge` starts the drivers of merges
    "diff.autoRefreshIndex": "false",  # it writes the index
    "diff.submodule": "short",  # `diff` goes by the settings of that repository
    "status.submoduleSummary": "false",
    "submodule.recurse": "false",
    "fetch.recurseSubmodules": "false",
    "maintenance.auto": "false",
    "gc.auto": "0",
    "safe.bareRepository": "explicit",
    "protocol.allow": "never",
    **{f"protocol.{kind}.allow": "never" for kind in ("file", "git", "ssh", "http", "https", "ext")},
}
_DRIVERS = r"^(diff\.external|(diff|filter|merge)\..*\.(command|textconv|clean|smudge|process|driver))$"
# What git calls in place of a program for diffs, with its seven arguments.
_PLAIN_DIFF = 'f() {{ {diff} -u --label "a/$1" --label "b/$1" "$2" "$5"; true; }}; f'


def driver_names(folder: Path, workspace: Path, *, into: bool) -> frozenset[str] | None:
    """The settings by which the repository that git finds from `folder` names programs of its own choice; by
    `into`, those of the repositories within it too. None where that cannot be found out."""
    on_path, real_workspace = shutil.which("git"), os.path.realpath(workspace)
    if on_path is None or not folder.is_dir():
        return frozenset()  # then no line runs it there
    git = find_program("git", None, workspace)
    if git is None or not on_path.startswith("/") or _within(os.path.realpath(on_path), real_workspace):
        return None
    environment = read_only_environment(own_environment(), workspace)
    found: set[str] = set()
    waiting, seen = [os.path.realpath(folder)], set[str]()
    while waiting:
        place = waiting.pop()
        if place in seen:
            continue
        seen.add(place)
        told = _ask(git, place, environment, into)
        if told is None or len(seen) > _MOST_REPOSITORIES:
            return None
        found.update(told[0])
        waiting += told[1]
    return frozenset(found) if len(found) <= _MOST_DRIVERS else None


def read_only_environment(
    environment: Mapping[str, str], workspace: Path, drivers: Iterable[str] | None = ()
) -> dict[str, str]:
    """The environment for a line that is known to be read-only; `drivers` are those of its repositories, None
    where it looks at none and git's settings may be seen as they are."""
    kept = {name: value for name, value in environment.items() if not _is_dropped(name)}
    kept |= _VARIABLES
    kept["PATH"] = _trusted_path(environment.get("PATH", os.defpath), workspace)
    if drivers is None:
        return kept
    settings = [*_SETTINGS.items(), *(pair for name in sorted(drivers) for pair in _overridden(name))]
    kept["GIT_CONFIG_COUNT"] = str(len(settings))
    for number, (key, value) in enumerate(settings):
        kept[f"GIT_CONFIG_KEY_{number}"] = key
        kept[f"GIT_CONFIG_VALUE_{number}"] = value
    return kept


def _is_dropped(name: str) -> bool:
    return name in _DROPPED or name.startswith(("GIT_TRACE", "GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_"))


def _trusted_path(path: str, workspace: Path) -> str:
    """Without the folders in which the model may have written a program."""
    root = os.path.realpath(workspace)
    folders = [folder for folder in path.split(os.pathsep) if folder.startswith("/")]
    return os.pathsep.join(folder for folder in folders if not _within(os.path.realpath(folder), root))


def _overridden(name: str) -> list[tuple[str, str]]:
    """A harmless value for a setting that names a program; what depends on that program with it."""
    driver, _, kind = name.rpartition(".")
    if kind in ("clean", "smudge", "process"):
        return [(name, ""), (f"{driver}.required", "false")]
    if kind == "textconv":
        return [(name, _system("cat")), (f"{driver}.cachetextconv", "false")]
    if kind == "driver":
        return [(name, _NOWHERE)]
    return [(name, _PLAIN_DIFF.format(diff=_system("diff")))]


def _system(name: str) -> str:
    folders = [folder for folder in ("/bin", "/usr/bin") if os.access(f"{folder}/{name}", os.X_OK)]
    return f"{folders[0]}/{name}" if folders else name


def _ask(
    git: str, folder: str, environment: Mapping[str, str], into: bool
) -> tuple[list[str], list[str]] | None:
    """What git says of a repository: its drivers, and where the repositories within it are."""
    questions = [["config", "--null", "--name-only", "--get-regexp", _DRIVERS]]
    if into:
        questions.append(["ls-files", "--stage", "-z", "--full-name", "--", ":/"])
    answers = _answers([[git, *words] for words in questions], folder, environment)
    if answers is None or answers[0][0] not in (0, 1):
        return None
    drivers = [os.fsdecode(name) for name in answers[0][1].split(b"\0") if name]
    status, files = answers[1] if into else (0, b"")
    if status == 0 and _GITLINK not in files:
        return drivers, []
    tops = _answers([[git, "rev-parse", "--show-toplevel"]], folder, environment)
    if tops is None or (status != 0 and tops[0][0] == 0):
        return None
    if status != 0:  # no files are checked out here, so there is nothing to look into
        return drivers, []
    entries = [entry.partition(b"\t") for entry in files.split(b"\0") if entry.startswith(_GITLINK)]
    top = os.fsdecode(tops[0][1].removesuffix(b"\n"))
    within = [f"{top}/{os.fsdecode(path)}" for _, _, path in entries]
    return drivers, [os.path.realpath(path) for path in within if os.path.lexists(f"{path}/.git")]


def _answers(
    questions: list[list[str]], folder: str, environment: Mapping[str, str]
) -> list[tuple[int, bytes]] | None:
    """Status and output of each, run side by side."""
    with contextlib.ExitStack() as stack:
        asked = [stack.enter_context(_started(argv, folder, environment)) for argv in questions]
        try:
            said = [one.communicate(timeout=_SECONDS)[0] for one in asked]
        except subprocess.TimeoutExpired:
            for one in asked:
                one.kill()
            return None
    return [(one.returncode, output) for one, output in zip(asked, said, strict=True)]


def _started(argv: list[str], folder: str, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        argv,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
