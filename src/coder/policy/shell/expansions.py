"""Reads word nodes of the syntax tree: quotes, expansions, substitutions, arithmetic, patterns.

Only expansions that merely yield text are accepted. Those that evaluate a value (subscripts, `${!x}`,
`${x@P}`, arithmetic on variables) can run code in it, and are reported as trouble."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from coder.policy.shell.words import (
    ShellParseError,
    Word,
    ansi_quoted,
    bare_word,
    double_quoted_text,
    joined,
    single_quoted,
    starts_expansion,
)
from coder.texts import Text

if TYPE_CHECKING:
    from tree_sitter import Node


_PLAIN_OPERATORS = frozenset(
    {"${", "}", ":-", "-", ":+", "+", ":?", "?", "%", "%%", "#", "##", "/", "//", "/#", "/%", "^", "^^", ",",
     ",,", "$"}
)  # fmt: skip
_ARITHMETIC_TOKENS = frozenset(
    {"$((", "))", "$[", "]", "((", "(", ")", "+", "-", "*", "/", "%", "**", "<", ">", "<=", ">=", "==", "!=",
     "<<", ">>", "&", "|", "^", "~", "!", "&&", "||", "?", ":", ","}
)  # fmt: skip
_ARITHMETIC_NODES = frozenset(
    {"binary_expression", "unary_expression", "ternary_expression", "parenthesized_expression", "number"}
)
_PATTERN_FORBIDS = frozenset("`$'\"<>;& \t\n\\")
_DYNAMIC = Text("policy.why.evaluates")


class WordReader:
    """Converts a word node to a `Word`, reporting substitutions and troubles by callback."""

    def __init__(
        self,
        data: bytes,
        on_substitution: Callable[[Node], None],
        on_trouble: Callable[[Node, Text], None],
    ) -> None:
        self._data = data
        self._on_substitution = on_substitution
        self._on_trouble = on_trouble
        self._readers: dict[str, Callable[[Node, str], Word]] = {
            "word": self._bare,
            "number": self._bare,
            "variable_name": self._bare,
            "test_operator": self._bare,
            "raw_string": lambda _, text: single_quoted(text),
            "ansi_c_string": lambda _, text: ansi_quoted(text),
            "string": self._string,
            "concatenation": self._concatenation,
            "simple_expansion": self._variable,
            "expansion": self._expansion,
            "command_substitution": self._command_substitution,
            "process_substitution": self._process_substitution,
            "arithmetic_expansion": self._arithmetic_expansion,
            "brace_expression": self._braces,
        }

    def word(self, node: Node) -> Word:
        reader = self._readers.get(node.type)
        if reader is None:
            raise ShellParseError(self._text(node))
        return reader(node, self._text(node))

    def pattern(self, node: Node) -> None:
        """A pattern of `case` or `[[ =~ ]]`: literal characters only."""
        if _PATTERN_FORBIDS.intersection(self._text(node)):
            raise ShellParseError(self._text(node))

    def heredoc(self, body: Node) -> None:
        """The body of a here-document: the text between its expansions must be literal."""
        if not body.children:
            return
        position = body.start_byte
        for child in body.children:
            self._literal(position, child.start_byte)
            if child.type == "heredoc_content":
                self._literal(child.start_byte, child.end_byte)
            else:
                self._check_nested_quotes(child)
                self.word(child)
            position = child.end_byte
        self._literal(position, body.end_byte)

    def arithmetic(self, node: Node) -> None:
        """Numbers and operators only: a variable's value is itself evaluated, subscripts included."""
        for child in node.children:
            if child.type in _ARITHMETIC_NODES:
                self.arithmetic(child)
            elif child.is_named:
                self._on_trouble(child, Text("policy.why.evaluates"))
                self.substitutions(child)
            elif child.type not in _ARITHMETIC_TOKENS:
                self._on_trouble(child, Text("policy.why.evaluates"))

    def substitutions(self, node: Node) -> None:
        """Report the substitutions below a node that is already trouble."""
        if node.type in ("command_substitution", "process_substitution"):
            self._on_substitution(node)
            return
        for child in node.children:
            self.substitutions(child)

    # -- one reader per kind of node -------------------------------------------------------------------

    def _bare(self, node: Node, text: str) -> Word:
        start = node.start_byte
        if text.startswith("#") and (not start or self._data[start - 1] in b" \t\n;&|("):
            raise ShellParseError(text)
        if text == "[" and (node.parent is None or node.parent.type != "concatenation"):
            return Word(text, shell_text=text)  # the program; within a word it begins a glob
        return bare_word(text)

    def _string(self, node: Node, text: str) -> Word:
        children = node.children
        if len(children) < 2 or children[0].type != '"' or children[-1].type != '"':
            raise ShellParseError(text)
        parts: list[Word] = []
        position = children[0].end_byte
        for child in children[1:]:
            gap = self._data[position : child.start_byte].decode()
            if gap.strip(" \t\n"):
                raise ShellParseError(text)
            parts.append(Word(gap))
            parts.append(self._string_part(child))
            position = child.end_byte
        return joined(parts, text)

    def _string_part(self, node: Node) -> Word:
        text = self._text(node)
        if node.type == '"':
            return Word(text[:-1])  # in the tree blanks alone belong to the quote that ends them
        if node.type == "string_content":
            if _has_bare_quote(text):
                raise ShellParseError(text)
            return Word(double_quoted_text(text))
        if node.type == "$":
            following = self._data[node.end_byte : node.end_byte + 1].decode("latin-1")
            if following != '"' and starts_expansion(following):
                raise ShellParseError(text)
            return Word(text)
        if not node.is_named:
            raise ShellParseError(text)
        self._check_nested_quotes(node)
        # The tree includes blanks before an expansion in it; in quotes they are text.
        lead = text[: len(text) - len(text.lstrip(" \t\n"))]
        inner = self.word(node)
        many = inner.splits and "@" in text
        return Word(lead + inner.text, exact=inner.exact, splits=many, shell_text=text)

    def _concatenation(self, node: Node, text: str) -> Word:
        parts: list[Word] = []
        position = node.start_byte
        for child in node.children:
            if child.start_byte != position:
                raise ShellParseError(text)
            position = child.end_byte
            if child.type == "$":
                if child is not node.children[-1] and child.end_byte != node.end_byte:
                    raise ShellParseError(text)
                # At the end of a word the tree takes `$$` for one token.
                parts.append(Word("$") if self._text(child) == "$" else Word("", exact=False))
            elif child.is_named:
                parts.append(self.word(child))
            else:
                raise ShellParseError(text)
        if position != node.end_byte:
            raise ShellParseError(text)
        return joined(parts, text)

    def _variable(self, node: Node, text: str) -> Word:
        if text.lstrip(" \t\n")[:1] != "$" or len(node.children) != 2:
            raise ShellParseError(text)
        return Word("", exact=False, splits=True, shell_text=text)

    def _expansion(self, node: Node, text: str) -> Word:
        for child in node.children:
            if child.type in ("regex", "extglob_pattern"):
                if _PATTERN_FORBIDS.intersection(self._text(child)):
                    raise ShellParseError(text)
            elif child.type in ("variable_name", "special_variable_name"):
                continue
            elif child.is_named and child.type in self._readers:
                self.word(child)
            elif child.is_named or child.type.strip() not in _PLAIN_OPERATORS:
                self._on_trouble(node, _DYNAMIC)
                self.substitutions(node)
                break
        return Word("", exact=False, splits=True, shell_text=text)

    def _command_substitution(self, node: Node, text: str) -> Word:
        self._on_substitution(node)
        return Word("", exact=False, splits=True, shell_text=text)

    def _process_substitution(self, node: Node, text: str) -> Word:
        self._on_substitution(node)
        return Word("/dev/fd/", exact=False, shell_text=text)

    def _arithmetic_expansion(self, node: Node, text: str) -> Word:
        self.arithmetic(node)
        return Word("", exact=False, splits=True, shell_text=text)

    def _braces(self, node: Node, text: str) -> Word:
        if any(child.is_named and child.type != "number" for child in node.children):
            raise ShellParseError(text)
        return Word("", exact=False, splits=True, shell_text=text)

    # -- text ------------------------------------------------------------------------------------------

    def _check_nested_quotes(self, node: Node) -> None:
        """Refuse nested quotes that bash and the tree read differently. In `"${x:-'$(y)'}"` and in
        here-documents single quotes are literal, and y runs; the tree takes them for quotes. In
        `"${x:-"$\\(y)"}"` bash removes the backslash before it expands the inner quotes: y runs too."""
        text = self._text(node)
        if node.type == "expansion" and ("'" in text or ('"' in text and "\\" in text)):
            raise ShellParseError(text)

    def _literal(self, start: int, end: int) -> None:
        double_quoted_text(self._data[start:end].decode())

    def _text(self, node: Node) -> str:
        return self._data[node.start_byte : node.end_byte].decode()


def _has_bare_quote(text: str) -> bool:
    escaped = False
    for char in text:
        if char == '"' and not escaped:
            return True
        escaped = char == "\\" and not escaped
    return False


def check_heredoc(node: Node, data: bytes) -> None:
    """Raise unless delimiter, body and end of this here-document are unambiguous."""
    parts = {child.type: child for child in node.children}
    start, end = parts.get("heredoc_start"), parts.get("heredoc_end")
    if start is None or end is None:
        raise ShellParseError(_text(node, data))
    delimiter, raw = _delimiter(_text(start, data))
    strip_tabs = "<<-" in parts
    lines = data.decode().split("\n")
    # bash reads the body from the line after the operator; row numbers do not depend on the tree's extent.
    first, last = start.end_point[0] + 1, end.start_point[0]
    if start.start_point[0] != node.start_point[0] or last < first or last >= len(lines):
        raise ShellParseError(_text(node, data))
    body = [line.lstrip("\t") if strip_tabs else line for line in lines[first : last + 1]]
    if body[-1] != delimiter or delimiter in body[:-1]:
        raise ShellParseError(_text(node, data))
    for child in node.children:
        if child.type not in ("heredoc_body", "heredoc_end") and child.end_point[0] != first - 1:
            raise ShellParseError(_text(node, data))
    found = parts.get("heredoc_body")
    if raw and found is not None and found.children:
        raise ShellParseError(_text(node, data))
    text = "\n".join(body[:-1])
    if not raw and found is None and ("$" in text or "`" in text):
        raise ShellParseError(_text(node, data))
    if not raw and any(line.endswith("\\") for line in body):
        raise ShellParseError(_text(node, data))
    if not raw and found is not None and not found.children and ("$" in text or "`" in text):
        raise ShellParseError(_text(node, data))


def _delimiter(text: str) -> tuple[str, bool]:
    """The delimiter without quotes, and whether it was quoted (no expansion in the body)."""
    for quote in ("'", '"'):
        if len(text) > 2 and text.startswith(quote) and text.endswith(quote):
            return _plain(text[1:-1]), True
    if text.startswith("\\"):
        return _plain(text[1:]), True
    return _plain(text), False


def _plain(name: str) -> str:
    if not name.replace("_", "a").replace("-", "a").isalnum() or not name.isascii():
        raise ShellParseError(name)
    return name


def _text(node: Node, data: bytes) -> str:
    return data[node.start_byte : node.end_byte].decode()
