"""git: which calls are read-only, which destroy, which run programs.

git runs programs named by a repository's own configuration (fsmonitor, external diff, filters). A read-only
call is so only in an environment that disables them (`process/git.py`)."""

from __future__ import annotations

import re
from collections.abc import Callable

from coder.policy.programs import names
from coder.policy.programs.flags import Flags, check_flags, is_long
from coder.policy.shell.directories import WorkingDirectories
from coder.policy.shell.words import Word
from coder.texts import Text

# Options of the diff and log family that write a file or start a program. `-O` in grep opens a pager,
# `--help` the viewer that the repository's settings name.
_DIFF = Flags(
    short="",
    long=("--output", "--ext-diff", "--textconv", "--show-signature", "--open-files-in-pager", "--filters",
          "--ext-grep", "--paginate", "--contents", "--exec", "--upload-pack", "--remerge-diff",
          "--help"),
    texts=("%G",),
)  # fmt: skip
_SIGNATURES = re.compile(r"%[-+ ]?G|%\(\*?signature")  # start gpg
_DESCRIBE = Flags(long=(*_DIFF.long, "--dirty", "--broken"))  # write the index
_GREP = Flags(short="O", long=_DIFF.long)
_READ_ONLY: dict[str, Flags] = dict.fromkeys(
    names(
        """
    status log diff show blame annotate shortlog rev-parse rev-list ls-files ls-tree cat-file describe
    name-rev merge-base for-each-ref show-ref diff-tree diff-index diff-files range-diff
    cherry count-objects check-ignore check-attr version
    """
    ),
    _DIFF,
) | {"grep": _GREP, "describe": _DESCRIBE}
# Subcommands with a subcommand of their own, of which these are read-only.
_SECOND_WORDS = {
    "stash": ("list", "show"),
    "worktree": ("list",),
    "reflog": ("show",),
    "bisect": ("log",),
    "notes": ("list", "show"),
    "submodule": ("status",),
}
_RECURSES = frozenset(names("status diff diff-index diff-files ls-files submodule"))
# These start no program whatever the settings, and may show the real ones.
_SETTINGS_UNCHANGED = frozenset({"version", "config", "remote"})

_GLOBAL_PLAIN = frozenset(
    {"--no-pager", "-P", "--no-optional-locks", "--literal-pathspecs", "--no-replace-objects"}
)
_BRANCH_FLAGS = names(
    "-a -r -v -vv -av -avv -rv --all --remotes --list -l --show-current --no-color --color --verbose"
)
_TAG_FLAGS = frozenset({"-l", "--list", "-n", "--no-color"})
_REF_VALUES = ("--contains", "--no-contains", "--merged", "--no-merged", "--points-at")
_REF_FORMS = ("--sort=", "--format=", "--contains=", "--merged=", "--no-merged=", "--points-at=", "--color=")
_CONFIG_SCOPE = names(
    "--global --local --system --show-origin --show-scope --name-only -z --null --bool --int"
)


def subcommand(args: list[Word]) -> tuple[str, list[Word], list[Word]]:
    """The subcommand (empty if it is not literal), its arguments, and the global options."""
    for index, word in enumerate(args):
        if not word.exact:
            return "", [], args
        if index and args[index - 1].text == "-C":
            continue
        if word.text == "-C" or word.text in _GLOBAL_PLAIN:
            continue
        if word.text.startswith("-"):
            return "", [], args
        return word.text, args[index + 1 :], args[:index]
    return "", [], args


def git(args: list[Word], places: WorkingDirectories) -> Text | None:
    """Why this call of git is not read-only, or None."""
    name, rest, before = subcommand(args)
    if not name:
        return Text("policy.why.git_programs")
    why = _why_acts(name, rest)
    if why:
        return why
    directories = [before[i + 1].text for i, word in enumerate(before) if word.text == "-C"]
    if len(directories) > 1 or not all(places.inside(directory) for directory in directories):
        return Text("policy.why.leaves")
    if name in _SETTINGS_UNCHANGED:
        return None
    known = places.git_is_contained(*directories, into=name in _RECURSES)
    return None if known else Text("policy.why.git_programs")


def _why_acts(name: str, rest: list[Word]) -> Text | None:
    if name in _SECOND_WORDS:
        # `git reflog -5` means `git reflog show -5`.
        bare = name == "reflog" and (not rest or (rest[0].exact and rest[0].maybe_option()))
        if not bare and not (rest and rest[0].exact and rest[0].text in _SECOND_WORDS[name]):
            return Text("policy.why.acts", name=f"git {name}")
        return _why_shows(rest if bare else rest[1:], _DIFF)
    if name in _READ_ONLY:
        return _why_shows(rest, _READ_ONLY[name])
    rule = _RULES.get(name)
    return rule(rest) if rule else Text("policy.why.acts", name=f"git {name}")


def _why_shows(rest: list[Word], flags: Flags) -> Text | None:
    """Why options of the diff and log family act, or None. Whatever shows commits takes them all."""
    why = check_flags(rest, flags)
    if not why and any(_SIGNATURES.search(word.text) for word in rest):
        return Text("policy.why.git_programs")
    again = next((word.text for word in rest if _diffs_elsewhere(word.text)), None)
    return why or (Text("policy.why.option", option=again) if again else None)


def _diffs_elsewhere(option: str) -> bool:
    """`remerge` starts merge drivers; a submodule's diff uses that repository's settings."""
    value = option.partition("=")[2]
    if is_long(option, ("--submodule",)):
        return value.startswith("d")
    return is_long(option, ("--diff-merges",)) and value[:1] in ("", "r")


def _exact(rest: list[Word]) -> list[str] | None:
    return [word.text for word in rest] if all(word.exact for word in rest) else None


def _refs(plain: frozenset[str], listing: tuple[str, ...]) -> Callable[[list[Word]], Text | None]:
    """A rule for `branch` and `tag`: listings only; a name without `--list` creates one."""

    def rule(rest: list[Word]) -> Text | None:
        given = _exact(rest)
        if given is None:
            return Text("policy.why.expansion")
        listed = any(text in listing for text in given)
        value_expected = False
        for text in given:
            if text in _REF_VALUES:
                value_expected = True
            elif _SIGNATURES.search(text):
                return Text("policy.why.git_programs")
            elif text in plain or text.startswith(_REF_FORMS) or re.fullmatch(r"-n\d+", text):
                value_expected = False
            elif text.startswith("-") or not (listed or value_expected):
                return Text("policy.why.acts", name="git")
            else:
                value_expected = False
        return None

    return rule


def _remote(rest: list[Word]) -> Text | None:
    given = _exact(rest)
    plain = given is not None and (
        given in ([], ["-v"], ["--verbose"])
        or (len(given) == 2 and given[0] == "get-url" and not given[1].startswith("-"))
    )
    return None if plain else Text("policy.why.acts", name="git remote")


def _config(rest: list[Word]) -> Text | None:
    given = _exact(rest)
    if given is None:
        return Text("policy.why.expansion")
    given = [text for text in given if text not in _CONFIG_SCOPE]
    if given in (["--list"], ["-l"], ["list"]):
        return None
    getting = bool(given) and given[0] in ("--get", "--get-all", "--get-regexp", "get")
    given = given[1:] if getting else given
    # Without a dot it is no key, but may be a subcommand like `edit`.
    plain = len(given) == 1 and not given[0].startswith("-") and (getting or "." in given[0])
    return None if plain else Text("policy.why.acts", name="git config")


def _symbolic_ref(rest: list[Word]) -> Text | None:
    given = _exact(rest)
    names = [text for text in given or ["", ""] if text not in ("--short", "-q", "--quiet")]
    return (
        None
        if len(names) == 1 and not names[0].startswith("-")
        else Text("policy.why.acts", name="git symbolic-ref")
    )


_RULES: dict[str, Callable[[list[Word]], Text | None]] = {
    "branch": _refs(_BRANCH_FLAGS, ("--list",)),
    "tag": _refs(_TAG_FLAGS, ("-l", "--list")),
    "remote": _remote,
    "config": _config,
    "symbolic-ref": _symbolic_ref,
}

_DESTRUCTIVE_NAMES = {
    "filter-branch": Text("policy.risk.git.history"),
    "filter-repo": Text("policy.risk.git.history"),
    "restore": Text("policy.risk.git.changes"),
    "prune": Text("policy.risk.git.objects"),
}
_DESTRUCTIVE_OPTIONS: dict[str, tuple[tuple[str, ...], str, Text]] = {
    # subcommand: (long options, letters, what it does)
    "reset": (("--hard", "--merge", "--keep"), "", Text("policy.risk.git.changes")),
    "clean": (("--force",), "fdxX", Text("policy.risk.git.untracked")),
    "push": (("--force", "--force-with-lease", "--force-if-includes", "--delete", "--mirror", "--prune"),
             "fd", Text("policy.risk.git.remote")),
    "branch": (("--delete", "--force", "--move", "--copy"), "dDfMC", Text("policy.risk.git.branch")),
    "tag": (("--delete", "--force"), "df", Text("policy.risk.git.tag")),
    "checkout": (("--force", "--ours", "--theirs", "--pathspec-from-file"), "fB",
                 Text("policy.risk.git.changes")),
    "switch": (("--force", "--discard-changes", "--force-create"), "fC", Text("policy.risk.git.changes")),
    "gc": (("--prune", "--aggressive"), "", Text("policy.risk.git.objects")),
    "update-ref": (("--stdin",), "d", Text("policy.risk.git.refs")),
    "rm": (("--force",), "", Text("policy.risk.git.files")),
    "read-tree": (("--reset",), "", Text("policy.risk.git.changes")),
}  # fmt: skip
_DESTRUCTIVE_WORDS: dict[str, tuple[frozenset[str], Text]] = {
    "stash": (frozenset({"drop", "clear"}), Text("policy.risk.git.stash")),
    "reflog": (frozenset({"expire", "delete"}), Text("policy.risk.git.reflog")),
    "worktree": (frozenset({"remove", "prune"}), Text("policy.risk.git.worktree")),
    "submodule": (frozenset({"deinit"}), Text("policy.risk.git.files")),
    "remote": (frozenset({"remove", "rm", "prune"}), Text("policy.risk.git.refs")),
    "notes": (frozenset({"remove", "prune"}), Text("policy.risk.git.notes")),
}


def danger(args: list[Word]) -> Text | None:
    """What this call of git destroys, as the rest of a sentence, or None."""
    name, rest = _any_subcommand(args)
    given = [word.text for word in rest]
    if name in _DESTRUCTIVE_NAMES:
        return _DESTRUCTIVE_NAMES[name]
    if name in _DESTRUCTIVE_WORDS and _DESTRUCTIVE_WORDS[name][0].intersection(given[:1]):
        return _DESTRUCTIVE_WORDS[name][1]
    if name in ("rm", "mv"):
        return Text("policy.risk.git.moves")
    if name == "push" and any(text.startswith(("+", ":")) for text in given):
        return Text("policy.risk.git.remote")
    # Probably a path, whose changes are lost.
    if name == "checkout" and any(text == "--" or "." in text or "/" in text for text in given):
        return Text("policy.risk.git.changes")
    if name in _DESTRUCTIVE_OPTIONS:
        long, letters, what = _DESTRUCTIVE_OPTIONS[name]
        if any(_is_option(text, long, letters) for text in given):
            return what
    return None


def runs_programs(args: list[Word]) -> bool:
    """Whether this call names a program for git to run, so that `always` must not cover it."""
    name, rest, _ = subcommand(args)
    if not name or (name, rest[0].text if rest else "") in _RUNNERS:
        return True
    if name in ("filter-branch", "difftool", "mergetool", "daemon", "instaweb", "config", "bisect"):
        return not (name == "config" and not _config(rest))
    long = (*_DIFF.long, "--receive-pack", "--config", "--template", "--extcmd", "--rsh", "--strategy")
    return any(
        not word.exact
        or ("::" in word.text and name in _CONTACTING)
        or check_flags([word], Flags(long=long)) is not None
        or (name in _RUN_LETTERS and check_flags([word], Flags(short=_RUN_LETTERS[name])) is not None)
        for word in rest
    )


_RUNNERS = frozenset({("submodule", "foreach"), ("bisect", "run"), ("submodule", "update"), ("stash", "-p")})
_CONTACTING = frozenset({"clone", "fetch", "pull", "push", "remote", "submodule", "ls-remote", "archive"})
_RUN_LETTERS = {"rebase": "xs", "merge": "s", "pull": "s", "grep": "O", "clone": "uc",
                "send-email": "x", "difftool": "x"}  # fmt: skip


def _is_option(text: str, long: tuple[str, ...], letters: str) -> bool:
    if text.startswith("--"):
        given = text.split("=", 1)[0]
        return len(given) > 3 and any(name.startswith(given) for name in long)
    return text.startswith("-") and any(letter in letters for letter in text[1:])


_VALUED_GLOBALS = names("-C -c --git-dir --work-tree --namespace --config-env --super-prefix --exec-path")


def _any_subcommand(args: list[Word]) -> tuple[str, list[Word]]:
    """The subcommand after every global option, with or without a value."""
    index = 0
    while index < len(args) and args[index].text.startswith("-"):
        takes_value = args[index].text in _VALUED_GLOBALS
        index += 2 if takes_value else 1
    return (args[index].text, args[index + 1 :]) if index < len(args) else ("", [])
