"""Sequences that draw nothing: the terminal's title, its bell, its clipboard."""

from __future__ import annotations

import base64

from coder.terminal.safe import safe

LONG_TURN_SECONDS = 20.0  # a turn that took this long rings: the person may be looking elsewhere
_CLIPBOARD_BYTES = 74_994  # what terminals take at most in one OSC 52 (tmux, xterm: 100,000 in base64)

BELL = "\a"
PUSH_TITLE, POP_TITLE = "\x1b[22;2t", "\x1b[23;2t"


def title(text: str) -> str:
    return f"\x1b]2;{safe(text)[:80]}\a"


def clipboard(text: str) -> str | None:
    """OSC 52; None for a text that terminals would refuse or cut off."""
    data = text.encode("utf-8", errors="replace")
    if not data or len(data) > _CLIPBOARD_BYTES:
        return None
    return f"\x1b]52;c;{base64.b64encode(data).decode('ascii')}\a"
