"""The prompt's editor with its real keys, in this process and without a screen: quick enough for many."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from prompt_toolkit.application import Application
from prompt_toolkit.application.current import set_app
from prompt_toolkit.data_structures import Size
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.input import DummyInput
from prompt_toolkit.key_binding.key_processor import KeyPress, _Flush
from prompt_toolkit.layout import BufferControl, HSplit, Layout, Window
from prompt_toolkit.output import DummyOutput
from prompt_toolkit.widgets import SearchToolbar

from coder.config.schema import KeyAction
from coder.texts import Catalog
from coder.ui.terminal.input.actions import Actions
from coder.ui.terminal.input.editing import escaped_path
from coder.ui.terminal.input.editor import Editor, InputFocus
from coder.ui.terminal.input.input_history import ProjectHistory
from coder.ui.terminal.input.keyboard import Keyboard
from coder.ui.terminal.input.keys import bindings
from coder.ui.terminal.input.menu import MenuItem, Menus
from coder.ui.terminal.pick import Picker
from coder.ui.terminal.screen_state import PromptState

ESCAPE = "␛"  # the key by itself; "\x1b" begins a sequence
NOWHERE = Path(os.devnull, "history")  # which nobody can make, root neither


class _Sized(DummyOutput):
    """An output of a size."""

    def __init__(self, columns: int) -> None:
        self._columns = columns

    def get_size(self) -> Size:
        return Size(rows=24, columns=self._columns)


class Bench:
    """An editor to type at. What is sent, cancelled and left is written down."""

    def __init__(
        self,
        *,
        vim: bool = False,
        columns: int = 80,
        files: Sequence[str] = (),
        arguments: dict[str, Callable[[str], Sequence[MenuItem]]] | None = None,
        history: Path = NOWHERE,
        keys: dict[KeyAction, str] | None = None,
    ) -> None:
        items = [MenuItem(name, name) for name in ("help", "model", "mode", "status")]
        paths = [MenuItem(name, escaped_path(name)) for name in files]
        menus = Menus(
            [type("Some", (), {"items": lambda _self: items})()],
            arguments or {},
            lambda query: [item for item in paths if query in item.label],
        )
        self.editor = Editor(ProjectHistory(history), menus, lambda n: f"[pasted {n} lines]")
        self.state = PromptState(model="m", mode="default", queue=[], calls={})
        self.sent: list[str] = []
        self.cancelled = 0
        self.left = False
        bar: Any = SimpleNamespace(editing=False, enter=lambda: False)
        session: Any = self
        self.actions = Actions(InputFocus(self.editor, bar), self.state, session, Path.cwd())
        self.picker = Picker(self.editor, Catalog("en"), lambda: (columns, 24), lambda: None)
        search = SearchToolbar()
        question: Any = SimpleNamespace(
            takes=lambda _key: False, is_reason_empty=lambda: False, leave_reason=None, key=None
        )
        window = Window(
            BufferControl(self.editor.buffer, search_buffer_control=search.control, preview_search=True),
            get_line_prefix=lambda line, wrapped: "> " if line == wrapped == 0 else "  ",
        )
        self.app: Application[None] = Application(
            layout=Layout(HSplit([window, search])),
            key_bindings=bindings(self.actions, self.picker, question, keys or {}),
            editing_mode=EditingMode.VI if vim else EditingMode.EMACS,
            input=DummyInput(),
            output=_Sized(columns),
        )
        self.actions.attach(self.app)
        self._pressed: list[KeyPress] = []
        self._keyboard = Keyboard(self._pressed.append)

    # what the actions ask for

    def submit(self, text: str) -> None:
        self.sent.append(text)

    def steer(self, text: str) -> None:
        self.sent.append(f"steered: {text}")

    def set_mode(self, mode: str) -> None:
        raise AssertionError(f"no mode is chosen here: {mode}")

    def show_transcript(self) -> None:
        raise AssertionError("no transcript is opened here")

    def rewind(self) -> None:
        self.sent.append("rewind")

    def cancel(self) -> None:
        self.cancelled += 1

    def leave(self) -> None:
        self.left = True

    # acting and looking

    async def type(self, *keys: str) -> Bench:
        """Each text in one go, with a pause after it."""
        with set_app(self.app):
            for text in keys:
                for at, part in enumerate(text.split(ESCAPE)):
                    if at:
                        self._press("\x1b")
                    self._press(part)
                self.editor.buffer.load_history_if_not_yet_loaded()
                await asyncio.sleep(0)
        return self

    def _press(self, text: str) -> None:
        self._keyboard.feed(text)
        self._keyboard.flush()
        processor = self.app.key_processor
        processor.feed_multiple(self._pressed)
        self._pressed.clear()
        processor.process_keys()
        if processor.key_buffer:  # nothing follows that might make another key of it
            processor.feed(_Flush)
            processor.process_keys()

    async def paste(self, text: str) -> Bench:
        return await self.type(f"\x1b[200~{text}\x1b[201~")

    @property
    def text(self) -> str:
        return self.editor.buffer.text

    @property
    def marked(self) -> str:
        """The text with the caret in it."""
        at = self.editor.buffer.cursor_position
        return f"{self.text[:at]}|{self.text[at:]}"

    @property
    def offered(self) -> list[str]:
        return [item.label for item in self.editor.menu.items] if self.editor.menu else []


def typed(*keys: str, **options: Any) -> Bench:
    """A bench after those keys."""

    async def run() -> Bench:
        return await Bench(**options).type(*keys)

    return asyncio.run(run())
