"""The live rows as text: spinner or context line, queue, menu, prompt."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from coder.terminal.editor import Editor
from coder.terminal.menu import ROWS as MENU_ROWS
from coder.terminal.safe import safe
from coder.terminal.stream import Stream
from coder.terminal.talk import Talk, activity, seconds, shown_folder
from coder.terminal.theme import Theme
from coder.terminal.width import Line, clip, text_width
from coder.texts import Texts

LIVE_ROWS = 12
_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_FRAMES_A_SECOND = 8
_ROOMY = 8  # rows from which on there is one to spare between the stream and the prompt


def live_limit(rows: int) -> int:
    """How tall the unfinished tail may be: what the prompt and its surroundings leave."""
    return max(1, min(LIVE_ROWS, rows - 6))


def context_line(talk: Talk) -> Line:
    line = f"context: {talk.tokens} tokens · model: {safe(talk.model)}"
    if talk.cost_usd or talk.budget_usd is not None:
        limit = f" of {talk.budget_usd:.2f}" if talk.budget_usd is not None else ""
        line += f" · {talk.cost_usd:.4f}{limit} USD"
    return [("dim", line)]


def prompt_text(talk: Talk, cwd: str) -> str:
    return f"[{talk.mode}] {cwd}> "


def fitting_folder(cwd: str, mode: str, columns: int) -> str:
    """Where the prompt would take more than half of the row, the folder's end stands for it."""
    room = columns // 2 - text_width(f"[{mode}] > ")
    if text_width(cwd) <= max(room, 8):
        return cwd
    return "…/" + cwd.rpartition("/")[2][-max(room - 2, 6) :]


class Display:
    """Gives the screen its rows. Reads state, changes none."""

    def __init__(
        self, talk: Talk, editor: Editor, stream: Stream, texts: Texts, theme: Theme, cwd: Path
    ) -> None:
        self.talk, self.editor, self.stream = talk, editor, stream
        self.texts, self.theme = texts, theme
        self.cwd = shown_folder(cwd)
        self.plain = False
        self.hint = ""  # a line that stands until the next key: "Ctrl+C again leaves"
        self.size: Callable[[], tuple[int, int]] = lambda: (80, 24)
        self._live: list[str] = []

    def freeze(self) -> None:
        """Work the tail out for the frame that is about to be drawn; keys redraw it as it is."""
        if self.plain:
            return
        _, rows = self.size()
        self._live = self._painted(self.stream.live(live_limit(rows)))

    def live(self) -> list[str]:
        _, rows = self.size()
        spare = rows - 2 - len(self.status()) - len(self.menu()) - len(self.queue()) - self._input_rows()
        return self._live[-spare:] if spare > 0 else []

    def status(self) -> list[str]:
        columns, rows = self.size()
        if rows < 3:
            return []
        if self.talk.approval is not None:
            return []
        line = self._busy() if self.talk.busy else context_line(self.talk)
        if self.hint:
            line = [("note", self.hint)]
        gap: list[Line] = [[]] if rows > _ROOMY and line else []
        return self._painted([*gap, clip(line, columns)]) if line else []

    def _busy(self) -> Line:
        if self.plain:
            return []
        say = self.texts.say
        if self.talk.phase == "stopping":
            return [("note", say("terminal.stopping"))]
        frame = _FRAMES[int(time.monotonic() * _FRAMES_A_SECOND) % len(_FRAMES)]
        columns, _ = self.size()
        tail = " · " + say("terminal.busy", seconds=seconds(self.talk))
        what = clip(
            [("", activity(self.talk) or say("terminal.waiting"))], max(4, columns - text_width(tail) - 2)
        )
        return [("spin", f"{frame} "), *what, ("dim", tail)]

    def queue(self) -> list[str]:
        columns, rows = self.size()
        if not self.talk.queue or rows < 6:
            return []
        shown = [
            clip([("dim", self.texts.say("terminal.queued", text=safe(" ".join(text.split()))))], columns)
            for text in self.talk.queue[-3:]
        ]
        return self._painted(shown)

    def menu(self) -> list[str]:
        menu = self.editor.menu
        if menu is None:
            return []
        columns, rows = self.size()
        visible = menu.visible(max(1, min(MENU_ROWS, rows - 4)))
        width = max(text_width(_entry(item.label, item.hint)) for item, _ in visible)
        lines: list[Line] = []
        for item, chosen in visible:
            label = _entry(item.label, item.hint)
            padding = " " * (width - text_width(label) + 2) if item.about or item.scope else ""
            line: Line = [("chosen" if chosen else "", ("› " if chosen else "  ") + label), ("", padding)]
            line += [("dim", safe(item.about)), ("scope", f"  {safe(item.scope)}" if item.scope else "")]
            lines.append(clip(line, columns))
        return self._painted(lines)

    def prompt(self) -> str:
        if self.talk.approval is not None:
            key = "approval.choices" if self.talk.approval.can_always else "approval.choices_once"
            return self.theme.paint("note", self.texts.say(key))
        columns, _ = self.size()
        return self.theme.paint(
            "prompt", prompt_text(self.talk, fitting_folder(self.cwd, self.talk.mode, columns))
        )

    def _input_rows(self) -> int:
        return min(self.editor.buffer.text.count("\n") + 1, max(1, self.size()[1] // 2))

    def _painted(self, lines: list[Line]) -> list[str]:
        return [self.theme.line(line) for line in lines]


def _entry(label: str, hint: str) -> str:
    return f"{label} {hint}".rstrip()
