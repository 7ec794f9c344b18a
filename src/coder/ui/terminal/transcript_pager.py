"""The pager with the whole transcript, a resumed conversation, and earlier messages and sessions to choose
from."""

from __future__ import annotations

import asyncio
import os
import shlex
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from prompt_toolkit.application import run_in_terminal

from coder.base.process.programs import Runs, find_chosen, own_environment, run
from coder.base.text import one_line
from coder.engine.engine import Engine
from coder.history.entries_to_events import entries_to_events, typed_text
from coder.history.log import local_time
from coder.history.rewound import EarlierMessage
from coder.protocol.entries import Assistant
from coder.protocol.events import (
    AnyEvent,
    CommandDone,
    Content,
    ContentRestarted,
    Recorded,
    Thought,
    TurnEnded,
)
from coder.texts import Catalog
from coder.ui.terminal.pick import PickItem, PickSource
from coder.ui.terminal.render.escapes import flat
from coder.ui.terminal.render.event_lines import brief_reply, command_lines, message_lines, recent_lines
from coder.ui.terminal.render.live_region import LiveRegion
from coder.ui.terminal.render.theme import Theme
from coder.ui.terminal.render.transcript import Transcript
from coder.ui.terminal.render.width import Line, clip


def pager_command(
    environ: Mapping[str, str], workspace: Path, *, at_end: bool = False, hint: str = ""
) -> list[str] | None:
    """`$PAGER`, else `less`; None if it is missing or does not wait (`cat`). `at_end`: show the end first.
    `hint`: added to the prompt of `less`, even for text that fits (`-+F`)."""
    try:
        chosen = shlex.split(environ.get("PAGER", "")) or ["less"]
    except ValueError:
        chosen = ["less"]
    program = find_chosen(chosen[0], environ.get("PATH"), workspace)
    if program is None or os.path.basename(program) == "cat":  # noqa: PTH119 - a name, not a path to open
        return None
    usual = ["-R", "-+F", f"-Ps?e(END):\\:. {hint}", *(["+G"] if at_end else [])]
    return [program, *chosen[1:], *(usual if chosen == ["less"] else [])]


def run_pager(command: list[str], text: str, environ: Mapping[str, str]) -> None:
    """Block until the pager exits. Leaving it early (EPIPE) is not an error."""
    try:
        data = text.encode("utf-8", errors="replace")
        charset = {"LESSCHARSET": "utf-8"}  # the locale may not be installed
        run(command, runs=Runs.FOR_PERSON, given=data, environment={**charset, **own_environment(environ)})
    except OSError:
        return


CHOOSING = ("/resume", "/rewind", "/rewind conversation", "/rewind force")  # open a list
_UNFOLDED = 1 << 30  # lines of an output
_SESSIONS = 300
_FOUND = 30  # by a full-text search
_LONGEST_LABEL = 300  # characters
_MESSAGE_ROWS = 8
_SLICE_SECONDS = 0.02  # of rendering before keys are handled


class EarlierMessages:
    """The messages that the conversation can be taken back to; `alone`: without the files."""

    def __init__(self, engine: Engine, texts: Catalog, *, alone: bool) -> None:
        self._view, self._texts, self._alone = engine.view, texts, alone
        self._messages: dict[str, EarlierMessage] = {}

    @property
    def title(self) -> str:
        return self._texts.say("rewind.which")

    @property
    def hint(self) -> str:
        return self._texts.say("terminal.pick_message_alone" if self._alone else "terminal.pick_message")

    def items(self) -> list[PickItem]:
        self._messages = {str(one.turn): one for one in reversed(self._view.messages())}
        return [
            PickItem(turn, one_line(one.text, _LONGEST_LABEL), about=self._changed(one))
            for turn, one in self._messages.items()
        ]

    def _changed(self, message: EarlierMessage) -> str:
        known = message.changed and not message.undone
        return self._texts.say("rewind.changed", n=len(message.changed)).lstrip(" ·") if known else ""

    def search(self, query: str) -> list[PickItem]:
        return []

    def preview(self, item: PickItem, width: int) -> list[Line]:
        message = self._messages[item.key]
        lines = message_lines(message.text, width)[:_MESSAGE_ROWS]
        return [*map(_untinted, lines), *(_dim(path, width) for path in message.changed)]


class EarlierSessions:
    """The other sessions of this directory."""

    def __init__(self, engine: Engine, texts: Catalog) -> None:
        self._view, self._texts = engine.view, texts

    @property
    def title(self) -> str:
        return self._texts.say("terminal.pick_which_session")

    @property
    def hint(self) -> str:
        return self._texts.say("terminal.pick_session")

    def items(self) -> list[PickItem]:
        return [
            self._item(info.session_id, info.title, info.updated_at, info.turns)
            for info in self._view.sessions(_SESSIONS)
            if info.session_id != self._view.session_id
        ]

    def search(self, query: str) -> list[PickItem]:
        return [
            self._item(
                one.session_id, one.title, one.updated_at, one.turns, "\n".join(hit.line for hit in one.hits)
            )
            for one in self._view.search(query, _FOUND)
            if one.session_id != self._view.session_id
        ]

    def _item(self, key: str, title: str, updated: float, turns: int, found: str = "") -> PickItem:
        about = self._texts.say("status.turns", n=turns)
        return PickItem(key, title or key, before=local_time(updated), about=about, found=found)

    def preview(self, item: PickItem, width: int) -> list[Line]:
        found = [_dim(line, width) for line in item.found.split("\n") if line]
        recent = recent_lines(self._view.recent_turns(item.key)[-2:], self._texts, width)
        return [*found, *map(_untinted, recent)]


def pick_source(command: str, engine: Engine, texts: Catalog) -> PickSource:
    if command == "/resume":
        return EarlierSessions(engine, texts)
    return EarlierMessages(engine, texts, alone=command.endswith("conversation"))


def with_choice(command: str, key: str) -> str:
    name, *words = command.split()
    return " ".join(filter(None, [name, key, *words]))


def _untinted(line: Line) -> Line:
    """Without tints (the live region has fewer colours) and message marks (they look like the selection)."""
    return [
        ("", "  ") if style.startswith("prompt") else (style.replace("said", "strong"), text)
        for style, text in line
        if text
    ]


def _dim(text: str, width: int) -> Line:
    return clip([("dim", flat(text))], width)


class TranscriptPager:
    """Shows the history of the current session again."""

    def __init__(self, engine: Engine, texts: Catalog, theme: Theme, region: LiveRegion) -> None:
        self._view, self._texts, self._theme, self._region = engine.view, texts, theme, region
        self._streaming: list[AnyEvent] = []  # thinking and answer that are not in the record yet

    def handle(self, event: AnyEvent) -> None:
        match event:
            case Thought() | Content():
                self._streaming.append(event)
            case ContentRestarted() | TurnEnded():
                self._streaming.clear()
            case Recorded(entry) if isinstance(entry.entry, Assistant):
                self._streaming.clear()

    # the pager

    def open_transcript(self) -> bool:
        """The whole session, unfolded. False if there is no pager."""
        streaming = list(self._streaming)
        return self._page(lambda: self._transcript_lines(streaming), at_end=True)

    def page_lines(self, lines: Sequence[Line]) -> bool:
        return self._page(lambda: lines)

    def page_reply(self, event: CommandDone) -> int:
        """Page a reply longer than the screen; its length, or 0 if it is shorter or there is no pager."""
        lines = command_lines(event, self._texts)
        return len(lines) if len(lines) >= self._region.rows - 3 and self.page_lines(lines) else 0

    def _transcript_lines(self, streaming: Sequence[AnyEvent]) -> Iterator[Line]:
        """Called by the pager's thread."""
        columns = self._region.columns
        transcript = Transcript(self._texts, lambda: columns)
        transcript.folds, transcript.output_lines = False, _UNFOLDED
        for event in (*entries_to_events(self._view.history(), self._view.outputs), *streaming):
            _show_recorded(transcript, event, columns)
            yield from transcript.drain(0)
        transcript.echo([[]])  # ends the answer that is being written
        yield from transcript.drain(0)

    def _page(self, lines: Callable[[], Iterable[Line]], *, at_end: bool = False) -> bool:
        hint, app = self._texts.say("terminal.pager_hint"), self._region.app.context
        command = pager_command(os.environ, self._view.root, at_end=at_end, hint=hint)
        if command is None or app is None:
            return False
        environment, paint = self._view.environment, self._theme.line

        def show() -> None:
            run_pager(command, "".join(f"{paint(line)}\n" for line in lines()), environment)

        app.copy().run(run_in_terminal, show, in_executor=True)
        return True

    # a resumed session

    async def replay(self, transcript: Transcript, draw: Callable[[], None]) -> None:
        """Write the conversation into the scrollback, handling keys meanwhile."""
        columns, began = self._region.columns, time.monotonic()
        for event in entries_to_events(self._view.history(), self._view.outputs, brief_reply):
            _show_recorded(transcript, event, columns)
            if time.monotonic() - began > _SLICE_SECONDS:
                draw()
                await asyncio.sleep(0)
                began = time.monotonic()
        draw()


def _show_recorded(transcript: Transcript, event: AnyEvent, columns: int) -> None:
    if text := typed_text(event):
        transcript.echo([[], *message_lines(text, columns)])
    transcript.handle(event)
