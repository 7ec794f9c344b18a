"""Escape sequences that draw nothing: title, bell, desktop notification, clipboard (OSC 52)."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Mapping

from coder.config.schema import UiSection
from coder.terminal.render.sanitize import flat

_CLIPBOARD_BYTES = 74_994  # limit of one OSC 52 (tmux, xterm: 100,000 in base64)
_BELL = "\a"
_PUSH_TITLE, _POP_TITLE = "\x1b[22;2t", "\x1b[23;2t"
_TITLE_CHARS = 80
# Terminals that support OSC 777 (urxvt's) but not OSC 9.
_KNOW_777 = ("rxvt", "foot")


class Notifier:
    """Keeps the window title, and alerts a person who is away, as far as `ui` allows."""

    def __init__(
        self, ui: UiSection, environ: Mapping[str, str], name: str, send: Callable[[str], None]
    ) -> None:
        self._ui, self._environ, self._send = ui, environ, send
        self._name = name
        self._last_key = time.monotonic()

    def key_pressed(self) -> None:
        """Whoever types needs no bell."""
        self._last_key = time.monotonic()

    def opened(self) -> None:
        if self._ui.title:
            self._send(_PUSH_TITLE + _title(self._name))

    def busy(self) -> None:
        if self._ui.title:
            self._send(_title(f"● {self._name}"))

    def idle(self) -> None:
        if self._ui.title:
            self._send(_title(self._name))

    def closed(self) -> None:
        if self._ui.title:
            self._send(_POP_TITLE)

    def alert(self, text: str) -> None:
        """Ring and notify, unless a key was pressed recently."""
        if time.monotonic() - self._last_key < self._ui.bell_seconds:
            return
        if self._ui.bell:
            self._send(_BELL)
        if self._ui.notify:
            self._send(notification(self._name, text, self._environ))


def _title(text: str) -> str:
    return f"\x1b]2;{flat(text)[:_TITLE_CHARS]}\a"


def notification(name: str, text: str, environ: Mapping[str, str]) -> str:
    """A desktop notification, wrapped for tmux passthrough; terminals without support ignore it."""
    name, text = (flat(part).replace(";", ",") for part in (name, text))
    if environ.get("VTE_VERSION") or environ.get("TERM", "").startswith(_KNOW_777):
        sequence = f"\x1b]777;notify;{name};{text}\a"
    else:
        sequence = f"\x1b]9;{name}: {text}\a"
    return f"\x1bPtmux;\x1b{sequence}\x1b\\" if environ.get("TMUX") else sequence


def clipboard(text: str) -> str | None:
    """OSC 52; None for text that terminals would refuse or truncate."""
    data = text.encode("utf-8", errors="replace")
    if not data or len(data) > _CLIPBOARD_BYTES:
        return None
    return f"\x1b]52;c;{base64.b64encode(data).decode('ascii')}\a"
