"""The choices of an approval question, and its answer hunk by hunk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from coder.policy.visible import visible
from coder.protocol.events import ApprovalRequested
from coder.protocol.ops import ApprovalReply
from coder.texts import Catalog
from coder.tools.registry import built_in
from coder.tools.text.hunks import REVIEW, Hunk, Review, hunks_of
from coder.ui.terminal.ask.question_rows import is_about_turn
from coder.ui.terminal.render.escapes import safe
from coder.ui.terminal.render.width import Line, line_width, wrap
from coder.ui.terminal.screen_state import PromptState

_BETWEEN = " · "


class Choice(msgspec.Struct, frozen=True):
    """A key and its short description."""

    key: str
    about: str


def choices(event: ApprovalRequested, mode: str, texts: Catalog) -> list[Choice]:
    """The offered choices, likeliest first. `mode`: the operating mode."""
    say = texts.say
    if is_about_turn(event):  # no reason is passed on, and the subject explains `always`
        always = [Choice("a", say("approval.key_always_turn"))] if event.can_always else []
        return [Choice("y", say("approval.key_yes")), Choice("n", say("approval.key_no_plain")), *always]
    found = [Choice("y", say("approval.key_yes"))]
    if event.can_always:
        names = ", ".join(f"`{visible(name).text}`" for name in event.always_names)
        found.append(Choice("a", say("approval.key_always", names=names)))
    diff = event.subject_kind == "diff"
    edits = diff and built_in(event.tool).edits_files()
    if edits and mode == "default":  # else auto-edit would change nothing, or loosen plan
        found.append(Choice("e", say("approval.key_edits")))
    if edits and hunks_of(str(event.subject)):
        found.append(Choice("h", say("approval.key_hunks")))
    if diff:
        found.append(Choice("d", say("approval.key_diff")))
    return [*found, Choice("n", say("approval.key_no"))]


def choice_rows(offered: list[Choice], columns: int) -> list[Line]:
    """The choices in as few rows as possible, broken between choices if that takes no more rows."""
    rows: list[Line] = []
    line: Line = []
    for choice in offered:
        one: Line = [("ask", choice.key), ("", f" {choice.about}")]
        line += [("dim", _BETWEEN), *one] if line else one
        if rows and line_width(rows[-1]) + line_width(one) + len(_BETWEEN) <= columns:
            rows[-1] += [("dim", _BETWEEN), *one]
        else:
            rows += wrap(one, columns)
    return min(rows, wrap(line, columns), key=len)


class QuestionScreen(Protocol):
    """The screen, as far as questions need it."""

    def show_question(self, event: ApprovalRequested) -> None: ...

    def show_hunk(self, hunk: Hunk, number: int, count: int) -> None: ...

    def say_answer(self, line: Line) -> None: ...

    def draw_soon(self) -> None: ...

    def draw_now(self) -> None: ...

    def page_diff(self, text: str) -> None: ...

    def edit_diff(self, text: str, done: Callable[[str | None], None]) -> None: ...

    @property
    def is_away(self) -> bool:
        """Whether a pager or an editor has the terminal."""
        ...

    @property
    def has_unread_keys(self) -> bool:
        """Whether typed or pasted text was not handled yet."""
        ...


class HunkReview:
    """Goes through the hunks of one question; `finish` gets the reply and its echo."""

    def __init__(
        self,
        event: ApprovalRequested,
        state: PromptState,
        screen: QuestionScreen,
        finish: Callable[[ApprovalReply, str], None],
        texts: Catalog,
    ) -> None:
        self._event, self._state, self._screen = event, state, screen
        self._finish, self._texts = finish, texts
        self._applied = event.tool == REVIEW  # of changes that were made already
        self._review = Review(str(event.subject))
        self._next()

    @property
    def choices(self) -> list[Choice]:
        keys = {"y": "take", "n": "leave", "a": "take_rest", "e": "edit", "b": "back"}
        if self._applied:
            keys = {"y": "keep", "n": "take_back", "d": "rest"}
        elif self._review.at + 1 == len(self._review.hunks):
            del keys["a"]
        if self._review.can_split:
            keys["s"] = "split"
        return [Choice(key, self._texts.say(f"approval.hunk_{name}")) for key, name in keys.items()]

    @property
    def prompt(self) -> str:
        return self._texts.say("approval.hunk_ask", n=self._review.at + 1, all=len(self._review.hunks))

    @property
    def help(self) -> str:
        return self._texts.say("approval.about_review" if self._applied else "approval.about_hunks")

    def key(self, letter: str) -> bool:
        """False if the review is abandoned, for the question as a whole."""
        hunk, say = self._review.current, self._texts.say
        if hunk is None:
            return True
        if letter == "y":
            self._take(hunk)
        elif letter == "e":
            guide = "".join(f"# {line}\n" for line in say("approval.hunk_guide").split("\n"))
            self._screen.edit_diff(f"{hunk.text}\n{guide}", lambda text: self._edited(hunk, text))
        elif letter == "s":
            self._screen.say_answer([("dim", say("approval.said_split", n=self._review.split()))])
            self._next()
        elif letter in ("a", "d"):
            while self._review.current is not None:
                self._review.take()
            self._next()
        elif letter == "b":
            self._screen.say_answer([("dim", say("approval.hunk_dropped"))])
            return False
        return True

    def leave(self, reason: str) -> None:
        self._review.leave(reason)
        self._echo("take_back" if self._applied else "leave", reason)
        self._next()

    def _take(self, hunk: Hunk) -> None:
        done = "take" if hunk is self._review.current else "take_edited"
        self._echo("keep" if self._applied else done)
        self._review.take(hunk)
        self._next()

    def _echo(self, done: str, reason: str = "") -> None:
        said = self._texts.say(f"approval.said_{done}")
        if reason:
            said = self._texts.say("approval.said_because", said=said, reason=safe(reason).replace("\n", " "))
        self._screen.say_answer([("dim", said)])

    def _edited(self, hunk: Hunk, text: str | None) -> None:
        if self._state.approval is not self._event:
            return  # the turn was cancelled meanwhile
        if text is not None:
            text = "\n".join(line for line in text.split("\n") if not line.startswith("#"))
            text = text.removesuffix("\n")
        if text in (None, hunk.text):  # the person changed their mind
            self._screen.say_answer([("dim", self._texts.say("approval.hunk_unedited"))])
        elif (changed := hunk.edited(text)) is None:
            self._screen.say_answer([("bad", self._texts.say("approval.hunk_unreadable"))])
        else:
            self._take(changed)

    def _next(self) -> None:
        if (hunk := self._review.current) is not None:
            self._screen.show_hunk(hunk, self._review.at + 1, len(self._review.hunks))
            return
        taken, count = self._review.counts
        key = "approval.hunks_kept" if self._applied else "approval.hunks_done"
        self._finish(self._review.reply(self._event), self._texts.say(key, taken=taken, n=count))
