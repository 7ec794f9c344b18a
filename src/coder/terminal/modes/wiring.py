"""Connects custom modes to the terminal: their state, menu entries and bar."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from coder.protocol.events import AnyEvent, SessionStarted
from coder.protocol.modes import (
    CustomModesListed,
    ListCustomModes,
    ModeStateChanged,
    SetModeState,
    TriggerInstantMode,
)
from coder.terminal.modes.bar import CustomModeBar
from coder.terminal.modes.known import KnownModes
from coder.terminal.modes.menu import ModeMenu
from coder.terminal.modes.rows import ModeAnnouncer
from coder.terminal.modes.slot import ModeBar, NoBar
from coder.terminal.render.theme import Theme
from coder.texts import Texts

ModeOp = ListCustomModes | SetModeState | TriggerInstantMode


class Modes:
    """`send` submits an op (False: not now), `say` adds a line to the transcript."""

    def __init__(
        self,
        texts: Texts,
        theme: Theme,
        size: Callable[[], tuple[int, int]],
        send: Callable[[ModeOp], bool],
        say: Callable[[str], None],
        *,
        plain: bool,
    ) -> None:
        self.known = KnownModes()
        self.menu = ModeMenu(self.known, texts)
        self._form = None if plain else CustomModeBar(self.known, texts, theme, send, size)
        self.bar: ModeBar = self._form or NoBar()
        self._announcer = ModeAnnouncer(texts) if plain else None
        self._send, self._say = send, say
        self._list_when_drawn = False

    def take(self, event: AnyEvent) -> bool:
        """Whether the event concerns only modes."""
        self.known.take(event)
        match event:
            case SessionStarted():
                self._list_when_drawn = True
                self.bar.leave()
            case ModeStateChanged() if self._announcer and (line := self._announcer.take(event)):
                self._say(line)
            case CustomModesListed():
                self.menu.items()
        return isinstance(event, CustomModesListed | ModeStateChanged)

    def prompt_drawn(self) -> None:
        """List the modes once the prompt is visible: reading their files must not delay it."""
        if self._list_when_drawn:
            self._list_when_drawn = False
            self._send(ListCustomModes())

    def fill(self, data: Mapping[str, object]) -> bool:
        """Open the form if the command's result asks for it; returns whether it is open."""
        mode_id, values = data.get("mode_id"), data.get("values")
        if self._form is None or not data.get("form") or not isinstance(mode_id, str):
            return False
        given = {str(k): str(v) for k, v in values.items()} if isinstance(values, dict) else {}
        return self._form.open_form(mode_id, given, from_line=True)
