"""Incremental syntax highlighting with pygments: each line is lexed once.

The lexer's state is kept between lines of streamed code (`CodeState`); lexers without accessible state get
some of the previous lines as context.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING

import msgspec

from coder.ui.terminal.render.width import TAB, Line

if TYPE_CHECKING:
    from pygments.lexer import Lexer
    from pygments.token import _TokenType

_ROLES = (
    ("Comment", "comment"),
    ("Keyword", "keyword"),
    ("Operator.Word", "keyword"),
    ("Literal.String", "string"),
    ("Literal.Number", "number"),
    ("Name.Function", "name"),
    ("Name.Class", "name"),
    ("Name.Decorator", "name"),
    ("Name.Tag", "name"),
    ("Name.Builtin", "number"),
    ("Generic.Inserted", "good"),
    ("Generic.Deleted", "bad"),
    ("Generic.Subheading", "hunk"),
)
LONGEST_LINE = 2000  # characters; longer lines are not highlighted
_LINES_ABOVE = 12  # context for lexers without accessible state
_OPEN, _CLOSE = "/*", "*/"
_TRIPLE = re.compile(r"\"\"\"|'''")
_STRINGS = {'"""': "tdqs", "'''": "tsqs"}  # states of the Python lexer
_BEFORE_STRING = re.compile(r"(^|[=(\[{,+%]|:\s|\b(return|yield|in|and|or|not|else))\s*[rbfuRBFU]{0,2}$")
_BEFORE_DOCSTRING = re.compile(r"\s*((async\s+)?def|class)\b.*:|.*\).*:")
_STATEMENT = re.compile(
    r"\s*(@|(async |def|class|return|import|from|if|for|while|with|try|raise|pass)\b|[\w.]+ ?[=(:\[])"
)

Token = tuple[str, str]


class CodeState(msgspec.Struct, frozen=True):
    """Lexer state after a line: the state stack, whether a `/*` is open, the last lines."""

    stack: tuple[str, ...] = ("root",)
    comment: bool = False
    above: tuple[str, ...] = ()


def state_before(lines: list[str], language: str) -> CodeState:
    """The state at an excerpt's start: inside a docstring or block comment if its lines show the end of
    one."""
    lexer = _lexer(language)
    if language == "python":
        at, quotes = next(
            ((n, found) for n, line in enumerate(lines) if (found := _TRIPLE.search(line))), (0, None)
        )
        if quotes is not None and _closes_string(lines, at, quotes):
            return CodeState(stack=("root", _STRINGS[quotes[0]]))
    elif lexer is not None and _block_comments(lexer):
        first = next((line for line in lines if _OPEN in line or _CLOSE in line), "")
        return CodeState(comment=first.lstrip().startswith("*") and _CLOSE in first)
    return CodeState()


def _closes_string(lines: list[str], at: int, quotes: re.Match[str]) -> bool:
    """Whether triple quotes, the first of an excerpt, are a string's last."""
    before, after = lines[at][: quotes.start()], lines[at][quotes.end() :]
    if before.strip():
        return not _BEFORE_STRING.search(before) and "#" not in before
    if after.strip():
        return False
    above = next((line for line in reversed(lines[:at]) if line.strip()), "")
    if above:
        return not _BEFORE_DOCSTRING.fullmatch(above)
    below = lines[at + 1] if at + 1 < len(lines) else ""
    return not below.strip() or bool(_STATEMENT.match(below))


def code_lines(lines: list[str], language: str, state: CodeState) -> tuple[list[Line], CodeState]:
    """One styled line for each of `lines`, and the state after them."""
    lexer = _lexer(language.split()[0].strip("{}.").lower() if language.strip() else "")
    lines = [line.replace("\t", TAB) for line in lines]
    if lexer is None or any(len(line) > LONGEST_LINE for line in lines):
        return [[("", line)] if line else [] for line in lines], state
    rows: list[Line] = []
    run: list[str] = []
    for line in lines:
        if state.comment or (_OPEN in line and _block_comments(lexer)):
            new, state = _run_rows(lexer, run, state)
            row, state = _comment_line(lexer, line, state)
            rows += [*new, row]
            run = []
        else:
            run.append(line)
    new, state = _run_rows(lexer, run, state)
    return rows + new, state


def _comment_line(lexer: Lexer, line: str, state: CodeState) -> tuple[Line, CodeState]:
    """A line with a block comment that may span several lines."""
    head: Line = []
    if state.comment:
        end = line.find(_CLOSE)
        if end < 0:
            return ([("comment", line)] if line else []), state
        head, line = [("comment", line[: end + 2])], line[end + 2 :]
        state = msgspec.structs.replace(state, comment=False)
    opened = line.rfind(_OPEN)
    if opened >= 0 and _CLOSE not in line[opened:]:
        (row,), after = _run_rows(lexer, [line + _CLOSE], state)
        role, last = row[-1]
        if role == "comment" and last.endswith(_CLOSE) and last.startswith(_OPEN):  # not a string's
            row[-1] = (role, last[: -len(_CLOSE)])
            return head + row, msgspec.structs.replace(after, comment=True)
    (row,), state = _run_rows(lexer, [line], state)
    return head + row, state


def _run_rows(lexer: Lexer, lines: list[str], state: CodeState) -> tuple[list[Line], CodeState]:
    if not lines:
        return [], state
    above: list[str] = []
    if _has_standard_lexing(type(lexer)):
        tokens, stack = _lexed(lexer, "\n".join(lines) + "\n", state.stack)
        state = msgspec.structs.replace(state, stack=stack)
    else:
        above = list(state.above)
        tokens = [(_role(kind), value) for kind, value in lexer.get_tokens("\n".join([*above, *lines]))]
        state = msgspec.structs.replace(state, above=(*above, *lines)[-_LINES_ABOVE:])
    rows = _rows(tokens)[len(above) :]
    return (rows + [[] for _ in lines])[: len(lines)], state


def _rows(tokens: list[Token]) -> list[Line]:
    out: list[Line] = [[]]
    for role, value in tokens:
        first, *others = value.split("\n")
        if first:
            out[-1].append((role, first))
        out += [[(role, piece)] if piece else [] for piece in others]
    return out


@functools.cache
def _has_standard_lexing(kind: type[Lexer]) -> bool:
    from pygments.lexer import RegexLexer

    return issubclass(kind, RegexLexer) and (kind.get_tokens_unprocessed is RegexLexer.get_tokens_unprocessed)


def _lexed(lexer: Lexer, text: str, stack: tuple[str, ...]) -> tuple[list[Token], tuple[str, ...]]:
    """Like `RegexLexer.get_tokens_unprocessed`, but returns the final state stack too."""
    from pygments.token import _TokenType

    rules = lexer._tokens  # type: ignore[attr-defined] # a RegexLexer's, made by its metaclass
    states = list(stack)
    out: list[Token] = []
    at = 0
    while at < len(text):
        for match, action, after in rules[states[-1]]:
            found = match(text, at)
            if found is None:
                continue
            if type(action) is _TokenType:
                out.append((_role(action), found.group()))
            elif action is not None:
                out += [(_role(kind), value) for _, kind, value in action(lexer, found)]
            at = found.end()
            _move(states, after)
            break
        else:
            if text[at] == "\n":
                states = ["root"]
            out.append(("", text[at]))
            at += 1
    return out, tuple(states)


def _move(states: list[str], to: tuple[str, ...] | int | str | None) -> None:
    """Apply a rule's state transition: names to push, a number to pop, or `#push`/`#pop`."""
    if to is None:
        return
    if isinstance(to, int):
        del states[max(1, len(states) + to) :]
        return
    for name in (to,) if isinstance(to, str) else to:
        if name == "#pop":
            del states[max(1, len(states) - 1) :]
        else:
            states.append(states[-1] if name == "#push" else name)


@functools.cache
def _lexer(name: str) -> Lexer | None:
    if not name:
        return None
    from pygments.lexers import get_lexer_by_name
    from pygments.util import ClassNotFound

    try:
        return get_lexer_by_name(name, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None


@functools.cache
def _block_comments(lexer: Lexer) -> bool:
    return any(value == "/* a */" and _role(kind) == "comment" for kind, value in lexer.get_tokens("/* a */"))


@functools.cache
def _role(kind: _TokenType) -> str:
    name = str(kind).removeprefix("Token.")
    return next((role for start, role in _ROLES if name.startswith(start)), "")
