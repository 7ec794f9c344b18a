"""Lines from a grammar of bash (`bash.grammar`), with the programs and options of the policy's own tables."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path

import msgspec

from .vocabulary import Vocabulary

_FILE = Path(__file__).with_name("bash.grammar")
_DEEPEST = 14
_MARKS = str.maketrans({"␤": "\n", "␉": "\t", "␍": "\r", "⍽": "\u00a0", "␠": " "})
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
_SPELLINGS = ("/bin/%s", "'%s'", '"%s"', "\\%s", "$'%s'", "./%s", "''%s", "/usr/bin/%s", "bin/%s", "%s''")
_OPERANDS = ("file", "file", "file", "folder", "word")
_GIT_OPERANDS = ("ref", "ref", "file", "folder")


class _Way(msgspec.Struct, frozen=True):
    """One way to write a rule: text and names of rules, by turns."""

    weight: int
    rough: bool
    parts: list[str]


class _Rule(msgspec.Struct, frozen=True):
    """All ways, and those that a gentle line may take, each as often as its weight says."""

    first: _Way
    all: list[_Way]
    gentle: list[_Way]


def _read() -> dict[str, _Rule]:
    found: dict[str, list[_Way]] = {}
    name = ""
    for text in _FILE.read_text(encoding="utf-8").split("\n"):
        if text.startswith("= "):
            name = text[2:]
        elif text and not text.startswith("## "):
            weight, kind, way = re.fullmatch(r"(\d+)([ ~])(.*)", text, re.DOTALL).groups()  # type: ignore[union-attr] # it matches
            parts = [part.translate(_MARKS) for part in re.split("‹([^›]*)›", way)]
            found.setdefault(name, []).append(_Way(int(weight), kind == "~", parts))
    return {name: _rule(ways) for name, ways in found.items()}


def _rule(ways: list[_Way]) -> _Rule:
    every = [way for way in ways for _ in range(way.weight)]
    return _Rule(ways[0], every, [way for way in every if not way.rough] or every)


class Grammar:
    """Makes lines, one after the other, from one source of chance."""

    def __init__(self, words: Vocabulary, chance: random.Random) -> None:
        self._words = words
        self._chance = chance
        self._rules = _read()
        self._gentle = False
        self._depth = 0
        self._made: dict[str, Callable[[], str]] = {
            "program": self._program,
            "git": self._git,
            "seed": lambda: chance.choice(words.seeds),
            "flat": lambda: self.make("hole").replace("\n", " "),
            "single": lambda: self.make("hole").replace("'", ""),
        }

    def line(self) -> str:
        """One line, or several. Half of them are gentle: only what may be read-only, so that they get long
        and deep, with payloads as mere text in them."""
        self._gentle = self._chance.random() < 0.5
        return self.make("line")

    def make(self, name: str) -> str:
        """What a rule of the grammar stands for."""
        if name in self._made:
            return self._made[name]()
        if name.startswith("options:"):
            return self._option(self._words.options[name.removeprefix("options:")])
        rule = self._rules[name]
        self._depth += 1
        way = self._chance.choice(rule.gentle if self._gentle else rule.all)
        if self._depth > _DEEPEST:
            way = rule.first
        text = [self.make(part) if odd % 2 else part for odd, part in enumerate(way.parts)]
        self._depth -= 1
        return "".join(text)

    # -- programs --------------------------------------------------------------------------------------

    def _program(self) -> str:
        name = self._chance.choice(self._words.programs)
        words = [self._spelt(name)]
        words += [self._option(self._words.options[name]) for _ in self._few()]
        words += [self.make(self._chance.choice(_OPERANDS)) for _ in self._few()]
        return " ".join(words)

    def _spelt(self, name: str) -> str:
        if self._chance.random() < 0.93:
            return name
        ways = (
            "/bin/%s",
            "'%s'",
            '"%s"',
            "\\%s",
            "$'%s'",
            "./%s",
            "''%s",
            "/usr/bin/%s",
            "bin/%s",
            "%s''",
            "../work/%s",
        )
        return self._chance.choice(ways) % name

    def _git(self) -> str:
        name = self._chance.choice(tuple(self._words.git))
        words = [self.make("gitprefix"), name]
        words += [self._option(self._words.git[name]) for _ in self._few()]
        words += [self.make(self._chance.choice(_GIT_OPERANDS)) for _ in self._few()]
        return " ".join(words)

    def _few(self) -> range:
        return range(self._chance.choice((0, 1, 1, 2)))

    def _option(self, options: tuple[str, ...]) -> str:
        """One of the program's own, perhaps shortened, in a cluster or with a value; or any letter."""
        chance = self._chance.random
        option = (
            self._chance.choice(options)
            if options and chance() < 0.75
            else "-" + self._chance.choice(_LETTERS)
        )
        if option.endswith("="):
            return option + self.make("value") if chance() < 0.7 else option[:-1] + " " + self.make("value")
        if option.startswith("--") and chance() < 0.2:
            option = option[: self._chance.randint(3, max(3, len(option)))]
        if len(option) == 2 and chance() < 0.2:
            option += self._chance.choice(_LETTERS)
        if chance() < 0.3:
            option += (" " if chance() < 0.6 else "=" if option.startswith("--") else "") + self.make("value")
        return option
