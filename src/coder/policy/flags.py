"""Options that make an otherwise harmless program write or run something."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from coder.policy.words import Word
from coder.texts import Phrase


class Flags(msgspec.Struct, frozen=True):
    """What a program must not be given if the call is to count as read-only.

    `short`: letters, wherever they stand in a cluster. `long`: names; abbreviations count, as getopt takes
    them. `operands`: how many words beside options it may have. `words`, `texts`: words, or parts of words.
    """

    short: str = ""
    long: tuple[str, ...] = ()
    operands: int | None = None
    words: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()


def is_long(word: str, names: Iterable[str]) -> bool:
    """Whether `word` is one of `names`, abbreviated or with a value."""
    given = word.split("=", 1)[0]
    return len(given) > 2 and any(name.startswith(given) for name in names)


def check_flags(args: list[Word], flags: Flags) -> Phrase | None:
    """Why this call is not read-only, or nothing."""
    operands = 0
    options = True
    for word in args:
        if not word.exact and options and word.maybe_option():
            return Phrase("policy.why.expansion_option")
        if options and word.exact and word.text == "--":
            options = False
            continue
        if options and word.exact and word.maybe_option():
            if _forbidden(word.text, flags):
                return Phrase("policy.why.option_writes", option=word.text)
            continue
        operands += 2 if word.splits or (not word.exact and flags.operands is not None) else 1
        if word.text in flags.words or any(text in word.text for text in flags.texts):
            return Phrase("policy.why.word_acts", word=word.text)
    if flags.operands is not None and operands > flags.operands:
        return Phrase("policy.why.operand_writes")
    return None


def _forbidden(option: str, flags: Flags) -> bool:
    if option.startswith("--"):
        return is_long(option, flags.long) or any(text in option for text in flags.texts)
    if option in flags.long:
        return True
    return any(letter in flags.short for letter in option[1:])
