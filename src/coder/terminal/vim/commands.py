"""Vim's normal-mode commands: parsing and execution as pure functions."""

from __future__ import annotations

import re

import msgspec

from coder.terminal.vim.motions import (
    MOTIONS,
    OBJECTS,
    Span,
    clamp_caret,
    find_in_line,
    first_letter,
    line_end,
    line_number,
    line_start,
    start_of_line,
    text_object,
)

_COUNT = r"([1-9]\d*)?"
_MOTION = r"(gg|[hjklwWeEbB0^$G ;,]|[fFtT][^\x00-\x09\x0b-\x1f])"
_COMMAND = re.compile(
    rf"{_COUNT}(?:"
    rf"([dcy])(?:{_COUNT}(?:{_MOTION}|({OBJECTS.pattern})|\2()))"
    rf"|{_MOTION}"
    r"|([xXsSDCYpPuiaIAoO~.]|r[^\x00-\x09\x0b-\x1f])"
    r")",
    re.DOTALL,
)
_BEGINNING = re.compile(rf"{_COUNT}(?:[dcy]{_COUNT}(?:g|[fFtT]|[ia])?|g|[fFtTr])?")
# Shorthands for an operator with a motion.
_SHORT = {"x": "dl", "X": "dh", "s": "cl", "S": "cc", "D": "d$", "C": "c$", "Y": "yy"}
STARTS = "123456789dcyhjklwWeEbB0^$gG ;,fFtTxXsSDCYpPuiaIAoO~.r"


class Command(msgspec.Struct, frozen=True):
    """A parsed command. `count` is 0 if not given. Either an operator with a motion, text object (`thing`) or
    the whole line; or a motion alone; or an action."""

    count: int
    operator: str = ""
    motion: str = ""
    thing: str = ""
    action: str = ""


class Register(msgspec.Struct, frozen=True):
    """Deleted or yanked text; `lines`: linewise."""

    text: str = ""
    lines: bool = False


class Page(msgspec.Struct, frozen=True):
    """The state that a command transforms: text, caret, register, insert mode, last `f F t T`."""

    text: str
    at: int
    register: Register = Register()
    inserting: bool = False
    found: str = ""  # the last `f F t T` and its character


def is_incomplete(keys: str) -> bool:
    return _BEGINNING.fullmatch(keys) is not None


def parse_command(keys: str) -> Command | None:
    """None for an invalid or incomplete command."""
    found = _COMMAND.fullmatch(keys)
    if found is None or is_incomplete(keys):  # `10` is an unfinished count, not `0` with count 1
        return None
    first, operator, second, motion, thing, line, alone, action = found.groups()
    count = int(first or 1) * int(second or 1) if first or second else 0
    if line is not None:
        motion = operator
    if action and action in _SHORT:
        operator, motion = _SHORT[action][0], _SHORT[action][1]
        action = ""
    return Command(
        count=count,
        operator=operator or "",
        motion=motion or alone or "",
        thing=thing or "",
        action=action or "",
    )


def is_change(command: Command) -> bool:
    """Whether `.` repeats it."""
    return command.operator in ("d", "c") or (bool(command.action) and command.action not in "u.")


def apply_command(page: Page, command: Command) -> Page | None:
    """The state after the command; None if it has no effect."""
    if command.action:
        return _apply_action(page, command)
    span = _span(page, command)
    if span is None:
        return None
    found = command.motion if command.motion[:1] in tuple("fFtT") else page.found
    page = msgspec.structs.replace(page, found=found)
    if not command.operator:
        return msgspec.structs.replace(page, at=clamp_caret(page.text, span.end))
    return _apply_operator(page, command.operator, span)


def repeat_insertion(command: Command, inserted: str) -> str:
    """Repeat inserted text by the command's count: `3ia`, `3oa`."""
    times = max(1, command.count)
    if command.action in ("o", "O"):
        return "\n".join([inserted] * times)
    return inserted * times if command.action else inserted


def insert_and_leave(page: Page, text: str) -> Page:
    """Replay an insertion and leave insert mode."""
    written = page.text[: page.at] + text + page.text[page.at :]
    at = page.at + len(text)
    at -= at > line_start(written, at)
    return msgspec.structs.replace(page, text=written, at=clamp_caret(written, at), inserting=False)


def _span(page: Page, command: Command) -> Span | None:
    text, at, motion = page.text, page.at, command.motion
    if command.thing:
        return text_object(text, at, command.thing)
    if motion == command.operator and motion:
        last = line_number(text, at) + max(1, command.count) - 1
        if command.count > 1 and line_number(text, at) == text.count("\n"):
            return None
        return Span(at, max(at, start_of_line(text, min(last, text.count("\n")))), "lines")
    if motion in (";", ","):
        if not page.found:
            return None
        how = page.found[0] if motion == ";" else page.found[0].swapcase()
        return find_in_line(text, at, how, page.found[1], max(1, command.count), again=True)
    if motion[0] in "fFtT":
        return find_in_line(text, at, motion[0], motion[1], max(1, command.count))
    count = command.count if motion in ("gg", "G") else max(1, command.count)
    return MOTIONS[motion](text, at, count, command.operator)


# operators


def _apply_operator(page: Page, operator: str, span: Span) -> Page:
    text = page.text
    start, end = sorted((span.start, span.end))
    lines = span.kind == "lines"
    if span.kind == "inclusive" and end < len(text):
        end += 1
    if span.kind == "exclusive" and end > start and end == line_start(text, end) > line_start(text, start):
        # `:help o_v`: an exclusive motion that ends in column 0 becomes inclusive or linewise.
        end -= 1
        lines = operator != "c" and not text[line_start(text, start) : start].strip()
    if operator == "d" and "\n" in text[start:end]:  # becomes linewise if only whole lines are affected
        around = text[line_start(text, start) : start] + text[end : line_end(text, end)]
        lines = lines or not around.strip()
    if lines:
        return _apply_to_lines(page, operator, start, end)
    register = Register(text[start:end])
    if operator == "y":
        return msgspec.structs.replace(page, at=clamp_caret(text, start), register=register)
    text = text[:start] + text[end:]
    at = start if operator == "c" else clamp_caret(text, start)
    if start != end:
        page = msgspec.structs.replace(page, register=register)
    return msgspec.structs.replace(page, text=text, at=at, inserting=operator == "c")


def _apply_to_lines(page: Page, operator: str, start: int, end: int) -> Page:
    text, upper = page.text, start
    start, end = line_start(text, start), line_end(text, end)
    register = Register(text[start:end], lines=True)
    if operator == "y":
        return msgspec.structs.replace(page, at=clamp_caret(text, upper), register=register)
    if operator == "c":
        text, at = text[:start] + text[end:], start
    elif end < len(text):
        text, at = text[:start] + text[end + 1 :], start
    else:
        text = text[: max(0, start - 1)]
        at = line_start(text, len(text))
    if operator == "d":
        at = first_letter(text, at)
    return Page(text, at, register, inserting=operator == "c", found=page.found)


# actions


def _apply_action(page: Page, command: Command) -> Page | None:
    action, count = command.action, max(1, command.count)
    if action in "pP":
        return _put(page, count, after=action == "p")
    if action[0] == "r":
        return _replace_chars(page, count, action[1])
    if action == "~":
        return _swap_case(page, count)
    return _enter_insert(page, action)


def _put(page: Page, count: int, *, after: bool) -> Page | None:
    text, put = page.text, page.register.text
    if page.register.lines:
        lines = "\n".join([put] * count)
        if after:
            at = line_end(text, page.at)
            text, at = text[:at] + "\n" + lines + text[at:], at + 1
        else:
            at = line_start(text, page.at)
            text = text[:at] + lines + "\n" + text[at:]
        return msgspec.structs.replace(page, text=text, at=first_letter(text, at))
    if not put:
        return None
    at = min(page.at + after, line_end(text, page.at))
    text = text[:at] + put * count + text[at:]
    end = at if "\n" in put else at + len(put) * count - 1
    return msgspec.structs.replace(page, text=text, at=clamp_caret(text, end))


def _replace_chars(page: Page, count: int, char: str) -> Page | None:
    text, at = page.text, page.at
    if at + count > line_end(text, at):
        return None
    new = "\n" if char == "\n" else char * count
    text = text[:at] + new + text[at + count :]
    return msgspec.structs.replace(
        page, text=text, at=clamp_caret(text, at + 1 if char == "\n" else at + count - 1)
    )


def _swap_case(page: Page, count: int) -> Page | None:
    text, at = page.text, page.at
    end = min(at + count, line_end(text, at))
    if end == at:
        return None
    swapped = "".join(c.swapcase() if len(c.swapcase()) == 1 else c for c in text[at:end])
    text = text[:at] + swapped + text[end:]
    return msgspec.structs.replace(page, text=text, at=clamp_caret(text, end))


def _enter_insert(page: Page, action: str) -> Page:
    text, at = page.text, page.at
    start, end = line_start(text, at), line_end(text, at)
    match action:
        case "a":
            at = min(at + 1, end)
        case "A":
            at = end
        case "I":
            at = start + len(text[start:end]) - len(text[start:end].lstrip(" \t"))
        case "o":
            text, at = text[:end] + "\n" + text[end:], end + 1
        case "O":
            text, at = text[:start] + "\n" + text[start:], start
        case _:
            pass
    return msgspec.structs.replace(page, text=text, at=at, inserting=True)
