"""Finding the text that a model meant: exactly, else tolerantly, else what comes nearest.

Models copy text with small losses: trailing blanks, the depth of indentation, straight quotes for typographic
ones, line numbers of a listing, `\n` spelled out. Each loss is tried alone, in that order. The file's own
characters stay wherever the replacement does not differ from what was asked for."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from functools import partial

import msgspec

from coder.base.text import common_ends
from coder.tools.text.file import Span

Key = Callable[[str], str]
Shift = Callable[[str], str]

_PLAIN = {"'": "‘’‚‛′", '"': "“”„‟″", "-": "‐‑‒–—−", " ": "\u00a0\u2002\u2003\u2009\u202f\u3000"}
_FOLDED = str.maketrans({kin: plain for plain, family in _PLAIN.items() for kin in family})
_NUMBERED = re.compile(r"^ *\d+\t")
_NEAREST_SECONDS = 0.3
_NEAREST_LINES = 12
_NEAREST_PLACES = 8  # that are compared


class Found(msgspec.Struct, frozen=True):
    """Where the text stands and what each place becomes; `how` names the tolerance it took."""

    spans: list[Span]
    how: str = ""


def find(text: str, old: str, new: str) -> Found:
    """Every place of `old` in `text`, at the first level of tolerance that has any."""
    spans = [(start, start + len(old), new) for start in _occurrences(text, old)]
    if spans or not old.strip():
        return Found(spans)
    for how, attempt in _LEVELS:
        spans = attempt(text, old, new)
        if spans:
            return Found(spans, how)
    return Found([])


def _occurrences(text: str, old: str) -> Iterator[int]:
    at = text.find(old)
    while at >= 0:
        yield at
        at = text.find(old, at + len(old))


def fold(text: str) -> str:
    """Typographic quotes, dashes and blanks as their plain kin, one character for one."""
    return text.translate(_FOLDED)


def _quotes(text: str, old: str, new: str) -> list[Span]:
    spans = []
    for start in _occurrences(fold(text), fold(old)):
        head, tail = common_ends(old, new)
        spans.append((start + head, start + len(old) - tail, new[head : len(new) - tail]))
    return spans


def _by_lines(key: Key, *, indented: bool = False) -> Callable[[str, str, str], list[Span]]:
    def attempt(text: str, old: str, new: str) -> list[Span]:
        # Whole lines are compared, so a final newline on one side only is no difference.
        wanted, replacement = old.split("\n"), new.split("\n")
        closed = len(wanted) > 1 and not wanted[-1]
        if closed:
            wanted.pop()
            if not replacement[-1]:
                replacement.pop()
        lines = text.split("\n")
        starts = _starts(lines)
        spans = []
        for at in window_starts([key(line) for line in lines], [key(line) for line in wanted]):
            shift = shift_between(wanted, lines[at : at + len(wanted)]) if indented else str
            if shift is None:
                continue
            head, tail = common_ends(wanted, replacement)
            first, last = at + head, at + len(wanted) - tail
            middle = [shift(line) for line in replacement[head : len(replacement) - tail]]
            spans.append(_line_span(starts, len(text), first, last, middle))
        return spans

    return attempt


def _from_mid_line(text: str, old: str, new: str) -> list[Span]:
    """Texts of several lines that begin or end within one. Where more than one place fits, none is meant."""
    wanted, replacement = old.split("\n"), new.split("\n")
    if len(wanted) < 2:
        return []
    first, *inner = (line.rstrip() for line in wanted[:-1])
    last = wanted[-1]
    lines = text.split("\n")
    bare = [line.rstrip() for line in lines]
    size = len(wanted)
    fits = [
        at
        for at in range(len(lines) - size + 1)
        if bare[at].endswith(first)
        and lines[at + size - 1].startswith(last)
        and bare[at + 1 : at + size - 1] == inner
    ]
    if len(fits) != 1:
        return []
    at = fits[0]
    skipped = len(bare[at]) - len(first)
    actual = [lines[at][skipped:], *lines[at + 1 : at + size - 1], last]
    head, tail = common_ends(wanted, replacement)
    merged = actual[:head] + replacement[head : len(replacement) - tail] + actual[size - tail :]
    start = _starts(lines)[at] + skipped
    return [(start, start + len("\n".join(actual)), "\n".join(merged))]


def window_starts(lines: list[str], wanted: list[str], start: int = 0) -> Iterator[int]:
    """Where `wanted` stands in `lines`, places not overlapping: in one pass (Knuth, Morris and Pratt), also
    where every line is like the others."""
    size, shorter = len(wanted), [0]  # by how many lines have matched: how many still do, one place on
    for at in range(1, size):
        shorter.append(_one_more(wanted, shorter, shorter[-1], wanted[at]))
    matched = 0
    for at in range(start, len(lines)):
        matched = _one_more(wanted, shorter, matched, lines[at])
        if matched == size:
            yield at - size + 1
            matched = 0


def _one_more(wanted: list[str], shorter: list[int], matched: int, line: str) -> int:
    while matched and wanted[matched] != line:
        matched = shorter[matched - 1]
    return matched + (wanted[matched] == line)


def _starts(lines: list[str]) -> list[int]:
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    return starts


def _line_span(starts: list[int], end: int, first: int, last: int, lines: list[str]) -> Span:
    """The span that makes lines `first` to `last` (exclusive) the given ones."""
    if last > first:
        if lines:
            return starts[first], starts[last] - 1, "\n".join(lines)
        if starts[last] <= end:
            return starts[first], starts[last], ""
        return max(0, starts[first] - 1), end, ""  # the last line goes with the newline before it
    if starts[first] <= end:
        return starts[first], starts[first], "".join(line + "\n" for line in lines)
    return end, end, "".join("\n" + line for line in lines)


def shift_between(wanted: list[str], actual: list[str]) -> Shift | None:
    """The one change of indentation that leads from `wanted` to `actual` on every line, if there is one."""
    pairs = {(_indent(a), _indent(b)) for a, b in zip(wanted, actual, strict=True) if a.strip()}
    for candidate in _shifts(pairs):
        if all(candidate(asked + "x") == there + "x" for asked, there in pairs):
            return candidate
    return None


def _shifts(pairs: set[tuple[str, str]]) -> Iterator[Shift]:
    asked, there = min(pairs, key=lambda pair: (len(pair[0]), len(pair[1])))
    if there.endswith(asked):
        extra = there[: len(there) - len(asked)]
        yield lambda line: extra + line if line.strip() else line
    if asked.endswith(there):
        excess = asked[: len(asked) - len(there)]
        yield lambda line: line.removeprefix(excess)
    for width in (4, 2, 8, 3):
        yield partial(_reindented, " " * width, "\t")
        yield partial(_reindented, "\t", " " * width)
    yield partial(_reindented, "  ", "    ")
    yield partial(_reindented, "    ", "  ")


def _reindented(unit: str, other: str, line: str) -> str:
    indent = _indent(line)
    depth, rest = 0, indent
    while rest.startswith(unit):
        depth, rest = depth + 1, rest[len(unit) :]
    return other * depth + rest + line[len(indent) :]


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _without_numbers(text: str, old: str, new: str) -> list[Span]:
    lines = old.split("\n")
    if not all(_NUMBERED.match(line) for line in lines if line):
        return []
    bare = "\n".join(_NUMBERED.sub("", line) for line in lines)
    plain = "\n".join(_NUMBERED.sub("", line) for line in new.split("\n"))
    return [(start, start + len(bare), plain) for start in _occurrences(text, bare)] if bare.strip() else []


def _unescaped(text: str, old: str, new: str) -> list[Span]:
    if "\\n" not in old or "\n" in old:
        return []
    bare, plain = (_plain_escapes(piece) for piece in (old, new))
    return [(start, start + len(bare), plain) for start in _occurrences(text, bare)]


def _plain_escapes(text: str) -> str:
    known = {"n": "\n", "t": "\t", '"': '"', "'": "'", "\\": "\\"}
    return re.sub(r"""\\([nt"'\\])""", lambda match: known[match[1]], text)


_LEVELS: tuple[tuple[str, Callable[[str, str, str], list[Span]]], ...] = (
    ("quotes, dashes or blanks of another kind", _quotes),
    ("trailing blanks", _by_lines(str.rstrip)),
    ("trailing blanks", _from_mid_line),
    ("trailing blanks and quotes", _by_lines(lambda line: fold(line).rstrip())),
    ("another indentation", _by_lines(lambda line: fold(line).strip(), indented=True)),
    ("line numbers copied with the text", _without_numbers),
    ("escapes written out", _unescaped),
)


def line_of(text: str, index: int) -> int:
    """The line, from 1, that `index` lies on."""
    return text.count("\n", 0, index) + 1


def nearest(lines: list[str], wanted: list[str]) -> tuple[int, int] | None:
    """The lines (from, to; counted from 0) most like `wanted`, looked for in bounded time."""
    keys = [fold(line).strip() for line in wanted]
    solid = [(offset, key) for offset, key in enumerate(keys) if key]
    if not solid or not lines:
        return None
    folded = [fold(line).strip() for line in lines]
    starts, sure = _by_equal_lines(folded, solid)
    if not sure:
        likely = (solid[0], max(solid, key=lambda item: len(item[1])))
        similar = [_by_similar_line(folded, item) for item in dict.fromkeys(likely)]
        starts += [start for start in similar if start is not None]
    if not starts:
        return None
    best = starts[0] if len(starts) == 1 or sure else _most_alike(folded, keys, starts)
    size = min(max(len(wanted), 3), _NEAREST_LINES)
    first = max(0, min(best, len(lines) - 1))
    return first, min(len(lines), first + size)


def _by_equal_lines(lines: list[str], solid: list[tuple[int, str]]) -> tuple[list[int], bool]:
    """The places where the most lines are the same, the best first, and whether most of the text is the same
    there. Short lines such as `}` say little."""
    votes: dict[int, int] = {}
    offsets: dict[str, list[int]] = {}
    for offset, key in solid:
        offsets.setdefault(key, []).append(offset)
    for at, line in enumerate(lines):
        for offset in offsets.get(line, ())[:20]:
            votes[at - offset] = votes.get(at - offset, 0) + len(line)
    best = sorted(votes, key=lambda start: (-votes[start], start))[:_NEAREST_PLACES]
    best = [start for start in best if votes[start] >= 4]
    return best, bool(best) and 2 * votes[best[0]] > sum(len(key) for _, key in solid)


def _by_similar_line(lines: list[str], wanted: tuple[int, str]) -> int | None:
    from difflib import SequenceMatcher

    offset, key = wanted
    matcher = SequenceMatcher(None, b=key[:500], autojunk=False)
    deadline = time.monotonic() + _NEAREST_SECONDS
    best, score = None, 0.5
    for at, line in enumerate(lines):
        matcher.set_seq1(line[:500])
        if matcher.real_quick_ratio() > score and matcher.quick_ratio() > score:
            ratio = matcher.ratio()
            if ratio > score:
                best, score = at - offset, ratio
        if time.monotonic() > deadline:
            break
    return best


def _most_alike(lines: list[str], wanted: list[str], starts: list[int]) -> int:
    """The place whose words are the most like those of `wanted`."""

    from difflib import SequenceMatcher

    def words(some: list[str]) -> list[str]:
        return re.findall(r"\w+|[^\w\s]", "\n".join(some)[:2_000])

    size = min(len(wanted), 2 * _NEAREST_LINES)
    matcher = SequenceMatcher(None, b=words(wanted[:size]), autojunk=False)

    def likeness(start: int) -> float:
        matcher.set_seq1(words(lines[max(0, start) : max(0, start) + size]))
        return matcher.ratio()

    return max(starts, key=likeness)


def numbered(lines: list[str], first: int, last: int) -> str:
    """Lines `first` to `last` (from 0, exclusive) as `read` shows them."""
    return "\n".join(f"{index + 1}\t{lines[index][:300]}" for index in range(first, last))
