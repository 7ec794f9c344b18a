"""Lines that are nearly known ones: pieces inserted, taken out, doubled, nested and spliced."""

from __future__ import annotations

import random
from collections.abc import Callable

from .grammar import Grammar
from .vocabulary import Vocabulary

_KEPT = 4000  # lines that were found to be read-only, as seeds of more
_NESTS = (
    *("$(%s)", "`%s`", '"$(%s)"', "<(%s)", "{ %s; }", "( %s )", "if %s; then ls; fi", "%s | cat", "%s; ls"),
    *("for x in a; do %s; done", "case x in x) %s;; esac", "cat <<EOF\n%s\nEOF\n", "cat <<'EOF'\n%s\nEOF\n"),
    *(
        "! %s",
        "time %s",
        "%s &",
        "ls; %s",
        "[[ -n %s ]]",
        "x=%s",
        "# %s",
        "echo %s",
        "echo '%s'",
        'echo "%s"',
    ),
    *("cat <<<%s", "echo ${e:-%s}", "bash -c '%s'", "echo $'%s'", 'echo "${e:-%s}"'),
)
_QUOTES = (
    *(("'", "'"), ('"', '"'), ("$'", "'"), ('$"', '"'), ("\\", ""), ("{", "}"), ("`", "`"), ("${e:-", "}")),
)


class Mutation:
    """Changes seeds. `keep` adds a line to them."""

    def __init__(self, words: Vocabulary, grammar: Grammar, chance: random.Random) -> None:
        self._grammar = grammar
        self._chance = chance
        self._seeds = list(words.seeds)
        self._own = len(self._seeds)
        self._ways: tuple[Callable[[str], str], ...] = (
            self._insert, self._insert, self._insert, self._payload, self._payload, self._payload, self._drop,
            self._double, self._splice, self._nest, self._quote, self._swap, self._word, self._glue,
        )  # fmt: skip

    def line(self) -> str:
        """A seed with a few changes."""
        text = self._seed()
        for _ in range(self._chance.choice((1, 1, 2, 2, 3, 4))):
            text = self._chance.choice(self._ways)(text)
        return text

    def keep(self, line: str) -> None:
        """A line that was judged read-only is worth changing further; old ones make room."""
        if len(line) > 300:
            return
        if len(self._seeds) < self._own + _KEPT:
            self._seeds.append(line)
        else:
            self._seeds[self._chance.randrange(self._own, len(self._seeds))] = line

    def _seed(self) -> str:
        if self._chance.random() < 0.5:
            return self._seeds[self._chance.randrange(self._own)]
        return self._chance.choice(self._seeds)

    def _at(self, text: str) -> int:
        return self._chance.randint(0, len(text))

    def _insert(self, text: str) -> str:
        at = self._at(text)
        return text[:at] + self._grammar.make("token") + text[at:]

    def _payload(self, text: str) -> str:
        at = self._at(text)
        return text[:at] + self._grammar.make("hole") + text[at:]

    def _drop(self, text: str) -> str:
        at = self._at(text)
        return text[:at] + text[at + self._chance.choice((1, 1, 1, 2, 5)) :]

    def _double(self, text: str) -> str:
        at, size = self._at(text), self._chance.randint(1, 12)
        return text[: at + size] + text[at:]

    def _splice(self, text: str) -> str:
        other = self._seed()
        return text[: self._at(text)] + other[self._at(other) :]

    def _nest(self, text: str) -> str:
        return self._chance.choice(_NESTS).replace("%s", text)

    def _quote(self, text: str) -> str:
        start = self._at(text)
        end = min(len(text), start + self._chance.randint(0, 15))
        left, right = self._chance.choice(_QUOTES)
        return text[:start] + left + text[start:end] + right + text[end:]

    def _swap(self, text: str) -> str:
        if len(text) < 2:
            return text
        at = self._chance.randrange(len(text) - 1)
        return text[:at] + text[at + 1] + text[at] + text[at + 2 :]

    def _word(self, text: str) -> str:
        """Another word in the place of one."""
        words = text.split(" ")
        words[self._chance.randrange(len(words))] = self._grammar.make("word")
        return " ".join(words)

    def _glue(self, text: str) -> str:
        """Without the blank between two words."""
        words = text.split(" ")
        at = self._chance.randrange(len(words))
        return " ".join(words[:at]) + " ".join(words[at:])
