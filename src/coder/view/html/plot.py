"""Tokens and cost of each turn, as an SVG without script or style of its own, and its legend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from coder.texts import Texts
from coder.view.html.escape import tag, text_of

_TOKENS = ("prompt", "cached", "completion")
_WIDTH, _HEIGHT, _WIDEST, _MOST = 600, 90, 30, 120


class Bar(NamedTuple):
    """A turn: tokens sent, of these from the provider's cache, tokens received, and cost in USD."""

    turn: int
    prompt: int
    cached: int
    completion: int
    cost: float


def summary(bars: Sequence[Bar], texts: Texts) -> str:
    """All turns in a line of plain text."""
    counts = {kind: f"{sum(getattr(bar, kind) for bar in bars):,}" for kind in _TOKENS}
    cost = sum(bar.cost for bar in bars)
    return texts.say("viewer.summary", n=len(bars), **counts) + (f" · ${cost:.4f}" if cost else "")


def plot(all_bars: Sequence[Bar], texts: Texts) -> str:
    """Bars of tokens (cached, new, received), and cost as a line where it is known."""
    say = texts.say
    bars = _joined(all_bars)
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
        told = say("viewer.plot.turn", turn=bar.turn, **counts) + cost
        hit = {"x": f"{at * width:.1f}", "y": "0", "width": f"{width:.1f}", "height": str(_HEIGHT)}
        parts.append(tag("rect", tag("title", text_of(told)), class_="hit", data_turn=bar.turn, **hit))
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
    keys = [tag("span", text_of(say(f"viewer.plot.{kind}")), class_=f"key {kind}") for kind in kinds]
    return svg + tag("p", *keys, tag("span", text_of(" · ".join(scale))), class_="legend")


def _joined(bars: Sequence[Bar]) -> list[Bar]:
    """At most `_MOST` bars: neighbouring turns are added up, under the number of the first."""
    step = -(-len(bars) // _MOST) if bars else 1
    groups = (bars[at : at + step] for at in range(0, len(bars), step))
    return [
        Bar(
            group[0].turn,
            sum(bar.prompt for bar in group),
            sum(bar.cached for bar in group),
            sum(bar.completion for bar in group),
            sum(bar.cost for bar in group),
        )
        for group in groups
    ]
