"""Options that make an otherwise read-only program write or run something."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from coder.policy.programs import names
from coder.policy.shell.words import Word
from coder.texts import Text

# Options without a value in every program here, so that a following `--` surely ends the options.
_ALONE = names(
    """
    -p -u --all --cached --follow --graph --ignore-case --name-only --name-status --no-color --no-ext-diff
    --numstat --oneline --patch --porcelain --raw --reverse --short --shortstat --staged --stat --unique
    """
)


class Flags(msgspec.Struct, frozen=True):
    """What makes a call not read-only. `short`: letters, anywhere in a cluster. `long`: names, also
    abbreviated (getopt). `operands`: the most operands allowed. `words`, `texts`: operands, or parts of
    words."""

    short: str = ""
    long: tuple[str, ...] = ()
    operands: int | None = None
    words: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()


def is_long(word: str, names: Iterable[str]) -> bool:
    """Whether `word` is one of `names`, abbreviated or with a value."""
    given = word.split("=", 1)[0]
    return len(given) > 2 and any(name.startswith(given) for name in names)


def check_flags(args: list[Word], flags: Flags) -> Text | None:
    """Why this call is not read-only, or None."""
    operands = 0
    options, ended = True, False
    for index, word in enumerate(args):
        if options and word.exact and word.text == "--":
            # `sort --random-source -- -o x`: here it is a value, and options may follow.
            options = ended or (index > 0 and _may_take_value(args[index - 1]))
            ended = True
            continue
        if options and word.maybe_option():
            if not word.exact:
                return Text("policy.why.expansion")
            if _forbidden(word.text, flags):
                return Text("policy.why.option", option=word.text)
            # Some accept no option after an operand: `uniq in -c` writes the file `-c`.
            if not ended and (not operands or flags.operands is None):
                continue
        operands += 2 if word.splits or (not word.exact and flags.operands is not None) else 1
        if word.text in flags.words or any(text in word.text for text in flags.texts):
            return Text("policy.why.acts", name=word.text)
    if flags.operands is not None and operands > flags.operands:
        return Text("policy.why.arguments")
    return None


def _may_take_value(word: Word) -> bool:
    """Whether the next word may be this option's value."""
    alone = word.text in _ALONE or "=" in word.text or word.text[1:].isdigit()
    return word.maybe_option() and not (word.exact and alone)


def _forbidden(option: str, flags: Flags) -> bool:
    if option.startswith("--"):
        return is_long(option, flags.long) or any(text in option for text in flags.texts)
    if option.split("=", 1)[0] in flags.long:
        return True
    return any(letter in flags.short for letter in option[1:])
