"""The live rows as text: spinner or context line, queue, menu, prompt."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from coder.config.schema import UiSection, key_names
from coder.texts import Catalog
from coder.ui.terminal.ask.approval_prompt import ApprovalPrompt
from coder.ui.terminal.input.editor import Editor
from coder.ui.terminal.input.menu import ROWS as MENU_ROWS
from coder.ui.terminal.pick import Picker
from coder.ui.terminal.render.escapes import safe
from coder.ui.terminal.render.status_row import busy_line
from coder.ui.terminal.render.theme import Theme
from coder.ui.terminal.render.transcript import Transcript
from coder.ui.terminal.render.width import Line, clip, clip_left, text_width, wrap
from coder.ui.terminal.screen_state import PromptState, context_line, display_path, prompt_line

LIVE_ROWS = 12
QUEUE_ROWS = 3
_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_FRAMES_A_SECOND = 8
# Debounce of resizes: tmux may delay SIGWINCH by 250 ms, and a row that the terminal reflowed meanwhile
# would be left behind. Until then the tail is hidden.
_RESIZING_SECONDS = 0.3
_NARROW = 24  # columns that are left in any case
_SHORTEST, _TYPING_ROOM = 8, 16  # columns: of a directory in the prompt, and for the text behind it
_ROOMY = 8  # rows from which a blank row separates transcript and prompt


def live_limit(rows: int) -> int:
    return max(1, min(LIVE_ROWS, rows - 6))


def shortened_path(cwd: str, mode: str, columns: int) -> str:
    """The directory for the prompt: its name alone if the prompt would take more than half of the row,
    truncated from the left if even that leaves no room to type."""
    around = text_width(f"[{mode}] > ")
    if text_width(cwd) <= max(columns // 2 - around, _SHORTEST):
        return cwd
    room = max(columns - around - _TYPING_ROOM, _SHORTEST)
    name = cwd.rpartition("/")[2]
    return next(
        (f"{cut}{name}" for cut in ("…/", "…") if text_width(cut + name) <= room), clip_left(name, room)
    )


class LiveRows:
    """Renders the sections of the live region from state that it only reads."""

    def __init__(
        self,
        state: PromptState,
        cwd: Path,
        ui: UiSection,
        texts: Catalog,
        theme: Theme,
        *,
        editor: Editor,
        transcript: Transcript,
        picker: Picker,
        question: ApprovalPrompt,
        bar: Callable[[], list[str]],
        size: Callable[[], tuple[int, int]],
        redraw_after: Callable[[float], object],
    ) -> None:
        self.state, self.cwd, self.plain = state, display_path(cwd), ui.plain
        self.texts, self.theme = texts, theme
        self.editor, self.transcript, self.picker, self.question = editor, transcript, picker, question
        self.bar, self.size, self.redraw_after = bar, size, redraw_after
        self.hint = ""  # shown until the next key: "Ctrl+C again leaves"
        self.key_names = key_names(ui.keys)
        self._tail: list[str] = []
        self._tail_size = (0, 0)  # the terminal's size when it was rendered
        self._resized = float("-inf")

    def update_tail(self) -> None:
        """Render the tail for the next frame; redraws by keys reuse it."""
        if self.plain:
            return
        if self._tail_size != self.size() and any(self._tail_size):
            self._resized = time.monotonic()
            self.redraw_after(_RESIZING_SECONDS + 0.05)
        self._tail_size = self.size()
        self._tail = self._render(self.transcript.live(live_limit(self._tail_size[1])))

    def live(self) -> list[str]:
        _, rows = self.size()
        if self._tail_size != self.size():
            self.update_tail()
        if self._resizing:
            return []
        below = len(self.menu()) + len(self.bar())
        spare = rows - 2 - len(self.status()) - below - len(self.queue()) - self.input_rows()
        return self._tail[-spare:] if spare > 0 else []

    @property
    def _resizing(self) -> bool:
        return self.state.busy and time.monotonic() - self._resized < _RESIZING_SECONDS

    def status(self) -> list[str]:
        columns, rows = self.size()
        columns = min(columns, _NARROW) if self._resizing else columns
        if rows < 3:
            return []
        if self.state.approval is not None:
            key = "terminal.question_waits" if self.editor.in_bar else "terminal.question_after_typing"
            waits: Line = [("ask", self.texts.say(key))]
            return self._render(
                self.question.rows(columns, rows) if self.state.answering else [clip(waits, columns)]
            )
        line = self._busy(columns) if self.state.busy else context_line(self.state, self.texts)
        if title := self.picker.title():
            line = [("strong", title)]
        if self.hint:
            line = [("note", self.hint)]
        gap: list[Line] = [[]] if rows > _ROOMY and line else []
        return self._render([*gap, clip(line, columns)]) if line else []

    def _busy(self, columns: int) -> Line:
        if self.plain:
            return []
        say = self.texts.say
        if self.state.phase == "stopping":
            return [("note", say("busy.stopping"))]
        frame = _FRAMES[int(time.monotonic() * _FRAMES_A_SECOND) % len(_FRAMES)]
        steer = self.key_names["steer"].lower().replace("–", "")
        return [("spin", f"{frame} "), *busy_line(self.state, self.texts, columns - 2, steer)]

    def queue(self) -> list[str]:
        columns, rows = self.size()
        waiting = [
            *(self.queued(text, "terminal.steered") for text in self.state.steered),
            *(self.queued(text) for text in self.state.queue),
        ]
        if not waiting or rows < 6 or self.plain:
            return []
        older = len(waiting) - QUEUE_ROWS + 1
        shown = waiting if older < 2 else waiting[older:]
        more: list[Line] = [] if older < 2 else [[("dim", f"… +{older}")]]
        return self._render([*more, *(clip(line, columns) for line in shown)])

    def queued(self, text: str, key: str = "terminal.queued") -> Line:
        shown = " ".join(self.editor.pastes.as_typed(text).split())
        return [("dim", self.texts.say(key, text=safe(shown)))]

    def menu(self) -> list[str]:
        menu = self.editor.menu
        columns, rows = self.size()
        if picking := self.picker.rows():
            return self._render(picking)
        if menu is None:
            return self._keys(columns, rows) if self.editor.keys_shown else []
        room = max(1, min(MENU_ROWS, rows - 4))
        hidden = len(menu.items) - room + 1 if len(menu.items) > room > 2 else 0
        visible = menu.visible(room - 1 if hidden else room)
        hinted = [f"{item.label} {item.hint}".rstrip() for item, _ in visible]
        width = max(map(text_width, hinted))
        narrow = width > columns // 2 and any(item.about for item, _ in visible)
        if narrow:  # descriptions are worth more than argument hints
            width = max(text_width(item.label) for item, _ in visible)
        lines: list[Line] = []
        for (item, chosen), label in zip(visible, hinted, strict=True):
            label = item.label if narrow and not chosen else label
            padding = " " * max(2, width - text_width(label) + 2) if item.about or item.scope else ""
            style = "chosen" if chosen else item.style
            line: Line = [(style, ("› " if chosen else "  ") + label), ("", padding)]
            line += [("scope", f"{safe(item.scope)}  " if item.scope else ""), ("dim", safe(item.about))]
            lines.append(clip(line, columns))
        if hidden:
            lines.append(clip([("dim", "  " + self.texts.say("terminal.menu_more", n=hidden))], columns))
        return self._render(lines)

    def _keys(self, columns: int, rows: int) -> list[str]:
        """The key help, below an empty line."""
        lines = self.texts.say("help.keys", **self.key_names).split("\n")
        found = [row for line in lines for row in wrap([("dim", line)], columns, [("", "  ")], [("", "  ")])]
        return self._render(found[: max(1, rows - 4)])

    def prompt(self) -> str:
        columns, rows = self.size()
        if self.state.answering:
            return self.theme.paint("ask", self.question.prompt(columns, rows))
        if searching := self.picker.prompt():
            return self.theme.paint("prompt", searching)
        text = prompt_line(self.state, shortened_path(self.cwd, self.state.mode, columns))
        mode, end, rest = text.partition("]")
        style = "prompt note" if self.state.mode == "yolo" else "prompt"  # which asks about nothing
        return self.theme.line([(style, mode + end), ("prompt", rest)])

    def input_rows(self) -> int:
        return min(self.editor.buffer.text.count("\n") + 1, max(1, self.size()[1] // 2))

    def _render(self, lines: list[Line]) -> list[str]:
        return [self.theme.line(line) for line in lines]
