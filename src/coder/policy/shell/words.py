"""Shell words: the certain part of a word, and what it may expand to.

A word is either known exactly (unquoted and unescaped), or only by its prefix. No file system or environment
lookups: the result of an expansion is never guessed."""

from __future__ import annotations

import os
import re

import msgspec

from coder.base.text import one_line
from coder.policy.programs import names
from coder.texts import CoderError

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
