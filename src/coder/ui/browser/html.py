"""Text of records as HTML: nothing in it is markup, and no control character reorders or hides it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape
from typing import NamedTuple

from coder.texts import Catalog

_ESCAPED = {code: f"\\x{code:02x}" for code in (*range(32), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"}
_ESCAPED |= {
    code: f"\\u{code:04x}" for code in (*range(0x2028, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x61C)
}


def escape_controls(text: str) -> str:
    """`text` with control characters spelled out."""
    text = text.translate(_ESCAPED)
    return text if text.isascii() else text.encode("utf-8", errors="replace").decode("utf-8")


def escaped(text: str) -> str:
    """As HTML text or the value of an attribute in double quotes."""
    return escape(escape_controls(text))


def tag(name: str, *children: str, **attributes: str | int | bool) -> str:
    """An element. `children` are HTML, attributes are escaped: `class_` is `class`, `data_x` is `data-x`,
    True has no value, False omits it."""
    parts = [name]
    for key, value in attributes.items():
        written = key.rstrip("_").replace("_", "-")
        if value is True:
            parts.append(written)
        elif value is not False:
            parts.append(f'{written}="{escaped(str(value))}"')
    end = "" if name == "img" else f"</{name}>"  # a void element
    return f"<{' '.join(parts)}>{''.join(children)}{end}"


_HUNK = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
_LONGEST = 400  # characters of a line that is compared with another
_MOST = 4000  # lines shown


def diff_html(diff: str) -> str:
    lines = diff.split("\n")
    shown = [*_rows(lines[:_MOST])]
    if len(lines) > _MOST:
        shown.append(tag("span", f"… {len(lines) - _MOST}", class_="at"))
    return tag("pre", *shown, class_="diff")


def _rows(lines: list[str]) -> Iterator[str]:
    old = new = 0  # line numbers
    ends = 0, 0  # the first ones after the hunk
    at = 0
    while at < len(lines):
        line = lines[at]
        if found := _HUNK.match(line):
            old, new = int(found[1]), int(found[3])
            ends = old + int(found[2] or 1), new + int(found[4] or 1)
            yield _row("at", "", "", escaped(line))
        elif line.startswith(("--- ", "+++ ")) and (old, new) == ends:  # of the next file
            yield _row("file", "", "", escaped(line))
            if line.startswith("+++ "):
                old = new = 0
                ends = 0, 0
        elif line[:1] in ("-", "+"):
            removed = _block(lines, at, "-", ends[0] - old)
            added = _block(lines, at + len(removed), "+", ends[1] - new)
            before, after = _marked(removed, added)
            yield from (_row("del", str(old + n), "", html) for n, html in enumerate(before))
            yield from (_row("add", "", str(new + n), html) for n, html in enumerate(after))
            old, new = old + len(removed), new + len(added)
            at += len(removed) + len(added)
            continue
        elif line.startswith("\\"):  # No newline at end of file
            yield _row("at", "", "", escaped(line))
        elif line or at + 1 < len(lines):
            yield _row("same", str(old) if old else "", str(new) if new else "", escaped(line))
            old, new = old + bool(old), new + bool(new)
        at += 1


def _block(lines: list[str], at: int, sign: str, left: int) -> list[str]:
    """Lines with the sign, up to the end of the hunk; all of them if its head is wrong."""
    end = at
    while end < len(lines) and lines[end].startswith(sign):
        end += 1
    return lines[at : at + left] if 0 < left < end - at else lines[at:end]


def _marked(removed: list[str], added: list[str]) -> tuple[list[str], list[str]]:
    """Equally many removed and added lines are compared pairwise."""
    if len(removed) != len(added):
        return [escaped(line) for line in removed], [escaped(line) for line in added]
    pairs = [_compared(before, after) for before, after in zip(removed, added, strict=True)]
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


def _compared(before: str, after: str) -> tuple[str, str]:
    """The common beginning and end left plain, the middle marked."""
    if max(len(before), len(after)) > _LONGEST:
        return escaped(before), escaped(after)
    shortest = min(len(before), len(after))
    head = 1
    while head < shortest and before[head] == after[head]:
        head += 1
    tail = 0
    while tail < shortest - head and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    if head + tail < shortest // 2:  # another line altogether
        return escaped(before), escaped(after)

    def marked(line: str) -> str:
        end = len(line) - tail
        middle = tag("mark", escaped(line[head:end])) if end > head else ""
        return escaped(line[:head]) + middle + escaped(line[end:])

    return marked(before), marked(after)


def _row(kind: str, old: str, new: str, html: str) -> str:
    return tag("span", tag("i", old), tag("i", new), html, "\n", class_=kind)


_TOKENS = ("prompt", "cached", "completion")
_WIDTH, _HEIGHT, _WIDEST, _MOST_POINTS = 600, 90, 30, 120


class TurnFigures(NamedTuple):
    """A turn: prompt tokens, cached ones of these, completion tokens, and cost in USD."""

    turn: int
    prompt: int
    cached: int
    completion: int
    cost: float


def figures_summary(bars: Sequence[TurnFigures], texts: Catalog) -> str:
    """All turns in a line of plain text."""
    counts = {kind: f"{sum(getattr(bar, kind) for bar in bars):,}" for kind in _TOKENS}
    cost = sum(bar.cost for bar in bars)
    return texts.say("viewer.summary", n=len(bars), **counts) + (f" · ${cost:.4f}" if cost else "")


def plot(all_bars: Sequence[TurnFigures], texts: Catalog) -> str:
    """Bars of tokens (cached, new, received), and cost as a line if known."""
    say = texts.say
    bars = _grouped(all_bars)
    highest = max((bar.prompt + bar.completion for bar in bars), default=0)
    if not highest:
        return ""
    width = min(_WIDTH / len(bars), _WIDEST)
    parts = []
    for at, bar in enumerate(bars):
        bottom = float(_HEIGHT)
        new = max(0, bar.prompt - bar.cached)
        for kind, tokens in (("cached", bar.cached), ("prompt", new), ("completion", bar.completion)):
            height = tokens / highest * (_HEIGHT - 8)
            bottom -= height
            place = {"x": f"{at * width + 0.5:.1f}", "y": f"{bottom:.1f}"}
            size = {"width": f"{max(1.0, width - 1):.1f}", "height": f"{height:.1f}"}
            parts.append(tag("rect", class_=kind, **place, **size))
        counts = {kind: f"{getattr(bar, kind):,}" for kind in _TOKENS}
        cost = f" · ${bar.cost:.4f}" if bar.cost else ""
        label = say("viewer.plot.turn", turn=bar.turn, **counts) + cost
        hit = {"x": f"{at * width:.1f}", "y": "0", "width": f"{width:.1f}", "height": str(_HEIGHT)}
        parts.append(tag("rect", tag("title", escaped(label)), class_="hit", data_turn=bar.turn, **hit))
    dearest = max(bar.cost for bar in bars)
    has_line = dearest > 0 and len(bars) > 1
    if has_line:
        points = " ".join(
            f"{(at + 0.5) * width:.1f},{_HEIGHT - bar.cost / dearest * (_HEIGHT - 8):.1f}"
            for at, bar in enumerate(bars)
        )
        parts.append(tag("polyline", class_="cost", points=points))
    svg = tag(
        "svg", *parts, class_="plot", viewBox=f"0 0 {_WIDTH} {_HEIGHT}", role="img",
        aria_label=say("viewer.plot"), preserveAspectRatio="none",
    )  # fmt: skip
    scale = [say("viewer.plot.highest", tokens=f"{highest:,}") + (f" · ${dearest:.4f}" if has_line else "")]
    if len(bars) < len(all_bars):
        scale.append(say("viewer.plot.joined", n=-(-len(all_bars) // len(bars))))
    kinds = ("cached", "prompt", "completion", *(["cost"] if has_line else []))
    keys = [tag("span", escaped(say(f"viewer.plot.{kind}")), class_=f"key {kind}") for kind in kinds]
    return svg + tag("p", *keys, tag("span", escaped(" · ".join(scale))), class_="legend")


def _grouped(bars: Sequence[TurnFigures]) -> list[TurnFigures]:
    """At most `_MOST_POINTS` bars: neighbouring turns are added up, under the number of the first."""
    step = -(-len(bars) // _MOST_POINTS) if bars else 1
    groups = (bars[at : at + step] for at in range(0, len(bars), step))
    return [
        TurnFigures(
            group[0].turn,
            sum(bar.prompt for bar in group),
            sum(bar.cached for bar in group),
            sum(bar.completion for bar in group),
            sum(bar.cost for bar in group),
        )
        for group in groups
    ]
