"""Whether looking at a repository can start a program that the repository itself names.

A repository that came by `git clone` has a configuration of git's own making; one that was unpacked, or that
hides as a bare repository in a tracked folder, may name a program for `git status` to run.
"""

from __future__ import annotations

from pathlib import Path

_MOST_BYTES = 256 * 1024
_RUNNING_KEYS = frozenset(
    {"core.fsmonitor", "core.pager", "core.sshcommand", "core.gitproxy", "core.askpass", "diff.external",
     "gpg.program", "include.path", "interactive.difffilter"}
)  # fmt: skip
_RUNNING_SECTIONS = frozenset({"pager", "include", "includeif"})
_RUNNING_LAST_KEYS = frozenset(
    {"command", "textconv", "clean", "smudge", "process", "program", "uploadpack", "vcs"}
)


def is_tame(folder: Path) -> bool:
    """Whether git, run in `folder`, finds a repository that names no program to run (or none at all)."""
    try:
        return _tame(folder.resolve())
    except (OSError, ValueError, RuntimeError):
        return False


def _tame(folder: Path) -> bool:
    for place in (folder, *folder.parents):
        if (place / ".git").exists():
            return _git_folder_tame(_git_folder(place / ".git"))
        if (place / "HEAD").exists() and (place / "objects").exists():
            return False  # a bare repository where none is expected
    return True


def _git_folder(mark: Path) -> Path:
    if mark.is_dir():
        return mark
    text = mark.read_text(encoding="utf-8", errors="replace")
    pointed = text.removeprefix("gitdir:").strip()
    return (mark.parent / pointed).resolve()


def _git_folder_tame(git_folder: Path) -> bool:
    common = git_folder
    if (git_folder / "commondir").exists():
        pointed = (git_folder / "commondir").read_text(encoding="utf-8", errors="replace").strip()
        common = (git_folder / pointed).resolve()
    hooks = common / "hooks"
    for file in (common / "config", git_folder / "config.worktree"):
        if not file.exists():
            continue
        if file.stat().st_size > _MOST_BYTES:
            return False
        for key, value in _entries(file.read_text(encoding="utf-8", errors="replace")):
            if _runs(key, value):
                return False
            if key == "core.hookspath":
                hooks = common.parent / value
    # The one hook that looking can start: `git status` refreshes the index.
    return not (hooks / "post-index-change").exists()


def _entries(text: str) -> list[tuple[str, str]]:
    """Keys (lower case, section first) and values. Lines that continue are joined first."""
    section = ""
    found: list[tuple[str, str]] = []
    for raw in text.replace("\\\n", "").splitlines():
        line = raw.strip()
        while line.startswith("["):
            head, _, line = line[1:].partition("]")
            section = head.replace('"', " ").strip().lower()
            line = line.strip()
        if line and line[0] not in "#;":
            key, _, value = line.partition("=")
            found.append((f"{section}.{key.strip().lower()}", value.strip().strip('"')))
    return found


def _runs(key: str, value: str) -> bool:
    first = key.replace(".", " ").split()[0] if key.strip(". ") else ""
    last = key.rsplit(".", 1)[-1]
    if key == "core.fsmonitor":
        return value.lower() not in ("true", "false", "")
    if last in ("clean", "smudge", "process") and value.startswith("git-lfs "):
        return False
    if key.endswith(".url") and "::" in value:
        return True
    return key in _RUNNING_KEYS or first in _RUNNING_SECTIONS or last in _RUNNING_LAST_KEYS
