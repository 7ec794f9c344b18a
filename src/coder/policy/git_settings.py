"""Which lines may change git's settings from inside the sandbox.

The settings of a repository are locked there, because they can name programs that git runs outside, one day.
But `git push -u`, `git remote add` and `git config user.email` are daily work: a line of nothing but such
calls, which starts no program that the model could have written, is let at them.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from coder.policy.flags import Flags, check_flags, is_long
from coder.policy.git_config import entries, is_tame, programs
from coder.policy.git_index import gitlinks
from coder.policy.git_rules import subcommand
from coder.policy.places import Places
from coder.policy.redirections import judge_redirect
from coder.policy.shell import judge
from coder.policy.shell_tree import Simple, read_line
from coder.policy.tables import names
from coder.policy.words import UNKNOWN, NotUnderstood, Word

_SETTING = frozenset(names("config remote branch"))
# These start the repository's hooks, and hooks start what the project holds.
_WITH_HOOKS = frozenset(names("add commit push pull fetch checkout switch tag merge"))
_CONTACTING = frozenset(names("push pull fetch"))
_RUNS = names(
    "--upload-pack --receive-pack --exec --edit --edit-description --strategy --repo --recurse-submodules"
)
# Of those that contact a remote: options that take no word after them.
_ALONE = frozenset(
    names(
        """
    -u -f -q -v -p -n -d -a -r -t -4 -6 --set-upstream --force --force-with-lease --quiet --verbose --prune
    --tags --all --rebase --no-rebase --ff --ff-only --no-ff --verify --no-verify --follow-tags --delete
    --dry-run --unshallow --no-tags --autostash --no-autostash --no-edit --squash --progress --no-progress
    --atomic --porcelain --stat --no-stat
    """
    )
)
# `git submodule add`, `init` and `update` note addresses in the settings; options that take no program.
_SUBMODULE = frozenset(
    names("--init --recursive --recommend-shallow --quiet -q --checkout --progress --remote --no-fetch -f")
)
_RUN_LETTERS = {"merge": "s", "pull": "s", "add": "e", "config": "e"}  # `-s x` starts `git-merge-x`
_REACHING = names("-f --fetch update show prune set-head")  # `git remote …` that contacts one
_OBEYING = _CONTACTING | {"merge"}
_BRINGING = frozenset(names("pull checkout switch merge"))
_BRANCH_NOW = ("$(git branch --show-current)", "$(git rev-parse --abbrev-ref HEAD)")
# An address on another machine. A folder on this one is a repository with hooks and settings of its own.
_ADDRESS = re.compile(r"(?:https?|ssh|git)://[^/].*|(?:[\w.-]+@)?[A-Za-z0-9][\w.-]+:(?!:)[^:]*")
_MOST_FOLDERS = 5000
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
        parsed = read_line(line)
        calls = [simple for simple in parsed.commands if _is_git(simple)]
        others = [simple for simple in parsed.commands if not _is_git(simple)]
        return (
            bool(calls)
            and not parsed.functions
            and not any(simple.trouble for simple in parsed.commands)
            and is_tame(root)
            and all(_plain(simple, root) for simple in calls)
            and _contacts_afar(root, calls)
            and all(_looks(simple, root) for simple in others)
            and not _own_hooks(root, calls)
            and not _takes_in_repositories(root, calls)
        )
    except (NotUnderstood, OSError, ValueError, LookupError, RecursionError):
        return False


def _is_git(simple: Simple) -> bool:
    return bool(simple.words) and simple.words[0].exact and simple.words[0].text == "git"


def _looks(simple: Simple, root: Path) -> bool:
    """Only looks, and where it was: in another folder the calls of git would mean another repository."""
    goes = bool(simple.words) and simple.words[0].text in ("cd", "pushd", "popd")
    return not goes and judge(simple.source, root).read_only


def _plain(simple: Simple, root: Path) -> bool:
    name, rest, before = subcommand(simple.words[1:])
    if simple.assigns or before:
        return False
    if any(judge_redirect(redirect, Places(root)).why for redirect in simple.redirects):
        return False
    if judge(simple.source, root).read_only:
        return True
    if name == "submodule":
        return _submodules(rest, root)
    if name not in _SETTING | _WITH_HOOKS or _runs(name, rest):
        return False
    if name == "config":
        return _harmless(rest)
    # A remote whose address names a helper program: `ext::sh -c …`.
    return name != "remote" or all(word.exact and "::" not in word.text for word in rest)


def _submodules(rest: list[Word], root: Path) -> bool:
    """Whether this call brings submodules in and starts nothing of theirs: those that are there already have
    neither hooks nor settings that name a program."""
    if not all(word.exact and "::" not in word.text for word in rest):
        return False
    given = [word.text for word in rest if word.text not in _SUBMODULE]
    if given[:1] not in (["add"], ["init"], ["update"]) or any(text.startswith("-") for text in given):
        return False
    if given[0] == "add" and (len(given) != 3 or os.path.lexists(root / given[2])):
        return False
    said = entries(_text(root / ".gitmodules"))
    own = entries(_text(root / ".git" / "config"))
    if any(key.endswith(".update") for key, _ in (*said, *own)) or any("::" in value for _, value in said):
        return False
    paths = {value for key, value in said if key.endswith(".path")} | set(gitlinks(root / ".git", 20))
    there = [root / path for path in paths if os.path.lexists(root / path / ".git")]
    # What lies within those that are there would be gone into as well.
    deeper = bool(there) and any(word.text == "--recursive" for word in rest)
    return (
        not deeper
        and not _modules_steered(root / ".git" / "modules")
        and all(_kept_apart(folder, root) for folder in there)
    )


def _kept_apart(folder: Path, root: Path) -> bool:
    """Whether a submodule's git folder is where git itself puts it."""
    mark, text = folder / ".git", ""
    if mark.is_file() and not mark.is_symlink():
        text = os.path.normpath(folder / _text(mark).removeprefix("gitdir:").strip())
    return text.startswith(f"{root}/.git/modules/") and os.path.realpath(text) == text


def _modules_steered(folder: Path) -> bool:
    """Whether a git folder below has hooks, names a program or leads elsewhere."""
    if folder.is_symlink():
        return True
    below = list(folder.iterdir()) if folder.is_dir() else []
    if any(path.name == "objects" for path in below):
        hooks = folder / "hooks"
        own = hooks.is_dir() and any(not path.name.endswith(".sample") for path in hooks.iterdir())
        led = os.path.lexists(folder / "commondir") or hooks.is_symlink()
        return own or led or bool(programs(_text(folder / "config"))) or _modules_steered(folder / "modules")
    return any(path.is_symlink() or (path.is_dir() and _modules_steered(path)) for path in below)


def _runs(name: str, rest: list[Word]) -> bool:
    """Options that name a program, or start an editor; git takes them abbreviated."""
    if name in _OBEYING and any(word.maybe_option() for word in rest if not _known(word)):
        return True
    flags = Flags(short=_RUN_LETTERS.get(name, ""))
    return any(is_long(word.text, _RUNS) or check_flags([word], flags) for word in rest if word.exact)


def _known(word: Word) -> bool:
    """Whether no option can come of it that is not seen."""
    return word.exact or word.shell_text.strip('"') in _BRANCH_NOW


def _names_afar(rest: list[Word]) -> bool:
    """Whether `git remote …` gives no remote an address on this machine."""
    words = [word.text for word in rest if not word.text.startswith("-")]
    adds = words[:1] in (["add"], ["set-url"])
    return not adds or all(_ADDRESS.fullmatch(text) for text in words[2:])


def _contacts_afar(root: Path, calls: list[Simple]) -> bool:
    """With an address, or a remote that is known by one: never with a folder on this machine."""
    named = [subcommand(simple.words[1:])[:2] for simple in calls]
    contacted = [rest for name, rest in named if name in _CONTACTING]
    remotes = [rest for name, rest in named if name == "remote"]
    if not contacted and not any(_REACHING.intersection(word.text for word in rest) for rest in remotes):
        return True
    if not all(_names_afar(rest) for rest in remotes):
        return False
    found = entries(_text(root / ".git" / "config"))
    if not all(
        _ADDRESS.fullmatch(value) if key.endswith((".url", ".pushurl")) else not key.startswith("url ")
        for key, value in found
    ):
        return False
    known = {key.removeprefix("remote ").rpartition(".")[0] for key, _ in found if key.startswith("remote ")}
    # What a call before it brings may be a folder by that name.
    settled = all(name not in _BRINGING for name, _ in named)
    for rest in contacted:
        first = _repository(rest)
        if not first.exact:
            return False
        if _ADDRESS.fullmatch(first.text) or first.text.lower() in known:
            continue
        places = [root / first.text, *(root / ".git" / kind / first.text for kind in ("remotes", "branches"))]
        plain = not any(char in first.text for char in "/:")
        if not (settled and plain) or any(os.path.lexists(place) for place in places):
            return False
    return not gitlinks(root / ".git", 20)  # they would be contacted with, by their own settings


def _repository(rest: list[Word]) -> Word:
    """The word that names what is contacted; git's own choice where there is none."""
    for word in rest:
        if not word.exact or not word.text.startswith("-"):
            return word
        if word.text not in _ALONE and "=" not in word.text:
            return UNKNOWN  # the word after it may be its value
    return Word("origin")


def _takes_in_repositories(root: Path, calls: list[Simple]) -> bool:
    """Whether a repository that lies in this one may be taken in (`git add`): the next call looks into it, by
    its settings, which are anybody's."""
    if all(subcommand(simple.words[1:])[0] not in _BRINGING | {"add"} for simple in calls):
        return False
    for count, (folder, names_, files) in enumerate(os.walk(root)):
        if folder == str(root):
            names_[:] = [name for name in names_ if name != ".git"]
        elif ".git" in names_ or ".git" in files or count > _MOST_FOLDERS:
            return True
    return False


def _harmless(rest: list[Word]) -> bool:
    """`git config KEY VALUE` of a key that only says how git itself behaves."""
    given = [word.text for word in rest if word.text not in ("set", "unset", "--local", "--unset")]
    if not all(word.exact for word in rest) or any(text.startswith("-") for text in given):
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
