"""Editing operations as pure functions on a text and a caret."""

from __future__ import annotations

import functools
import re
import unicodedata
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal

import msgspec

# An `@` token at the caret; a name in an unclosed quote may contain blanks.
_TOKEN = re.compile(r'(?:^|(?<=[\s(（，。、；：]))@((?:"[^"\n]*|(?:\\.|[^\s\\"])(?:\\.|[^\s\\])*)?)$')
_LONGEST_CLUSTER = 64  # characters that are looked at for one; longer ones go in pieces

MenuKind = Literal["command", "argument", "file"]


class Caret(msgspec.Struct, frozen=True):
    text: str
    at: int


class MenuRequest(msgspec.Struct, frozen=True):
    """A completion request: `query` is the text between `start` and the caret."""

    kind: MenuKind
    query: str
    start: int
    command: str = ""


def continued_line(caret: Caret) -> Caret | None:
    """Line continuation: Enter after a trailing `\\` replaces it by a newline; else None."""
    before = caret.text[: caret.at]
    if caret.text[caret.at :] or not before.endswith("\\"):
        return None
    slashes = len(before) - len(before.rstrip("\\"))
    if slashes % 2 == 0:
        return None
    return Caret(before[:-1] + "\n", caret.at)


def menu_request(caret: Caret) -> MenuRequest | None:
    """The completion for the text before the caret; none in a `!` line, as `@` has a meaning there."""
    before = caret.text[: caret.at]
    if before.lstrip().startswith("!"):
        return None
    if before.startswith("/") and "\n" not in before:
        name, space, argument = before[1:].partition(" ")
        if not space or not name:  # `/ (global)` filters the menu
            return MenuRequest("command", before[1:].lstrip(" "), 1)
        if " " not in argument.lstrip(" ") and not argument.lstrip(" ").startswith("@"):
            start = len(before) - len(argument.lstrip(" "))
            return MenuRequest("argument", argument.lstrip(" "), start, command=name)
    if found := _TOKEN.search(before):
        typed = found[1]
        query = typed[1:] if typed.startswith('"') else re.sub(r"\\(.)", r"\1", typed)
        return MenuRequest("file", query, found.start(1))
    return None


def completed_text(caret: Caret, start: int, text: str) -> Caret:
    """Replace the text between `start` and the caret, followed by one space."""
    rest = caret.text[caret.at :]
    text += "" if rest.startswith((" ", "\n")) else " "
    return Caret(caret.text[:start] + text + rest, start + len(text) + rest.startswith(" "))


def escaped_path(path: str) -> str:
    """Escape for `@`: in quotes if it has blanks, except a directory, which may continue."""
    if re.search(r"[\s\\]", path) and not path.endswith("/") and '"' not in path and "\n" not in path:
        return f'"{path}"'
    return re.sub(r'([\s\\"])', r"\\\1", path)


# grapheme clusters (user-perceived characters)


def cluster_start(text: str, at: int) -> int:
    """The start of the cluster before the caret."""
    from wcwidth import iter_graphemes

    if at <= 0 or text[at - 1].isascii():
        return max(0, at - 1)

    start = at - 1
    while start > max(0, at - _LONGEST_CLUSTER) and not text[start].isascii():
        start -= 1
    return at - len(list(iter_graphemes(text[start:at]))[-1])


def cluster_end(text: str, at: int) -> int:
    """The end of the cluster at the caret."""
    from wcwidth import iter_graphemes

    following = text[at : at + _LONGEST_CLUSTER]
    if following[:2].isascii():
        return min(len(text), at + 1)

    return at + len(next(iter(iter_graphemes(following))))


# the queue


def batches(queue: Sequence[str]) -> list[str]:
    """The inputs to send: consecutive messages joined, `!` and `/` commands separate."""
    out: list[str] = []
    joining = False
    for text in queue:
        command = text.lstrip().startswith(("!", "/"))
        if joining and not command:
            out[-1] += f"\n\n{text}"
        else:
            out.append(text)
        joining = not command
    return out


def restored_draft(queue: Sequence[str], draft: str) -> str:
    """The editor's text after a cancel: the queued messages, then the draft."""
    return "\n\n".join([*queue, *([draft] if draft.strip() else [])])


# approvals

ApprovalAnswer = Literal["yes", "no", "always"]
_WORDS: dict[ApprovalAnswer, tuple[str, ...]] = {
    "yes": ("y", "yes", "是", "是的", "可以", "好", "好的", "行"),
    "no": ("n", "no", "否", "不", "不要", "不行", "不可以"),
    "always": ("a", "always", "总是", "始终"),
}
_ANSWER = re.compile(r"(\w+)(?:[\s,.:;!，。、：；！]+(.*))?", re.DOTALL)


def approval_answer(text: str, *, can_always: bool) -> tuple[ApprovalAnswer, str] | None:
    """The answer, and the reason after a `no`; None for anything ambiguous."""
    found = _ANSWER.fullmatch(text.strip())
    if found is None:
        return None
    # Chinese input methods may produce full-width letters, which NFKC normalizes.
    word = unicodedata.normalize("NFKC", found[1]).lower()
    answer = next((answer for answer, words in _WORDS.items() if word in words), None)
    reason = (found[2] or "").strip()
    if answer is None or (reason and answer != "no") or (answer == "always" and not can_always):
        return None
    return answer, reason


TAB_STOP = 4


class WindowShape(msgspec.Struct, frozen=True):
    """The window's width, and the widths of the prompt and of the margin of later rows."""

    columns: int
    prompt: int
    margin: int


class TextRow(msgspec.Struct, frozen=True):
    """A row of line `line`: its start offset, the column of each caret position, and the empty cells of the
    row above."""

    line: int
    start: int
    columns: list[int]
    left: int = 0


@functools.cache
def cell_width(char: str) -> int:
    from prompt_toolkit.layout.screen import Char

    return Char(char, "").width  # it shows control characters as `^X`


def text_rows(text: str, shape: WindowShape) -> list[TextRow]:
    rows: list[TextRow] = []
    start = 0
    for number, line in enumerate(text.split("\n")):
        rows += _line_rows(line, number, start, shape)
        start += len(line) + 1
    return rows


def _line_rows(line: str, number: int, start: int, shape: WindowShape) -> list[TextRow]:
    rows = [TextRow(number, start, [])]
    x = shape.margin if number else shape.prompt
    shown = 0  # characters so far, for tab stops
    words = _word_widths(line)
    for at, char in enumerate(line + " "):  # a cell for the caret at the end
        cells = [1] * (TAB_STOP - shown % TAB_STOP) if char == "\t" else [cell_width(char)]
        word = words.get(at, 0)
        splits = x + word > shape.columns >= shape.margin + word and bool(rows[-1].columns)
        if x + cells[0] > shape.columns or splits:
            rows.append(TextRow(number, start + at, [], shape.columns - x))
            x = shape.margin
        rows[-1].columns.append(x)
        for cell in cells:
            x = shape.margin if x + cell > shape.columns else x
            x += cell
        shown += len(cells)
    return rows


def _word_widths(line: str) -> dict[int, int]:
    """The cells of each word and its following blank, by offset. Wide characters break anywhere, so they
    belong to no word."""
    found: dict[int, int] = {}
    begin = -1
    for at, char in enumerate(line):
        width = cell_width(char)
        if char in " \t" or width > 1:
            begin = -1
        elif begin >= 0:
            found[begin] += width
        elif width:  # not a combining mark
            begin = at
            found[at] = 1 + width
    return found


def row_of(rows: list[TextRow], at: int) -> int:
    return bisect_right([row.start for row in rows], at) - 1


def moved_by_rows(rows: list[TextRow], at: int, by: int, goal: int | None = None) -> tuple[int, int] | None:
    """The offset `by` rows further in the caret's column (or `goal`), and that column; None if there is no
    such row. Columns are relative to the text."""
    number = row_of(rows, at)
    if not 0 <= number + by < len(rows):
        return None
    here, there = rows[number], rows[number + by]
    column = here.columns[at - here.start] if goal is None else goal
    if here.line != there.line:
        column += there.columns[0] - here.columns[0]
    return there.start + max(0, bisect_right(there.columns, column) - 1), column


PASTE_CHARS = 1000  # longer single lines are collapsed too: every key would redraw them
_REORDERING = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_RECENT = 20

Labels = Mapping[str, str]
"""Pasted text by placeholder."""


class Pastes:
    """The pastes of the current text, and recent ones."""

    def __init__(self, label: Callable[[int], str]) -> None:
        """`label` names a paste by its number of lines."""
        self._label = label
        self.current: dict[str, str] = {}
        self.recalled: dict[str, str] = {}  # too long for the history file, kept for this session
        self.recent: deque[tuple[str, str]] = deque(maxlen=_RECENT)

    @property
    def labels(self) -> dict[str, str]:
        return {**self.recalled, **self.current}

    def collapse(self, text: str) -> str:
        label = paste_label(self._label(text.rstrip("\n").count("\n") + 1), self.labels)
        self.current[label] = text
        return label

    def collapse_again(self, text: str, pasted: Iterable[str]) -> str:
        """A message that comes back, with its pasted parts collapsed."""
        recent = [part for _, part in self.recent if part in text]
        for part in dict.fromkeys((*pasted, *recent)):
            if part in text and collapses(part):
                label = next((name for name, whole in self.labels.items() if whole == part), "")
                text = text.replace(part, label or self.collapse(part), 1)
        return text

    def as_typed(self, message: str) -> str:
        """A recent message with its pastes collapsed again."""
        for label, pasted in self.recent:
            message = message.replace(pasted, label)
        return message

    def pasted_in(self, message: str) -> list[str]:
        """The parts of a recent message that were pasted."""
        return list(dict.fromkeys(pasted for _, pasted in self.recent if pasted in message))


def collapses(pasted: str) -> bool:
    """Whether to show a placeholder: for several lines, long text, or bidirectional controls."""
    return "\n" in pasted.rstrip("\n") or len(pasted) > PASTE_CHARS or _REORDERING.search(pasted) is not None


def paste_label(label: str, known: Mapping[str, str]) -> str:
    """`label` ("[pasted 3 lines]"), numbered if it is taken."""
    if label not in known:
        return label
    number = 2
    while f"{label[:-1]} #{number}]" in known:
        number += 1
    return f"{label[:-1]} #{number}]"


def expanded(text: str, pastes: Mapping[str, str]) -> str:
    """Expand placeholders in one pass: pasted text is never itself searched for placeholders."""
    if not pastes:
        return text
    labels = "|".join(re.escape(label) for label in sorted(pastes, key=len, reverse=True))
    return re.sub(labels, lambda found: pastes[found[0]], text)


def without_label(caret: Caret, pastes: Mapping[str, str]) -> Caret | None:
    """Backspace after a placeholder deletes all of it; None without one."""
    before = caret.text[: caret.at]
    label = next((label for label in pastes if before.endswith(label)), None)
    if label is None:
        return None
    return Caret(before.removesuffix(label) + caret.text[caret.at :], caret.at - len(label))


def label_spans(text: str, labels: Labels) -> Iterator[tuple[int, int]]:
    if labels:
        pattern = "|".join(re.escape(label) for label in sorted(labels, key=len, reverse=True))
        yield from (found.span() for found in re.finditer(pattern, text))


def outside_label(caret: Caret, came_from: int, labels: Labels) -> int:
    """The caret's offset, moved to the far side of a placeholder it entered."""
    for start, end in label_spans(caret.text, labels):
        if start < caret.at < end:
            return end if came_from <= start else start
    return caret.at


def whole_labels(before: str, now: Caret, labels: Labels) -> Caret | None:
    """Extend a change that deleted part of a placeholder to all of it; inserted text moves behind it. None if
    every placeholder is intact."""
    was, stays = list(label_spans(before, labels)), list(label_spans(now.text, labels))
    if len(stays) >= len(was):
        return None
    start = _shared(before, now.text)
    shared = _shared(before[start:][::-1], now.text[start:][::-1])
    end = len(before) - shared
    put_in = now.text[start : len(now.text) - shared]
    touched = [(a, b) for a, b in was if a < end and start < b and not (start <= a and b <= end)]
    if start == end:
        touched = []
        start = end = next((b for a, b in was if a < start < b), start)
    first, last = min([start, *(a for a, _ in touched)]), max([end, *(b for _, b in touched)])
    text = before[:first] + put_in + before[last:]
    return None if text == now.text else Caret(text, min(len(text), first + len(put_in)))


def _shared(one: str, other: str) -> int:
    """The length of the common prefix."""
    for at, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return at
    return min(len(one), len(other))


def label_before(caret: Caret, labels: Labels) -> str:
    """The placeholder that ends at the caret, or ""."""
    return next((caret.text[a:b] for a, b in label_spans(caret.text, labels) if b == caret.at), "")
