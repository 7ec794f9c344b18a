"""Which lines may change git's settings from inside the sandbox.

The settings of a repository are locked there, because they can name programs that git runs outside, one day.
But `git push -u`, `git remote add` and `git config user.email` are daily work: a line of nothing but such
calls, which starts no program that the model could have written, is let at them.
"""

from __future__ import annotations

from pathlib import Path

from coder.policy.git_config import entries, is_tame
from coder.policy.git_rules import subcommand
from coder.policy.places import Places
from coder.policy.redirections import judge_redirect
from coder.policy.shell import judge
from coder.policy.shell_tree import Simple, read_line
from coder.policy.tables import names
from coder.policy.words import NotUnderstood, Word

_SETTING = frozenset(names("config remote branch"))
# These start the repository's hooks, and hooks start what the project holds.
_WITH_HOOKS = frozenset(names("add commit push pull fetch checkout switch tag merge"))
_RUNS = ("--upload-pack", "--receive-pack", "--exec", "--edit", "-e")
_ELSEWHERE = ("-f", "--file", "--global", "--system", "--worktree", "--blob")
_HARMLESS_KEYS = frozenset(
    names(
        """
    user.name user.email init.defaultbranch pull.rebase pull.ff push.default push.autosetupremote
    core.autocrlf core.eol core.filemode core.ignorecase core.quotepath core.safecrlf fetch.prune
    merge.conflictstyle rebase.autosquash rebase.autostash commit.gpgsign tag.gpgsign rerere.enabled
    """
    )
)


def may_change_settings(line: str, root: Path) -> bool:
    """Never raises; what is not understood may not."""
    if "git" not in line:
        return False
    try:
        commands = read_line(line).commands
        calls = [simple for simple in commands if _is_git(simple)]
        others = [simple for simple in commands if not _is_git(simple)]
        return (
            bool(calls)
            and all(_plain(simple, root) for simple in calls)
            and all(judge(simple.source, root).read_only for simple in others)
            and is_tame(root)
            and not _own_hooks(root, calls)
        )
    except (NotUnderstood, OSError, ValueError, RecursionError):
        return False


def _is_git(simple: Simple) -> bool:
    return bool(simple.words) and simple.words[0].exact and simple.words[0].text == "git"


def _plain(simple: Simple, root: Path) -> bool:
    name, rest, before = subcommand(simple.words[1:])
    if simple.assigns or simple.trouble or before:
        return False
    if any(judge_redirect(redirect, Places(root)).why for redirect in simple.redirects):
        return False
    if judge(simple.source, root).read_only:
        return True
    if name not in _SETTING | _WITH_HOOKS or any(word.text.startswith(_RUNS) for word in rest):
        return False
    if name == "config":
        return _harmless(rest)
    # A remote whose address names a helper program: `ext::sh -c …`.
    return name != "remote" or all(word.exact and "::" not in word.text for word in rest)


def _harmless(rest: list[Word]) -> bool:
    """`git config KEY VALUE` of a key that only says how git itself behaves."""
    given = [word.text for word in rest if word.text not in ("set", "unset", "--local", "--unset")]
    if not all(word.exact for word in rest) or any(text.startswith(_ELSEWHERE) for text in given):
        return False
    return 1 <= len(given) <= 2 and given[0].lower() in _HARMLESS_KEYS


def _own_hooks(root: Path, calls: list[Simple]) -> bool:
    """Whether one of the calls would start a hook."""
    if all(subcommand(simple.words[1:])[0] not in _WITH_HOOKS for simple in calls):
        return False
    git = root / ".git"
    if any(key == "core.hookspath" for key, _ in entries(_text(git / "config"))):
        return True
    hooks = git / "hooks"
    return hooks.is_dir() and any(not path.name.endswith(".sample") for path in hooks.iterdir())


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
