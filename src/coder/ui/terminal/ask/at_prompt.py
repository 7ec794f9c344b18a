"""Approval questions at the prompt: one key decides, words and reasons are typed.

`y`, `n`, `h` and `s` act at once. The other keys grant more, or open a program: they act after a pause
without another letter, so that a sentence typed at the question grants nothing by its first letter.

A key meant for something else is never taken as an answer: while somebody types, searches or fills in a form
the keys stay theirs, and the question gets the keyboard after a pause. The draft is stashed meanwhile and
restored once the question is answered.
"""

from __future__ import annotations

import time
import unicodedata
from collections.abc import Callable
from typing import Literal, Protocol

import msgspec

from coder.policy.visible import visible
from coder.protocol.events import ApprovalRequested
from coder.protocol.ops import ApprovalReply, SetOperatingMode
from coder.texts import Catalog
from coder.tools.registry import built_in
from coder.tools.text.hunks import REVIEW, Hunk, Review, hunks_of
from coder.ui.terminal.ask.question import ParsedAnswer, answer_echo, approval_question, reply_to
from coder.ui.terminal.ask.question_rows import about_turn
from coder.ui.terminal.input.actions import Actions
from coder.ui.terminal.input.editing import approval_answer
from coder.ui.terminal.render.escapes import safe
from coder.ui.terminal.render.width import Line, line_width, wrap
from coder.ui.terminal.screen_state import PromptState, question_done

_BETWEEN = " · "


class Choice(msgspec.Struct, frozen=True):
    """A key, and what it does in a few words."""

    key: str
    about: str


def choices(event: ApprovalRequested, mode: str, texts: Catalog) -> list[Choice]:
    """What the question offers, the likeliest first. `mode`: the operating mode."""
    say = texts.say
    if about_turn(event):  # no reason is passed on, and the subject says what `always` means
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
    """The choices side by side, in as few rows as they need; a row ends between two of them where that
    takes no more rows."""
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


_PAUSE = 0.7  # seconds between two letters of a word
REST = {"y": "es", "a": "lways"}

Later = Callable[[float, Callable[[], None]], object]
"""Calls a function after so many seconds."""


class WordRest:
    """Holds letters back while they may be the rest of the word; `give_back` gets those that are not."""

    def __init__(self, give_back: Callable[[str], None], later: Later) -> None:
        self._give_back, self._later = give_back, later
        self._rest = self._held = ""
        self._until = float("-inf")

    def expect(self, letter: str) -> None:
        self._rest, self._held = REST.get(letter, ""), ""
        self._extend()

    def end(self) -> None:
        """Something else is being typed."""
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
        """Another key came: what was held was the beginning of something else."""
        held, self._held, self._until = self._held, "", float("-inf")
        if key or held != self._rest:
            self._give_back(held + key)

    def _expire(self) -> None:
        if self._held and time.monotonic() >= self._until:
            self._interrupted()


_PAUSE_SECONDS = 1.0  # without a key, until the question gets the keyboard of somebody who was typing
_AGAIN_SECONDS = 0.35  # after an answer, in which a key pressed twice does not decide the next question
_FOLLOWING_SECONDS = 0.5  # a yes this soon after another question was answered is for that one, typed twice
_WORD_SECONDS = 0.4  # within which a second letter makes a word of the first
_RESTS = ("ot", "ope", "othing", "obody", "eed")  # of words that begin with `n`, and none of their own
_AT_ONCE = ("y", "n", "h", "s")
_HELP = "?"
_LOWEST = 3  # rows of a terminal that has room for the choices


class Surroundings(Protocol):
    """What the prompt needs of the REPL."""

    def show_question(self, event: ApprovalRequested) -> None: ...

    def show_hunk(self, hunk: Hunk, number: int, count: int) -> None: ...

    def say_answer(self, line: Line) -> None: ...

    def send_reply(self, op: ApprovalReply | SetOperatingMode) -> None: ...

    def draw_now(self) -> None: ...

    def page_diff(self, text: str) -> None: ...

    def edit_diff(self, text: str, done: Callable[[str | None], None]) -> None: ...

    @property
    def question_follows(self) -> bool:
        """Whether the question took the place of another one."""
        ...

    @property
    def is_away(self) -> bool:
        """Whether a pager or an editor has the terminal."""
        ...

    @property
    def has_unread_keys(self) -> bool:
        """Whether something was typed, or is being pasted, that was not handled yet."""
        ...


class ApprovalPrompt:
    """The question that is open, and how far its answer has come."""

    def __init__(
        self, state: PromptState, actions: Actions, texts: Catalog, around: Surroundings, later: Later
    ) -> None:
        self._state, self._actions, self._texts = state, actions, texts
        self._around, self._later = around, later
        self._current: ApprovalRequested | None = None
        self._stage: Literal["choose", "reason"] = "choose"
        self._review: Review | None = None
        self._quiet_from = 0.0  # when the question gets the keyboard, if no key comes before
        self._answered = self._yes_from = float("-inf")
        self._was_busy = False  # elsewhere, at the last key
        self._note = self._next_note = ""  # shown until the next key; the same of the key being handled
        self._no_answer = ""  # what was typed instead of one: the reason of a `n` that follows
        self.word_rest = WordRest(actions.editor.type_into_draft, later)
        actions.editor.buffer.on_text_insert += lambda _buffer: self.word_rest.end()

    # who has the keyboard

    def update(self) -> None:
        """Show the pending question if it is new; restore the draft if there is none."""
        event = self._state.approval
        if event is self._current:
            return
        self._current, self._review, self._stage = event, None, "choose"
        self._note = self._next_note = self._no_answer = ""
        self._state.answering = False
        self._actions.editor.unstash()
        if event is None:
            return
        if not self._actions.bar.editing:
            self._actions.leave_bar()
        self._actions.editor.close_menu()
        if event.tool == REVIEW and hunks_of(str(event.subject)):
            self._review = Review(str(event.subject))
            self._next_hunk(self._review)
        else:
            self._around.show_question(event)
        follows = self._around.question_follows
        self._yes_from = time.monotonic() + _FOLLOWING_SECONDS if follows else float("-inf")
        self._wait(_PAUSE_SECONDS if self._elsewhere else 0)

    @property
    def _elsewhere(self) -> bool:
        return self._actions.occupied or self._actions.editor.in_bar

    def _wait(self, seconds: float) -> None:
        self._quiet_from = time.monotonic() + seconds
        if seconds:
            self._later(seconds + 0.01, self._take_keyboard)
        else:
            self._take_keyboard()

    def _take_keyboard(self) -> None:
        if self._current is None or self._state.answering or time.monotonic() < self._quiet_from:
            return
        if self._actions.editor.in_bar or self._around.is_away:
            self._wait(_AGAIN_SECONDS)
            return
        self._around.draw_now()  # no key may answer what is not on the screen yet
        if self._around.has_unread_keys:
            self._wait(_AGAIN_SECONDS)
            return
        self._state.answering = True
        self._actions.compact_after_overflow()
        self._around.draw_now()

    def key_pressed(self) -> None:
        """Every key of somebody who is at something else makes the question wait."""
        busy = self._elsewhere
        if self._current is not None and not self._state.answering and (busy or self._was_busy):
            self._wait(_PAUSE_SECONDS)
        self._was_busy = busy
        self._note, self._next_note = self._next_note, ""

    # what is shown

    @property
    def _offered(self) -> list[Choice]:
        event, say = self._state.approval, self._texts.say
        if event is None:
            return []
        if self._review is None:
            return choices(event, self._state.mode, self._texts)
        keys = {"y": "take", "n": "leave", "a": "take_rest", "e": "edit", "b": "back"}
        if event.tool == REVIEW:
            keys = {"y": "keep", "n": "take_back", "d": "rest"}
        elif self._review.at + 1 == len(self._review.hunks):
            del keys["a"]
        if self._review.can_split:
            keys["s"] = "split"
        return [Choice(key, say(f"approval.hunk_{name}")) for key, name in keys.items()]

    def rows(self, columns: int, rows: int) -> list[Line]:
        """What the keys do, above the prompt."""
        if self._state.approval is None or rows < _LOWEST:
            return []
        if self._stage == "reason":
            return wrap([("dim", self._texts.say("approval.reason_keys"))], columns)
        note = wrap([("note", self._note)], columns)[: rows - _LOWEST] if self._note else []
        return [*note, *choice_rows(self._offered, columns)]

    def prompt(self, columns: int, rows: int) -> str:
        event, say = self._state.approval, self._texts.say
        if self._stage == "reason":
            return say("approval.because")
        if self._review is not None:
            return say("approval.hunk_ask", n=self._review.at + 1, all=len(self._review.hunks))
        if event is None or rows >= _LOWEST:
            return say("approval.ask")
        return approval_question(event, self._texts).prompt(columns)

    # answering

    def takes(self, key: str) -> bool:
        """Whether this key alone is an answer: not while a word is being typed."""
        if not self._state.answering or self._stage == "reason" or not self._actions.editor.empty:
            return False
        again = time.monotonic() < max(self._answered + _AGAIN_SECONDS, self._yes_from)
        if self._review is None and again and _letter(key) != "n":
            return False  # it becomes a word, which Enter sends
        return _letter(key) in [_HELP, *self._keys]

    @property
    def _keys(self) -> list[str]:
        return [choice.key for choice in self._offered]

    def key(self, key: str) -> None:
        event, letter = self._state.approval, _letter(key)
        self.word_rest.end()
        if event is None:
            return
        if letter == _HELP:
            self._next_note = self._help
        elif letter in _AT_ONCE:
            self._act(event, letter)
        else:
            self._actions.editor.buffer.insert_text(letter)
            self._later(_WORD_SECONDS, lambda: self._act_on_letter(event, letter))

    def _act_on_letter(self, event: ApprovalRequested, letter: str) -> None:
        """No other letter has followed."""
        editor = self._actions.editor
        here = self._state.approval is event and self._state.answering and self._stage == "choose"
        if here and editor.buffer.text == letter and not self._around.has_unread_keys:
            editor.clear()
            self._act(event, letter)
            self._around.draw_now()

    @property
    def _help(self) -> str:
        event = self._state.approval
        if self._review is not None or event is None:
            review = event is not None and event.tool == REVIEW
            return self._texts.say("approval.about_review" if review else "approval.about_hunks")
        if about_turn(event):
            return approval_question(event, self._texts).objection
        keys = [*self._keys, "esc"]
        say = self._texts.say
        return say("approval.about_between").join(say(f"approval.about_{key}") for key in keys)

    def _act(self, event: ApprovalRequested, letter: str) -> None:
        if self._review is not None:
            self._hunk_key(self._review, letter)
        elif letter == "y" or letter == "a":
            self._decide(event, ParsedAnswer("yes" if letter == "y" else "always"))
            self.word_rest.expect(letter)
        elif letter == "n" and about_turn(event):
            self._decide(event, ParsedAnswer("no"))
        elif letter == "n":
            self._ask_why()
        elif letter == "e":
            self._around.send_reply(SetOperatingMode("auto-edit"))
            self._reply(reply_to(event, ParsedAnswer("yes")), self._texts.say("terminal.answer_edits"))
        elif letter == "d":
            self._around.page_diff(str(event.subject))
        elif letter == "h":
            self._review = Review(str(event.subject))
            self._next_hunk(self._review)

    def _ask_why(self) -> None:
        self._stage = "reason"
        self._actions.editor.put(self._no_answer)
        self._no_answer = ""

    def backspace(self) -> bool:
        """On an empty reason: back to the choices."""
        back = self._state.answering and self._stage == "reason" and self._actions.editor.empty
        if back:
            self._stage = "choose"
        return back

    def answer(self, event: ApprovalRequested, text: str) -> None:
        """Enter was pressed on a typed word or reason. What is no answer clears itself."""
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
            if (" " in text.strip() or not text.isascii()) and not about_turn(event):
                self._no_answer = text.strip()
                self._next_note = self._texts.say("approval.typed_kept", objection=self._next_note)

    def _refuse(self, event: ApprovalRequested, text: str) -> None:
        self._stage = "choose"
        if text.split(" ")[0].lower() in _RESTS:  # of a word whose `n` led here
            text = f"n{text}"
        typed_out = approval_answer(f"n{text}", can_always=False)  # the same of `no, keep it`
        reason = typed_out[1] if typed_out is not None else text.strip()
        if self._review is None:
            self._decide(event, ParsedAnswer("no", reason))
            return
        self._review.leave(reason)
        self._say_of_hunk("take_back" if event.tool == REVIEW else "leave", reason)
        self._next_hunk(self._review)

    def _decide(self, event: ApprovalRequested, parsed: ParsedAnswer) -> None:
        self._reply(reply_to(event, parsed), answer_echo(event, parsed, self._texts))

    def _reply(self, reply: ApprovalReply, echo: str) -> None:
        self._answered = time.monotonic()
        self._around.say_answer([("dim", echo)])
        self._around.send_reply(reply)
        question_done(self._state)  # at once: what is typed before the engine has heard of it is the draft's
        self.update()

    # hunk by hunk

    def _hunk_key(self, review: Review, letter: str) -> None:
        hunk = review.current
        if hunk is None:
            return
        if letter == "y":
            self._take(review, hunk)
        elif letter == "n":
            self._ask_why()
        elif letter == "e":
            guide = "".join(f"# {line}\n" for line in self._texts.say("approval.hunk_guide").split("\n"))
            self._around.edit_diff(f"{hunk.text}\n{guide}", lambda text: self._edited(review, hunk, text))
        elif letter == "s":
            said = self._texts.say("approval.said_split", n=review.split())
            self._around.say_answer([("dim", said)])
            self._next_hunk(review)
        elif letter in ("a", "d"):
            self._take_rest(review)
        elif letter == "b":
            self._review = None
            self._around.say_answer([("dim", self._texts.say("approval.hunk_dropped"))])

    def _say_of_hunk(self, what: str, reason: str = "") -> None:
        said = self._texts.say(f"approval.said_{what}")
        if reason:
            said = self._texts.say("approval.said_because", said=said, reason=safe(reason).replace("\n", " "))
        self._around.say_answer([("dim", said)])

    def _take_rest(self, review: Review) -> None:
        """Done: what was not looked at is taken, or stays."""
        while review.current is not None:
            review.take()
        self._next_hunk(review)

    def _take(self, review: Review, hunk: Hunk) -> None:
        event = self._state.approval
        said = "take" if hunk is review.current else "take_edited"
        self._say_of_hunk("keep" if event is not None and event.tool == REVIEW else said)
        review.take(hunk)
        self._next_hunk(review)

    def _edited(self, review: Review, hunk: Hunk, text: str | None) -> None:
        if review is not self._review or self._state.approval is None:
            return  # the turn was cancelled meanwhile
        if text is not None:
            text = "\n".join(line for line in text.split("\n") if not line.startswith("#"))
            text = text.removesuffix("\n")
        if text in (None, hunk.text):  # as somebody leaves the editor who has thought better of it
            self._around.say_answer([("dim", self._texts.say("approval.hunk_unedited"))])
        elif (changed := hunk.edited(text)) is None:
            self._around.say_answer([("bad", self._texts.say("approval.hunk_unreadable"))])
        else:
            self._take(review, changed)

    def _next_hunk(self, review: Review) -> None:
        event, hunk = self._state.approval, review.current
        if event is None:
            return
        if hunk is not None:
            self._around.show_hunk(hunk, review.at + 1, len(review.hunks))
            return
        taken, count = review.counts
        key = "approval.hunks_kept" if event.tool == REVIEW else "approval.hunks_done"
        self._reply(review.reply(event), self._texts.say(key, taken=taken, n=count))


def _letter(key: str) -> str:
    """Chinese input methods may produce full-width letters, which NFKC normalizes."""
    return unicodedata.normalize("NFKC", key).lower()
