"""Shell words: the certain part of a word, and what it may expand to.

A word is either known exactly (unquoted and unescaped), or only by its prefix. No file system or environment
lookups: the result of an expansion is never guessed. Expansions that evaluate a value (subscripts, `${!x}`,
`${x@P}`, arithmetic on variables) can run code in it, and are reported as trouble."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from coder.base.text import one_line
from coder.policy.programs import names
from coder.texts import CoderError, Text

if TYPE_CHECKING:
    from tree_sitter import Node

_LONGEST_SHOWN = 40  # characters of what cannot be parsed


class ShellParseError(CoderError):
    """The line cannot be parsed with certainty: at `near`, or for the reason that `key` names."""

    def __init__(self, near: str = "", key: str = "syntax") -> None:
        super().__init__(f"policy.unread.{key}", near=one_line(near, _LONGEST_SHOWN))


class Word(msgspec.Struct, frozen=True):
    """One word of a command. `text` is its value if `exact`, else a prefix that is certain. `splits`: it may
    expand to any number of words, the later ones with any prefix. `shell_text`: as written."""

    text: str
    exact: bool = True
    splits: bool = False
    shell_text: str = ""
    braces: bool = False  # an unquoted brace, which may expand with its neighbours
    globs: bool = False  # an unquoted glob: as many words as files match, each with the prefix `text`

    @property
    def single(self) -> bool:
        """Whether this is exactly one word."""
        return not self.splits and not self.globs

    def maybe_option(self) -> bool:
        """Whether the program could parse this word as an option."""
        if self.exact:
            return self.text.startswith("-") and self.text != "-"
        return self.splits or not self.text or self.text.startswith("-")


UNKNOWN = Word(text="", exact=False, splits=True)

_QUOTING = frozenset("`'\"$()<>;&|")
_BLANK = frozenset(" \t\n")
_DOUBLE_QUOTE_ESCAPES = frozenset('$`"\\')
_EXPANSION_START = frozenset("({[@*#?$!-_'\"")
_ANSI_SIMPLE = {
    "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t",
    "v": "\v", "\\": "\\", "'": "'", '"': '"', "?": "?",
}  # fmt: skip
_ANSI_HEX = {"x": 2, "u": 4, "U": 8}


def starts_expansion(char: str) -> bool:
    """Whether `$` followed by this character is an expansion."""
    return char in _EXPANSION_START or char.isalnum()


def bare_word(source: str) -> Word:
    """An unquoted word, unescaped; globs and braces make the rest inexact."""
    out: list[str] = []
    known = -1  # length of the prefix before the first glob
    open_brace = False
    i = 0
    while i < len(source):
        char = source[i]
        if char == "\\":
            i += 1
            if i >= len(source) or source[i] == "\n":
                raise ShellParseError(source)
            out.append(source[i])
        elif char in _QUOTING or char in _BLANK:
            raise ShellParseError(source)
        else:
            if char in "*?[" and known < 0:
                known = len(out)
            open_brace = open_brace or char == "{"
            out.append(char)
        i += 1
    text = "".join(out)
    if open_brace and _may_expand(text):
        return Word("", exact=False, splits=True, shell_text=source, braces=True)
    if known >= 0:
        return Word(text[:known], exact=False, shell_text=source, braces=open_brace, globs=True)
    return Word(text, shell_text=source, braces=open_brace)


def _may_expand(text: str) -> bool:
    return "," in text or ".." in text


def single_quoted(source: str) -> Word:
    """`'…'`: literal."""
    if len(source) < 2 or source[0] != "'" or source[-1] != "'" or "'" in source[1:-1]:
        raise ShellParseError(source)
    return Word(source[1:-1], shell_text=source)


def double_quoted_text(source: str) -> str:
    """Unescape literal text in double quotes or a here-document, where only some escapes count."""
    out: list[str] = []
    i = 0
    while i < len(source):
        char = source[i]
        following = source[i + 1] if i + 1 < len(source) else ""
        if char == "\\" and following == "\n":
            i += 1
        elif char == "\\" and following in _DOUBLE_QUOTE_ESCAPES and following:
            out.append(following)
            i += 1
        elif char == "`" or (char == "$" and following and starts_expansion(following)):
            raise ShellParseError(source)
        else:
            out.append(char)
        i += 1
    return "".join(out)


def ansi_quoted(source: str) -> Word:
    """`$'…'`: C escapes decoded; one that is not certain makes the word unknown."""
    if not source.startswith("$'") or not source.endswith("'") or len(source) < 3:
        raise ShellParseError(source)
    body = source[2:-1]
    unknown = Word("", exact=False, shell_text=source)
    out: list[str] = []
    i = 0
    while i < len(body):
        if body[i] == "'":
            raise ShellParseError(source)
        if body[i] != "\\":
            out.append(body[i])
            i += 1
            continue
        decoded, i = _ansi_escape(body, i + 1)
        if decoded is None:
            return unknown
        out.append(decoded)
    return Word("".join(out), shell_text=source)


def _ansi_escape(body: str, at: int) -> tuple[str | None, int]:
    """Decode the escape at `at` (after its backslash); returns the character and the end position."""
    kind = body[at : at + 1]
    if kind in _ANSI_SIMPLE:
        return _ANSI_SIMPLE[kind], at + 1
    if kind in _ANSI_HEX:
        return _code_point(body, at + 1, 16, _ANSI_HEX[kind])
    if kind and kind in "01234567":
        return _code_point(body, at, 8, 3)
    return None, at + 1


def _code_point(body: str, at: int, base: int, most: int) -> tuple[str | None, int]:
    digits = "01234567" if base == 8 else "0123456789abcdefABCDEF"
    end = at
    while end < len(body) and end - at < most and body[end] in digits:
        end += 1
    value = int(body[at:end], base) if end > at else 0
    # NUL ends the string early in bash, and bytes beyond ASCII depend on the locale: both stay unknown.
    return (chr(value) if 0 < value < 128 else None), end


def joined(parts: list[Word], source: str) -> Word:
    """Concatenate adjacent pieces to one word."""
    together = "".join(part.text for part in parts)
    if any(part.braces for part in parts) and (
        _may_expand(together) or not all(part.exact for part in parts)
    ):
        return Word("", exact=False, splits=True, shell_text=source)
    text: list[str] = []
    for index, part in enumerate(parts):
        text.append(part.text)
        if not part.exact:
            rest = parts[index:]
            return Word(
                "".join(text),
                exact=False,
                splits=any(piece.splits for piece in rest),
                shell_text=source,
                globs=any(piece.globs for piece in rest),
            )
    return Word(together, shell_text=source)


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
            "process_substitution": self._command_substitution,
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
        process = node.type == "process_substitution"
        return Word("/dev/fd/" if process else "", exact=False, splits=not process, shell_text=text)

    def _arithmetic_expansion(self, node: Node, text: str) -> Word:
        self.arithmetic(node)
        return Word("", exact=False, splits=True, shell_text=text)

    def _braces(self, node: Node, text: str) -> Word:
        if any(child.is_named and child.type != "number" for child in node.children):
            raise ShellParseError(text)
        return Word("", exact=False, splits=True, shell_text=text)

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


# Integer variables of bash evaluate arithmetic when set: `RANDOM='a[$(x)]'` runs x.
_NAMES = names(
    """
    IFS ENV HOME SHELL SHELLOPTS PAGER EDITOR VISUAL BROWSER TMPDIR TMP TEMP PWD OLDPWD POSIXLY_CORRECT
    GLOBIGNORE FIGNORE EXINIT VIMINIT OPTARG OPTIND MAIL USER LOGNAME ZDOTDIR FPATH FCEDIT INPUTRC
    HOSTALIASES LOCALDOMAIN TERMCAP DISPLAY KUBECONFIG MAKE MAKEFILES CC CXX AR LD AS NM REPLY COPROC
    MAPFILE histchars auto_resume RANDOM SRANDOM SECONDS LINENO EPOCHSECONDS EPOCHREALTIME FUNCNAME GROUPS
    DIRSTACK PIPESTATUS SHLVL UID EUID PPID TMOUT FUNCNEST EXECIGNORE CHILD_MAX IGNOREEOF HOSTFILE TIMEFORMAT
    """
)
_BEGINNINGS = tuple(
    names(
        """
        LD_ DYLD_ GIT_ GH_ BASH PYTHON PERL RUBY NODE NPM_ npm_ YARN_ GLIBC_ MALLOC_ GCONV LESS MAN
        RIPGREP RUST CARGO GO JAVA JDK _JAVA SSH GPG XDG_ PS0 PS1 PS2 PS3 PS4 PROMPT GREP_ TAR_ AWK
        RSYNC CVS TERMINFO SUDO PIP_ UV_ DOCKER CODER_ OPENAI ANTHROPIC GEMINI JQ_ BAT_ FZF LUA_ PHP
        GEM_ BUNDLE MAVEN GRADLE DOTNET CLASSPATH HIST NLSPATH LOCPATH DEBUGINFOD DIRENV EZA_ EXA_ FD_
        OPENSSL SSL_ CURL_ WGET FTP MAKE CMAKE VIM EMACS
        """
    )
)
_ENDINGS = tuple(
    names(
        """
        PATH _OPTIONS _OPTS FLAGS _CONFIG PAGER EDITOR _COMMAND _CMD _PROXY _proxy _HOME _ROOT _WRAPPER
        _LAUNCHER _PRELOAD _RC _SHELL _HOOK _HOOKS
        """
    )
)
# Programs read command lines from variables (`BZIP2`, `XZ_OPT`, `UNZIP`): an allowlist, and lower-case names,
# which no program uses.
_EXPORTED = names(
    """
    TZ COLUMNS LINES NO_COLOR FORCE_COLOR CLICOLOR CLICOLOR_FORCE TERM COLORTERM CI DEBUG
    LS_COLORS BLOCK_SIZE BLOCKSIZE TIME_STYLE QUOTING_STYLE VERBOSE
    """
)

# A character set decides where a quote ends (in GBK the backslash of `"你\\"` is half a character), and
# `LANGUAGE` is a path below the directory of translations.
_LOCALES = ("LANG", "LC_")
_PLAIN_LOCALE = re.compile(r"(?:C|POSIX|\w+\.(?i:UTF-?8)(?:@\w+)?)?", re.ASCII)


def is_identifier(name: str) -> bool:
    """Whether `name` is a plain variable name to the shell."""
    return name.isascii() and name.isidentifier()


def is_dangerous(name: str, value: str | None = None) -> bool:
    """Whether setting this variable, to `value` if that is certain, can make a harmless command do something
    else."""
    if name.startswith(_LOCALES):
        return value is None or not _PLAIN_LOCALE.fullmatch(value)
    return name in _NAMES or name.startswith(_BEGINNINGS) or name.endswith(_ENDINGS)


def may_be_exported(name: str, value: str | None = None) -> bool:
    """Whether no program is known to act on this variable."""
    known = name in _EXPORTED or name.startswith(_LOCALES) or name.islower()
    return known and not is_dangerous(name, value)


def reads_utf8() -> bool:
    """Whether the shell reads a line beyond ASCII as it is meant, in the person's own locale."""
    named = (os.environ.get(name) for name in ("LC_ALL", "LC_CTYPE", "LANG"))
    return _PLAIN_LOCALE.fullmatch(next(filter(None, named), "")) is not None
