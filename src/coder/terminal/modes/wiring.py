"""Custom modes at the terminal: the book of what is known, the menu's entries and the bar, connected."""

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
from coder.terminal.modes.known import ModeBook
from coder.terminal.modes.menu import ModeMenu
from coder.terminal.modes.rows import Spoken
from coder.terminal.modes.slot import ModeBar, NoBar
from coder.terminal.render.theme import Theme
from coder.texts import Texts

ModeOp = ListCustomModes | SetModeState | TriggerInstantMode


class Modes:
    """`send` puts an op to the engine (False: not now), `say` adds a line to the stream."""

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
        self.book = ModeBook()
        self.menu = ModeMenu(self.book, texts)
        self._form = None if plain else CustomModeBar(self.book, texts, theme, send, size)
        self.bar: ModeBar = self._form or NoBar()
        self._spoken = Spoken(texts) if plain else None
        self._send, self._say = send, say
        self._unlisted = False

    def take(self, event: AnyEvent) -> bool:
        """Whether the event was about modes alone."""
        self.book.take(event)
        match event:
            case SessionStarted():
                self._unlisted = True
                self.bar.leave()
            case ModeStateChanged() if self._spoken and (line := self._spoken.take(event)):
                self._say(line)
            case CustomModesListed():
                self.menu.items()
        return isinstance(event, CustomModesListed | ModeStateChanged)

    def shown(self) -> None:
        """The prompt is on the screen: from here on there is time to read a thousand files."""
        if self._unlisted:
            self._unlisted = False
            self._send(ListCustomModes())

    def fill(self, data: Mapping[str, object]) -> bool:
        """Open the form where a typed line asks for it; whether it is open."""
        mode_id, values = data.get("mode_id"), data.get("values")
        if self._form is None or not data.get("form") or not isinstance(mode_id, str):
            return False
        given = {str(k): str(v) for k, v in values.items()} if isinstance(values, dict) else {}
        return self._form.open_form(mode_id, given, from_line=True)
