"""Editing operations as pure functions on a text and a caret."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

PASTE_CHARS = 1000  # longer single lines are collapsed too: every key would redraw them
# An `@` token at the caret; a name in an unclosed quote may contain blanks.
_TOKEN = re.compile(r'(?:^|(?<=[\s(（，。、；：]))@((?:"[^"\n]*|(?:\\.|[^\s\\"])(?:\\.|[^\s\\])*)?)$')
_LONGEST_CLUSTER = 64  # characters that are looked at for one; longer ones go in pieces
_REORDERING = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069]")

MenuKind = Literal["command", "argument", "file"]


class Caret(msgspec.Struct, frozen=True):
    """A text and the caret's offset."""

    text: str
    at: int


class Request(msgspec.Struct, frozen=True):
    """A completion request: `query` is the text between `start` and the caret."""

    kind: MenuKind
    query: str
    start: int
    command: str = ""


def continued(caret: Caret) -> Caret | None:
    """Line continuation: Enter after a trailing `\\` replaces it by a newline; else None."""
    before = caret.text[: caret.at]
    if caret.text[caret.at :] or not before.endswith("\\"):
        return None
    slashes = len(before) - len(before.rstrip("\\"))
    if slashes % 2 == 0:
        return None
    return Caret(before[:-1] + "\n", caret.at)


def menu_request(caret: Caret) -> Request | None:
    """The completion for the text before the caret; none in a `!` shell line, where `@` is the shell's."""
    before = caret.text[: caret.at]
    if before.lstrip().startswith("!"):
        return None
    if before.startswith("/") and "\n" not in before:
        name, space, argument = before[1:].partition(" ")
        if not space or not name:  # `/ (global)` filters the menu
            return Request("command", before[1:].lstrip(" "), 1)
        if " " not in argument.lstrip(" ") and not argument.lstrip(" ").startswith("@"):
            start = len(before) - len(argument.lstrip(" "))
            return Request("argument", argument.lstrip(" "), start, command=name)
    if found := _TOKEN.search(before):
        typed = found[1]
        query = typed[1:] if typed.startswith('"') else re.sub(r"\\(.)", r"\1", typed)
        return Request("file", query, found.start(1))
    return None


def replaced(caret: Caret, start: int, text: str) -> Caret:
    """Replace the text between `start` and the caret, followed by one space."""
    rest = caret.text[caret.at :]
    text += "" if rest.startswith((" ", "\n")) else " "
    return Caret(caret.text[:start] + text + rest, start + len(text) + rest.startswith(" "))


def escaped_path(path: str) -> str:
    """Escape for `@`: in quotes if it has blanks, unless it is a directory, where more may follow."""
    if re.search(r"[\s\\]", path) and not path.endswith("/") and '"' not in path and "\n" not in path:
        return f'"{path}"'
    return re.sub(r'([\s\\"])', r"\\\1", path)


# grapheme clusters: what a person sees as one character


def cluster_start(text: str, at: int) -> int:
    """Where the cluster before the caret begins."""
    if at <= 0 or text[at - 1].isascii():
        return max(0, at - 1)
    from wcwidth import iter_graphemes

    start = at - 1
    while start > max(0, at - _LONGEST_CLUSTER) and not text[start].isascii():
        start -= 1
    return at - len(list(iter_graphemes(text[start:at]))[-1])


def cluster_end(text: str, at: int) -> int:
    """Where the cluster at the caret ends."""
    following = text[at : at + _LONGEST_CLUSTER]
    if following[:2].isascii():
        return min(len(text), at + 1)
    from wcwidth import iter_graphemes

    return at + len(next(iter(iter_graphemes(following))))


# pastes


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
    """Backspace after a placeholder deletes all of it; None if there is none."""
    before = caret.text[: caret.at]
    label = next((label for label in pastes if before.endswith(label)), None)
    if label is None:
        return None
    return Caret(before.removesuffix(label) + caret.text[caret.at :], caret.at - len(label))


# the queue


def batches(queue: Sequence[str]) -> list[str]:
    """What to send, in order: consecutive messages joined, `!` and `/` commands separate."""
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

Answer = Literal["yes", "no", "always"]
_WORDS: dict[Answer, tuple[str, ...]] = {
    "yes": ("y", "yes", "是", "是的", "可以", "好", "好的", "行"),
    "no": ("n", "no", "否", "不", "不要", "不行", "不可以"),
    "always": ("a", "always", "总是", "始终"),
}
_ANSWER = re.compile(r"(\w+)(?:[\s,.:;!，。、：；！]+(.*))?", re.DOTALL)


def approval_answer(text: str, *, can_always: bool) -> tuple[Answer, str] | None:
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
