"""Whether looking at a repository can start a program that the repository itself names.

A repository that came by `git clone` has a configuration of git's own making; one that was unpacked, or that
hides as a bare repository in a tracked folder, may name a program for `git status` to run.
"""

from __future__ import annotations

import re
from pathlib import Path

from coder.policy.git_index import gitlinks
from coder.tools.opening import read_whole

_MOST_BYTES = 256 * 1024
_RUNNING_KEYS = frozenset(
    {"core.fsmonitor", "core.pager", "core.sshcommand", "core.gitproxy", "core.askpass", "diff.external",
     "gpg.program", "include.path", "interactive.difffilter"}
)  # fmt: skip
_RUNNING_SECTIONS = frozenset({"pager", "include", "includeif"})
_RUNNING_LAST_KEYS = frozenset(
    {"command", "textconv", "clean", "smudge", "process", "program", "uploadpack", "receivepack", "vcs"}
)
# Looking starts a program by these values; `whatchanged` gives way to an alias from git 2.52 on.
_RUNNING_VALUES = {"log.diffmerges": ("remerge", "r"), "diff.submodule": ("diff",)}
_SHADOWING = frozenset({"alias.whatchanged", "log.showsignature"})
# What a partial clone runs to fetch, while one only looks at it, an object that it lacks.
_FETCHING = frozenset({"core.alternaterefscommand"})
# Beyond looking: what some other call of git runs, or where it takes its programs from.
_LATER_KEYS = frozenset(
    {"core.hookspath", "core.editor", "core.alternaterefscommand", "core.attributesfile", "sequence.editor",
     "init.templatedir", "protocol.allow", "protocol.ext.allow", "pull.octopus", "pull.twohead",
     "imap.tunnel", "sendemail.smtpserver", "web.browser", "instaweb.httpd", "uploadpack.packobjectshook"}
)  # fmt: skip
_LATER_LAST_KEYS = frozenset({"driver", "cmd", "helper", "defaultkeycommand", "tocmd", "cccmd", "headercmd"})
_TOOL_SECTIONS = frozenset({"difftool", "mergetool", "guitool", "man", "browser"})
_LFS = re.compile(r"git-lfs (?:(?:clean|smudge)(?: --skip)? -- %f|filter-process(?: --skip)?)")
_MOST_NESTED = 8
_HEAD = re.compile(r"(?:ref:\s*refs/\S+|[0-9a-f]{40}|[0-9a-f]{64})\n?")
_HASH_BYTES = {"sha1": 20, "sha256": 32}
# All that git itself writes. Other spellings (a line that goes on, a mark at the beginning) are not followed:
# whoever reads them otherwise than git does not see what it sees.
_SECTION = re.compile(r'\[[ \t]*([A-Za-z0-9.-]+)(?:[ \t]+"((?:[^"\\]|\\.)*)")?[ \t]*\][ \t]*')
_ENTRY = re.compile(r"([A-Za-z][A-Za-z0-9-]*)[ \t]*(?:=[ \t]*(.*))?")


def is_tame(folder: Path) -> bool:
    """Whether git, run in `folder`, finds a repository that names no program to run (or none at all)."""
    try:
        return _tame(folder.resolve())
    except (OSError, ValueError, LookupError, RuntimeError):
        return False


def _tame(folder: Path) -> bool:
    for place in (folder, *folder.parents):
        if (place / ".git").exists():
            git_folder = _git_folder(place / ".git")
            if not _git_folder_tame(git_folder, place):
                return False
            if _is_repository(git_folder):
                return True
            # No repository to git, which looks further up.
        if (place / "HEAD").exists() or (place / "HEAD").is_symlink():
            return False  # a bare repository where none is expected
    return True


def _is_repository(git_folder: Path) -> bool:
    """Whether git surely goes no further up; what only looks like a repository is passed by."""
    common = _common(git_folder)
    head = git_folder / "HEAD"
    return (
        (common / "objects").is_dir()
        and (common / "refs").is_dir()
        and head.is_file()
        and _HEAD.fullmatch(_text(head)) is not None
    )


def _common(git_folder: Path) -> Path:
    """Where a worktree's git folder has what it shares with the others."""
    if not (git_folder / "commondir").exists():
        return git_folder
    return (git_folder / _text(git_folder / "commondir").strip()).resolve()


def _git_folder(mark: Path) -> Path:
    if mark.is_dir():
        return mark
    pointed = _text(mark).removeprefix("gitdir:").strip()
    return (mark.parent / pointed).resolve()


def _text(file: Path) -> str:
    """Of a regular file: whoever is to be stopped here may as well have made a pipe that nobody writes to."""
    text = read_whole(file, _MOST_BYTES).decode("utf-8", errors="replace")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _git_folder_tame(git_folder: Path, top: Path, nested: int = 0) -> bool:
    common = _common(git_folder)
    hooks, tops = [common / "hooks"], [top]
    hash_bytes = 20
    partial = fetches = False
    for file in (common / "config", git_folder / "config.worktree"):
        if not file.exists():
            continue
        for key, value in entries(_text(file)):
            if _runs(key, value) or _looking_runs(key, value):
                return False
            if key == "core.worktree":
                tops.append((git_folder / plain_value(value)).resolve())
            partial = partial or key == "extensions.partialclone" or key.endswith(".promisor")
            fetches = fetches or key in _FETCHING or key.endswith(".helper")
            if key == "core.hookspath":
                hooks += [top / plain_value(value), Path(plain_value(value)).expanduser()]
            if key == "extensions.objectformat":
                hash_bytes = _HASH_BYTES[value]
    # The one hook that looking can start: `git status` refreshes the index.
    if (partial and fetches) or any((folder / "post-index-change").exists() for folder in hooks):
        return False
    return all(_nested_tame(git_folder, place, hash_bytes, nested) for place in tops)


def _nested_tame(git_folder: Path, top: Path, hash_bytes: int, nested: int) -> bool:
    """Looking at a repository looks into those that it holds, by their settings."""
    if nested > _MOST_NESTED:
        return False
    inner = [(top / path).resolve() for path in gitlinks(git_folder, hash_bytes)]
    return all(
        _git_folder_tame(_git_folder(folder / ".git"), folder, nested + 1)
        for folder in inner
        if (folder / ".git").exists()
    )


def entries(text: str) -> list[tuple[str, str]]:
    """Keys (lower case, section first) and values. Raises ValueError for what git itself never writes."""
    section = ""
    found: list[tuple[str, str]] = []
    for raw in text.split("\n"):
        line = raw.strip(" \t\r")
        while line.startswith("["):
            header = _SECTION.match(line)
            if header is None:
                raise ValueError("a section that is not understood")
            section = " ".join(part for part in header.groups() if part).lower()
            line = line[header.end() :]
        if not line or line[0] in "#;":
            continue
        entry = _ENTRY.fullmatch(line)
        if entry is None or line.endswith("\\"):
            raise ValueError("a line that is not understood")
        found.append((f"{section}.{entry[1].lower()}", (entry[2] or "").strip().strip('"')))
    return found


def plain_value(value: str) -> str:
    """A value as it stands there; ValueError where git would read quotes, escapes or a comment out of it."""
    if any(char in value for char in '"\\#;'):
        raise ValueError("a value that is not plain")
    return value


def programs(text: str) -> set[tuple[str, str]]:
    """The settings of a file that name a program, or where programs are found, for any call of git to run.
    ValueError where it is not understood."""
    return {(key, value) for key, value in entries(text) if _runs(key, value) or _runs_later(key, value)}


def _runs_later(key: str, value: str) -> bool:
    first = key.replace(".", " ").split()[0] if key.strip(". ") else ""
    last = key.rsplit(".", 1)[-1]
    if first == "alias" or (first == "submodule" and last == "update"):
        return value.startswith("!")
    return key in _LATER_KEYS or last in _LATER_LAST_KEYS or (first in _TOOL_SECTIONS and last == "path")


def _looking_runs(key: str, value: str) -> bool:
    """Settings by which merely looking starts a program that another setting, or nobody, names."""
    return key in _SHADOWING or value.lower() in _RUNNING_VALUES.get(key, ())


def _runs(key: str, value: str) -> bool:
    first = key.replace(".", " ").split()[0] if key.strip(". ") else ""
    last = key.rsplit(".", 1)[-1]
    if key == "core.fsmonitor":
        return value.lower() not in ("true", "false", "")
    if last in ("clean", "smudge", "process") and _LFS.fullmatch(value):
        return False
    # `ext::sh -c …` as an address, or as what an address is rewritten to.
    if "::" in key or (last in ("url", "pushurl") and "::" in value.replace('"', "")):
        return True
    return key in _RUNNING_KEYS or first in _RUNNING_SECTIONS or last in _RUNNING_LAST_KEYS
