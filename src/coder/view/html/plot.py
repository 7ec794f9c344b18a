"""Tokens and cost of each turn, as an SVG without script or style of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from coder.view.html.escape import tag

_WIDTH, _HEIGHT, _WIDEST, _MOST = 600, 90, 30, 120


class Bar(NamedTuple):
    """A turn: tokens sent, of these from the provider's cache, tokens received, and cost in USD."""

    turn: int
    prompt: int
    cached: int
    completion: int
    cost: float


def plot(bars: Sequence[Bar], label: str) -> str:
    """Bars of tokens (cached, new, received), and cost as a line where it is known."""
    bars = _joined(bars)
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
        told = f"{bar.turn}: {bar.prompt:,} + {bar.completion:,}" + (
            f" · ${bar.cost:.4f}" if bar.cost else ""
        )
        hit = {"x": f"{at * width:.1f}", "y": "0", "width": f"{width:.1f}", "height": str(_HEIGHT)}
        parts.append(tag("rect", tag("title", told), class_="hit", data_turn=bar.turn, **hit))
    dearest = max(bar.cost for bar in bars)
    if dearest and len(bars) > 1:
        points = " ".join(
            f"{(at + 0.5) * width:.1f},{_HEIGHT - bar.cost / dearest * (_HEIGHT - 8):.1f}"
            for at, bar in enumerate(bars)
        )
        parts.append(tag("polyline", class_="cost", points=points))
    return tag(
        "svg", *parts, class_="plot", viewBox=f"0 0 {_WIDTH} {_HEIGHT}", role="img", aria_label=label,
        preserveAspectRatio="none",
    )  # fmt: skip


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
