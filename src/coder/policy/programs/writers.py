"""What known commands write: the operands that a person can be shown before they approve a line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from coder.policy.programs import names
from coder.policy.shell.words import Word


class Written(NamedTuple):
    """An operand that a command writes. `entry`: it is created, removed or renamed, rather than filled.
    `into`: names of the files that are written if it is a directory.
    """

    word: Word
    entry: bool = False
    into: tuple[str, ...] = ()


# Options that take a value in the next word; all others stand alone.
_VALUED = {
    "touch": names("-d -r -t --date --reference --time"),
    "tee": frozenset[str](),
    "mkdir": names("-m --mode"),
    "rmdir": frozenset[str](),
    "rm": frozenset[str](),
    "truncate": names("-s --size -r --reference"),
    "chmod": frozenset[str](),
    "cp": names("-S --suffix"),
    "mv": names("-S --suffix"),
    "ln": names("-S --suffix"),
}
_OUTPUT_OPTIONS = {"curl": names("-o --output"), "wget": names("-O --output-document")}


def written_by(name: str, args: Sequence[Word]) -> list[Written] | None:
    """All that this command writes; None if that is not known."""
    if not all(word.exact for word in args):
        return None
    if name == "dd":
        return [Written(_after(word, "of=")) for word in args if word.text.startswith("of=")]
    if name in ("echo", "printf", "cat", "true", ":"):
        return []
    if name in _VALUED:
        if name in ("cp", "mv", "ln") and any(word.text.startswith(("-t", "--target")) for word in args):
            return None  # rare, and not followed
        operands = list(_operands(args, _VALUED[name]))
        return _coreutils(name, operands, [word.text for word in args])
    return None


def output_files(name: str, args: Sequence[Word]) -> list[Written]:
    """The output files that a command's options name; it may write others."""
    options = _OUTPUT_OPTIONS.get(name, ())
    return [
        Written(args[at + 1])
        for at, word in enumerate(args[:-1])
        if word.exact and word.text in options and args[at + 1].exact
    ]


def _coreutils(name: str, operands: list[Word], words: list[str]) -> list[Written] | None:
    if name in ("touch", "tee", "truncate"):
        return [Written(word) for word in operands]
    if name == "chmod":
        return [Written(word) for word in operands[1:]]
    if name in ("mkdir", "rmdir", "rm"):
        return [Written(word, entry=True) for word in operands]
    if len(operands) < 2:
        return None
    *sources, target = operands
    into = tuple(word.text.rstrip("/").rsplit("/", 1)[-1] for word in sources)
    if not set(into).isdisjoint(("", ".", "..")):
        return None
    if name == "mv":
        return [*(Written(word, entry=True) for word in sources), Written(target, entry=True, into=into)]
    if name == "ln":
        return [Written(target, entry=True, into=into)]
    whole = any(
        word.startswith("-") and not word.startswith("--") and set(word) & set("arR") for word in words
    )
    deep = whole or "--recursive" in words or "--archive" in words
    return [Written(target, entry=deep, into=into)]


def _operands(args: Sequence[Word], valued: frozenset[str]) -> Iterator[Word]:
    options, skip = True, False
    for word in args:
        if skip:
            skip = False
        elif options and word.text == "--":
            options = False
        elif options and word.text.startswith("-") and word.text != "-":
            skip = word.text in valued
        else:
            yield word


def _after(word: Word, prefix: str) -> Word:
    return Word(word.text.removeprefix(prefix), shell_text=word.shell_text)
