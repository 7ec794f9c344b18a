"""Approval questions at the prompt: one key decides, words and reasons are typed.

`y`, `n`, `h` and `s` act at once. The other keys grant more, or open a program: they act after a pause
without another letter, so that the first letter of a sentence grants nothing.

A key meant for something else never answers: the question waits until nobody types, searches or fills in a
form. The draft is stashed until the question is answered.
"""

from __future__ import annotations

import time
import unicodedata
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

import msgspec

from coder.policy.visible import visible
from coder.protocol.events import ApprovalRequested
from coder.protocol.ops import ApprovalReply, SetOperatingMode
from coder.texts import Catalog
from coder.tools.registry import built_in
from coder.tools.text.hunks import REVIEW, Hunk, Review, hunks_of
from coder.ui.terminal.ask.question import (
    ParsedAnswer,
    QuestionQueue,
    answer_echo,
    approval_question,
    approval_reply,
)
from coder.ui.terminal.ask.question_rows import is_about_turn
from coder.ui.terminal.input.editing import approval_answer
from coder.ui.terminal.input.editor import InputFocus
from coder.ui.terminal.render.escapes import safe
from coder.ui.terminal.render.width import Line, line_width, wrap
from coder.ui.terminal.screen_state import PromptState, question_done

if TYPE_CHECKING:
    from coder.ui.terminal.screen import Screen

_PAUSE = 0.7  # seconds between two letters of a word
_REST = {"y": "es", "a": "lways"}

Later = Callable[[float, Callable[[], None]], object]
"""Calls a function after so many seconds."""


class AnswerTail:
    """Swallows the letters of `yes` or `always` typed after their first one has answered; `give_back` gets
    letters that turn out to be something else."""

    def __init__(self, give_back: Callable[[str], None], later: Later) -> None:
        self._give_back, self._later = give_back, later
        self._rest = self._held = ""
        self._until = float("-inf")

    def expect(self, letter: str) -> None:
        self._rest, self._held = _REST.get(letter, ""), ""
        self._extend()

    def end(self) -> None:
        self._held, self._until = "", float("-inf")

    def _extend(self) -> None:
        self._until = time.monotonic() + _PAUSE
        self._later(_PAUSE + 0.01, self._expire)

    def takes(self, key: str) -> bool:
        """`key`: a letter, or `\\r`."""
        active = time.monotonic() < self._until and len(key) == 1
        return active and (key == "\r" or self._continues(key) or bool(self._held and key.isprintable()))

    def _continues(self, key: str) -> bool:
        return bool(key) and self._rest.startswith(self._held + key.lower())

    def key(self, key: str) -> None:
        if key == "\r":
            if self._held not in ("", self._rest):
                self._give_back(self._held)
            self.end()
            return
        if not self._continues(key):
            self._interrupted(key)
            return
        self._held += key.lower()
        self._extend()

    def _interrupted(self, key: str = "") -> None:
        held, self._held, self._until = self._held, "", float("-inf")
        if key or held != self._rest:
            self._give_back(held + key)

    def _expire(self) -> None:
        if self._held and time.monotonic() >= self._until:
            self._interrupted()


_PAUSE_SECONDS = 1.0  # without a key, until the question gets the keyboard while somebody types
_REPEAT_SECONDS = 0.35  # after an answer, in which a key pressed twice does not decide the next question
_FOLLOWING_SECONDS = 0.5  # a yes this soon after another question was answered is for that one, typed twice
_WORD_SECONDS = 0.4  # within which a second letter makes a word of the first
_N_WORD_ENDS = ("ot", "ope", "othing", "obody", "eed")  # of words that begin with `n`
_IMMEDIATE = ("y", "n", "h", "s")
_HELP = "?"
_MIN_ROWS = 3  # of a terminal that has room for the choices


class ApprovalPrompt:
    """The open question and the state of its answer."""

    def __init__(
        self,
        state: PromptState,
        focus: InputFocus,
        screen: Screen,
        questions: QuestionQueue,
        submit: Callable[[ApprovalReply | SetOperatingMode], None],
        later: Later,
        texts: Catalog,
    ) -> None:
        self._state, self._focus, self._screen = state, focus, screen
        self._questions, self._submit, self._later = questions, submit, later
        self._editor, self._texts = focus.editor, texts
        self._current: ApprovalRequested | None = None
        self._stage: Literal["choose", "reason"] = "choose"
        self._review: HunkReview | None = None
        self._quiet_from = 0.0  # when the question gets the keyboard, if no key comes before
        self._answered = self._yes_from = float("-inf")
        self._was_elsewhere = False  # at the last key
        self._note = self._next_note = ""  # shown until the next key; the same of the key being handled
        self._unparsed = ""  # text that was no answer: the default reason of a `n` that follows
        self._tail = AnswerTail(self._editor.type_into_draft, later)
        self._editor.buffer.on_text_insert += lambda _buffer: self._tail.end()

    # keyboard focus

    def update(self) -> None:
        """Show the pending question if it is new; restore the draft if there is none."""
        event = self._state.approval
        if event is self._current:
            return
        self._current, self._review, self._stage = event, None, "choose"
        self._note = self._next_note = self._unparsed = ""
        self._state.answering = False
        self._editor.unstash()
        if event is None:
            return
        if not self._focus.bar.editing:
            self._focus.leave_bar()
        self._editor.close_menu()
        if event.tool == REVIEW and hunks_of(str(event.subject)):
            self._review = self._start_review(event)
        else:
            self._screen.show_question(event)
        follows = self._questions.follows
        self._yes_from = time.monotonic() + _FOLLOWING_SECONDS if follows else float("-inf")
        self._wait(_PAUSE_SECONDS if self._elsewhere else 0)

    @property
    def _elsewhere(self) -> bool:
        return self._focus.occupied or self._editor.in_bar

    def _wait(self, seconds: float) -> None:
        self._quiet_from = time.monotonic() + seconds
        if seconds:
            self._later(seconds + 0.01, self._take_keyboard)
        else:
            self._take_keyboard()

    def _take_keyboard(self) -> None:
        if self._current is None or self._state.answering or time.monotonic() < self._quiet_from:
            return
        if self._editor.in_bar or self._screen.region.is_lent:
            self._wait(_REPEAT_SECONDS)
            return
        self._screen.draw_now()  # no key may answer what is not on the screen yet
        if self._screen.region.has_unread_keys:
            self._wait(_REPEAT_SECONDS)
            return
        self._state.answering = True
        self._focus.stash_draft()
        self._screen.draw_now()

    def key_pressed(self) -> None:
        """Restart the pause while the person does something else."""
        elsewhere = self._elsewhere
        if self._current is not None and not self._state.answering and (elsewhere or self._was_elsewhere):
            self._wait(_PAUSE_SECONDS)
        self._was_elsewhere = elsewhere
        self._note, self._next_note = self._next_note, ""

    # rows

    @property
    def _offered(self) -> list[KeyChoice]:
        if self._review is not None:
            return self._review.choices
        event = self._state.approval
        return choices(event, self._state.mode, self._texts) if event is not None else []

    def rows(self, columns: int, rows: int) -> list[Line]:
        """The keys and their meaning, above the prompt."""
        if self._state.approval is None or rows < _MIN_ROWS:
            return []
        if self._stage == "reason":
            return wrap([("dim", self._texts.say("approval.reason_keys"))], columns)
        note = wrap([("note", self._note)], columns)[: rows - _MIN_ROWS] if self._note else []
        return [*note, *choice_rows(self._offered, columns)]

    def prompt(self, columns: int, rows: int) -> str:
        event, say = self._state.approval, self._texts.say
        if self._stage == "reason":
            return say("approval.because")
        if self._review is not None:
            return self._review.prompt
        if event is None or rows >= _MIN_ROWS:
            return say("approval.ask")
        return approval_question(event, self._texts).prompt(columns)

    # answering

    def takes(self, key: str) -> bool:
        """Whether this key alone is an answer, or continues a word that was one."""
        if self._tail.takes(key):
            return True
        if not self._state.answering or self._stage == "reason" or not self._editor.empty:
            return False
        again = time.monotonic() < max(self._answered + _REPEAT_SECONDS, self._yes_from)
        if self._review is None and again and _letter(key) != "n":
            return False  # it becomes a word, which Enter sends
        return _letter(key) in [_HELP, *self._keys]

    @property
    def _keys(self) -> list[str]:
        return [choice.key for choice in self._offered]

    def key(self, key: str) -> None:
        event, letter = self._state.approval, _letter(key)
        self._screen.draw_soon()
        if self._tail.takes(key):
            self._tail.key(key)
            return
        self._tail.end()
        if event is None:
            return
        if letter == _HELP:
            self._next_note = self._help
        elif letter in _IMMEDIATE:
            self._act(event, letter)
        else:
            self._editor.buffer.insert_text(letter)
            self._later(_WORD_SECONDS, lambda: self._act_on_letter(event, letter))

    def _act_on_letter(self, event: ApprovalRequested, letter: str) -> None:
        """Act if no other letter has followed."""
        editor = self._editor
        here = self._state.approval is event and self._state.answering and self._stage == "choose"
        if here and editor.buffer.text == letter and not self._screen.region.has_unread_keys:
            editor.clear()
            self._act(event, letter)
            self._screen.draw_now()

    @property
    def _help(self) -> str:
        event = self._state.approval
        if self._review is not None or event is None:
            return self._review.help if self._review is not None else ""
        if is_about_turn(event):
            return approval_question(event, self._texts).objection
        keys = [*self._keys, "esc"]
        say = self._texts.say
        return say("approval.about_between").join(say(f"approval.about_{key}") for key in keys)

    def _act(self, event: ApprovalRequested, letter: str) -> None:
        if letter == "n" and is_about_turn(event):
            self._decide(event, ParsedAnswer("no"))
        elif letter == "n":
            self._stage = "reason"
            self._editor.put(self._unparsed)
            self._unparsed = ""
        elif self._review is not None:
            if not self._review.key(letter):
                self._review = None
        elif letter == "y" or letter == "a":
            self._decide(event, ParsedAnswer("yes" if letter == "y" else "always"))
            self._tail.expect(letter)
        elif letter == "e":
            self._submit(SetOperatingMode("auto-edit"))
            self._reply(approval_reply(event, ParsedAnswer("yes")), self._texts.say("terminal.answer_edits"))
        elif letter == "d":
            self._screen.page_diff(str(event.subject))
        elif letter == "h":
            self._review = self._start_review(event)

    def _start_review(self, event: ApprovalRequested) -> HunkReview:
        return HunkReview(event, self._state, self._screen, self._reply, self._texts)

    def is_reason_empty(self) -> bool:
        """Whether Backspace leads from the reason back to the choices."""
        return self._state.answering and self._stage == "reason" and self._editor.empty

    def leave_reason(self) -> None:
        self._stage = "choose"

    def answer(self, event: ApprovalRequested, text: str) -> None:
        """Handle Enter on a typed word or reason."""
        if self._stage == "reason":
            self._refuse(event, text)
            return
        if not text.strip():
            self._next_note = self._help
            return
        question = approval_question(event, self._texts)
        parsed = question.parse(text) if self._review is None else None
        if parsed is not None:
            if parsed.answer == "no" or time.monotonic() >= self._yes_from:
                self._decide(event, parsed)
        elif (letter := _letter(text.strip())) in self._keys:
            self._act(event, letter)
        else:
            objection = self._texts.say("approval.hunk_objection")
            self._next_note = question.objection if self._review is None else objection
            if (" " in text.strip() or not text.isascii()) and not is_about_turn(event):
                self._unparsed = text.strip()
                self._next_note = self._texts.say("approval.typed_kept", objection=self._next_note)

    def _refuse(self, event: ApprovalRequested, text: str) -> None:
        self._stage = "choose"
        if text.split(" ")[0].lower() in _N_WORD_ENDS:  # of a word whose `n` led here
            text = f"n{text}"
        typed_out = approval_answer(f"n{text}", can_always=False)  # as `no, keep it` is parsed
        reason = typed_out[1] if typed_out is not None else text.strip()
        if self._review is None:
            self._decide(event, ParsedAnswer("no", reason))
            return
        self._review.leave(reason)

    def _decide(self, event: ApprovalRequested, parsed: ParsedAnswer) -> None:
        self._reply(approval_reply(event, parsed), answer_echo(event, parsed, self._texts))

    def _reply(self, reply: ApprovalReply, echo: str) -> None:
        self._answered = time.monotonic()
        self._screen.say_answer([("dim", echo)])
        self._submit(reply)
        question_done(self._state)  # at once: what is typed from now on belongs to the draft
        self.update()


def _letter(key: str) -> str:
    """Chinese input methods may produce full-width letters, which NFKC normalizes."""
    return unicodedata.normalize("NFKC", key).lower()


_BETWEEN = " · "


class KeyChoice(msgspec.Struct, frozen=True):
    key: str
    about: str


def choices(event: ApprovalRequested, mode: str, texts: Catalog) -> list[KeyChoice]:
    """The offered choices, likeliest first. `mode`: the operating mode."""
    say = texts.say
    if is_about_turn(event):  # no reason is passed on, and the subject explains `always`
        always = [KeyChoice("a", say("approval.key_always_turn"))] if event.can_always else []
        return [
            KeyChoice("y", say("approval.key_yes")),
            KeyChoice("n", say("approval.key_no_plain")),
            *always,
        ]
    found = [KeyChoice("y", say("approval.key_yes"))]
    if event.can_always:
        names = ", ".join(f"`{visible(name).text}`" for name in event.always_names)
        found.append(KeyChoice("a", say("approval.key_always", names=names)))
    diff = event.subject_kind == "diff"
    edits = diff and built_in(event.tool).edits_files()
    if edits and mode == "default":  # else auto-edit would change nothing, or loosen plan
        found.append(KeyChoice("e", say("approval.key_edits")))
    if edits and hunks_of(str(event.subject)):
        found.append(KeyChoice("h", say("approval.key_hunks")))
    if diff:
        found.append(KeyChoice("d", say("approval.key_diff")))
    return [*found, KeyChoice("n", say("approval.key_no"))]


def choice_rows(offered: list[KeyChoice], columns: int) -> list[Line]:
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


class HunkReview:
    """Goes through the hunks of one question; `finish` gets the reply and its echo."""

    def __init__(
        self,
        event: ApprovalRequested,
        state: PromptState,
        screen: Screen,
        finish: Callable[[ApprovalReply, str], None],
        texts: Catalog,
    ) -> None:
        self._event, self._state, self._screen = event, state, screen
        self._finish, self._texts = finish, texts
        self._applied = event.tool == REVIEW  # of changes that were made already
        self._review = Review(str(event.subject))
        self._next()

    @property
    def choices(self) -> list[KeyChoice]:
        keys = {"y": "take", "n": "leave", "a": "take_rest", "e": "edit", "b": "back"}
        if self._applied:
            keys = {"y": "keep", "n": "take_back", "d": "rest"}
        elif self._review.at + 1 == len(self._review.hunks):
            del keys["a"]
        if self._review.can_split:
            keys["s"] = "split"
        return [KeyChoice(key, self._texts.say(f"approval.hunk_{name}")) for key, name in keys.items()]

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
