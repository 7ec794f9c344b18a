"""Editing operations as pure functions on a text and a caret."""

from __future__ import annotations

import functools
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Sequence
from typing import Literal

import msgspec

# An `@` token at the caret; a name in an unclosed quote may contain blanks.
_TOKEN = re.compile(r'(?:^|(?<=[\s(（，。、；：]))@((?:"[^"\n]*|(?:\\.|[^\s\\"])(?:\\.|[^\s\\])*)?)$')
_LONGEST_CLUSTER = 64  # characters that are looked at for one; longer ones go in pieces

MenuKind = Literal["command", "argument", "file"]


class Caret(msgspec.Struct, frozen=True):
    """A text and the caret's offset."""

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
