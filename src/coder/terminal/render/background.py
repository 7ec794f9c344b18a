"""The terminal's background colour, asked for with OSC 11, so that the `auto` theme need not guess.

The answer comes among the keys, whenever it likes: nothing waits for it, the prompt is drawn in the guessed
theme meanwhile, and the keyboard's parser takes the answer out, late or in pieces.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from coder.terminal.render.theme import NAMES

QUERY = "\x1b]11;?\x1b\\"
_COLOUR = re.compile(r"\x1b\]11;rgba?:([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})")
_SILENT = ("", "dumb", "unknown", "linux", "cons25", "vt100", "vt220")  # do not answer, or print the query
_WEIGHTS = (0.299, 0.587, 0.114)  # of red, green and blue in perceived brightness


def may_ask(setting: str, environ: Mapping[str, str]) -> bool:
    """Whether the theme depends on the background, and the terminal can be expected to know the question."""
    return setting not in NAMES and not environ.get("NO_COLOR") and environ.get("TERM", "dumb") not in _SILENT


def theme_on(answer: str) -> str:
    """The theme for a background; empty if the answer cannot be read."""
    found = _COLOUR.match(answer)
    if found is None:
        return ""
    shares = [int(part, 16) / (16 ** len(part) - 1) for part in found.groups()]
    brightness = sum(weight * share for weight, share in zip(_WEIGHTS, shares, strict=True))
    return "light" if brightness > 0.5 else "dark"
