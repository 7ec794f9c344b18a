"""Glob patterns as people write them: `*` and `?` within a name, `**` across directories, `[…]`, `{a,b}`."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise

MAX_ALTERNATIVES = 256  # `{…}` multiplies; beyond this a pattern is a mistake
LONGEST = 4096  # characters of a pattern: as many as a path may have
_META = re.compile(r"[\\.+*?()|\[\]{}^$#&~-]")


class BadGlob(Exception):
    """The pattern cannot be used; the text says why."""


def matcher(pattern: str, *, any_depth: bool = False) -> Callable[[str], bool]:
    """Whether a relative path with `/` separators matches. With `any_depth` a pattern without `/` is about
    the file's name, wherever it lies."""
    if len(pattern) > LONGEST:
        raise BadGlob(f"the pattern has more than {LONGEST} characters; use a simpler one")
    alternatives = expand_braces(pattern.removeprefix("./"))
    if any_depth:
        alternatives = [item if "/" in item else f"**/{item}" for item in alternatives]
    try:
        compiled = re.compile("|".join(_regex(item.lstrip("/")) for item in alternatives), re.DOTALL)
    except re.error as error:
        raise BadGlob(f"{pattern!r} is not a glob pattern: {error}") from error
    return lambda path: compiled.fullmatch(path) is not None


def literally(text: str) -> str:
    """A regular expression for ripgrep and Python that matches this text."""
    return _META.sub(r"\\\g<0>", text)


def name_globs(pattern: str) -> list[str]:
    """Globs on the file name alone that every match fulfils; empty if there is no such bound."""
    names = [item.rpartition("/")[2] for item in expand_braces(pattern)]
    return names if all(re.fullmatch(r"[\w.*?+-]+", name) and "**" not in name for name in names) else []


def expand_braces(pattern: str) -> list[str]:
    """Every alternative of `{a,b}`, nested ones too."""
    done, todo = [], [pattern]
    while todo:
        item = todo.pop()
        found = _first_braces(item)
        if found is None:
            done.append(item)
        else:
            start, end, parts = found
            todo += [item[:start] + part + item[end:] for part in reversed(parts)]
        if len(done) + len(todo) > MAX_ALTERNATIVES:
            raise BadGlob(f"{pattern!r} stands for more than {MAX_ALTERNATIVES} patterns; use a simpler one")
    return done


def _first_braces(pattern: str) -> tuple[int, int, list[str]] | None:
    """Where the first `{…,…}` stands, and its alternatives; braces without a comma or end are text."""
    best: list[int] = []
    still_open: list[list[int]] = []  # positions of each brace and its commas
    for index, character in enumerate(pattern):
        if character == "{":
            still_open.append([index])
        elif character == "," and still_open:
            still_open[-1].append(index)
        elif character == "}" and still_open:
            cuts = still_open.pop()
            if len(cuts) > 1 and (not best or cuts[0] < best[0]):
                best = [*cuts, index]
    return (best[0], best[-1] + 1, [pattern[a + 1 : b] for a, b in pairwise(best)]) if best else None


_DIRECTORIES, _STAR, _SEPARATOR = "(?:[^/]+/)*", "[^/]*", "/"


def _regex(glob: str) -> str:
    """With atomic groups, against catastrophic backtracking (ReDoS): the first match of what stands between
    two `*` is as good as any later one. `*a*a*a*b` would otherwise take years for a long name."""
    tokens: list[str] = []
    at = 0
    while at < len(glob):
        token, at = _token(glob, at)
        if not (token in (_DIRECTORIES, _STAR) and tokens[-1:] == [token]):
            tokens.append(token)
    first, *others = (_names(chunk) for chunk in _split(tokens, _DIRECTORIES))
    if not others:
        return first
    between = "".join(f"(?>{_DIRECTORIES}?{chunk})" for chunk in others[:-1])
    return f"{first}{between}{_DIRECTORIES}{others[-1]}"


def _names(tokens: list[str]) -> str:
    """The expression for the parts of a path between two `**/`."""
    names = []
    for name in _split(tokens, _SEPARATOR):
        first, *others = map("".join, _split(name, _STAR))
        between = "".join(f"(?>{_STAR}?{piece})" for piece in others[:-1])
        names.append(f"{first}{between}{_STAR}{others[-1]}" if others else first)
    return _SEPARATOR.join(names)


def _split(tokens: list[str], mark: str) -> list[list[str]]:
    parts: list[list[str]] = [[]]
    for token in tokens:
        if token == mark:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def _token(glob: str, at: int) -> tuple[str, int]:
    """The regular expression for what stands at `at`, and where the next thing stands."""
    at_start = at == 0 or glob[at - 1] == "/"
    if glob.startswith("**/", at) and at_start:
        return _DIRECTORIES, at + 3
    if glob.startswith("**", at):
        return (".+" if at_start and at + 2 == len(glob) else _STAR), at + 2
    character = glob[at]
    if character == "*":
        return _STAR, at + 1
    if character == "?":
        return "[^/]", at + 1
    if character == "[":
        end = glob.find("]", at + 2 + (glob[at + 1 : at + 2] in ("!", "^")))
        if end > 0:
            negated = glob[at + 1] in "!^"
            inside = re.sub(r"[\\\[&~|^]|-(?=-)", r"\\\g<0>", glob[at + 1 + negated : end])
            return f"(?!/)[{'^' if negated else ''}{inside}]", end + 1
    if character == "\\" and at + 1 < len(glob):
        return re.escape(glob[at + 1]), at + 2
    return re.escape(character), at + 1
