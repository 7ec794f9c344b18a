"""Rules for programs and builtins whose arguments are a language of their own.

Each rule returns why a call is not read-only, or None. It accepts a small, well-understood subset and refuses
the rest."""

from __future__ import annotations

import os
import re

from coder.policy.programs import names
from coder.policy.programs.flags import Flags, check_flags
from coder.policy.shell.directories import WorkingDirectories
from coder.policy.shell.words import Word, is_dangerous, is_identifier, may_be_exported
from coder.texts import Text

_PLAIN = frozenset("pPdDnNgGhHx=lqQzF{}")
_DELIMITERS = frozenset("/|,#:@!~%+_")
# Escapes and bracket expressions that end in the same place for every implementation.
_CERTAIN = re.compile(r"\\.|\[(?!\^?\])(?:[^][]|\[:\w+:\])+\]")
_S_FLAGS = "gpiIm0123456789"


class _Refused(Exception):
    """The script contains something that is not on the list."""


def is_harmless_script(script: str) -> bool:
    """Whether no command of the script can write or run anything."""
    try:
        at = 0
        while at < len(script):
            at = _command(script, _skip(script, at, " \t\n;"))
    except _Refused:
        return False
    return True


def _command(script: str, at: int) -> int:
    """Parse one command with its addresses; returns its end."""
    if at >= len(script):
        return at
    at = _address(script, at)
    after = _skip(script, at, " \t")
    if script[after : after + 1] == ",":
        at = _address(script, _skip(script, after + 1, " \t"))
    at = _skip(script, at, " \t!")
    letter = script[at : at + 1]
    if letter == "s":
        return _end(script, _skip(script, _two_parts(script, at + 1), _S_FLAGS))
    if letter == "y":
        return _end(script, _two_parts(script, at + 1))
    if letter in ("q", "Q"):
        return _end(script, _skip(script, at + 1, " 0123456789"))
    if letter == "{":
        return at + 1
    if letter and letter in _PLAIN:
        return _end(script, at + 1)
    raise _Refused


def _address(script: str, at: int) -> int:
    char = script[at : at + 1]
    if char.isdigit() or char in ("+", "~"):
        return _skip(script, at + 1, "0123456789~")
    if char == "$":
        return at + 1
    return _skip(script, _part(script, at + 1, "/"), "I") if char == "/" else at


def _two_parts(script: str, at: int) -> int:
    delimiter = script[at : at + 1]
    if delimiter not in _DELIMITERS or not delimiter:
        raise _Refused
    return _part(script, _part(script, at + 1, delimiter), delimiter)


def _part(script: str, at: int, delimiter: str) -> int:
    """Skip past the closing delimiter. Implementations differ on a delimiter in brackets: refused."""
    start = at
    while at < len(script):
        if script[at] == "\\":
            at += 2
            continue
        if script[at] == "\n":
            raise _Refused
        if script[at] == delimiter:
            if "[" in _CERTAIN.sub("", script[start:at]):
                raise _Refused
            return at + 1
        at += 1
    raise _Refused


def _end(script: str, at: int) -> int:
    at = _skip(script, at, " \t")
    if at < len(script) and script[at] not in ";\n}":
        raise _Refused
    return at


def _skip(script: str, at: int, chars: str) -> int:
    while at < len(script) and script[at] in chars:
        at += 1
    return at


_EXPANSION = Text("policy.why.expansion")
_ARGUMENTS = Text("policy.why.arguments")
_EVALUATES = Text("policy.why.evaluates")
_AWK_VALUE_OPTIONS = ("-F", "-v")


def awk(args: list[Word], places: WorkingDirectories) -> Text | None:
    """One literal program that neither runs commands nor writes."""
    index = 0
    while index < len(args) and args[index].exact and args[index].text[:2] in _AWK_VALUE_OPTIONS:
        index += 1 if len(args[index].text) > 2 else 2
    if index < len(args) and args[index].exact and args[index].text == "--":
        index += 1
    if index >= len(args) or not args[index].exact or args[index].text.startswith("-"):
        return _EXPANSION
    if not _harmless_awk(args[index].text):
        return Text("policy.why.acts", name="awk")
    if any(word.text.startswith("/inet") for word in args[index + 1 :]):
        return Text("policy.why.network")  # gawk opens a connection
    if not all(word.single for word in args[:index]) or any(
        word.maybe_option() for word in args[index + 1 :]
    ):
        return _EXPANSION
    return None


def _harmless_awk(program: str) -> bool:
    """No pipe, output redirection or command, also not by an indirect call; reads only its operands."""
    plain = program.replace(">=", "").replace("||", "")
    # Only `print` and `printf` redirect: before the first of them `>` compares.
    if ">" in plain.partition("print")[2] or "|" in plain or "@" in plain or "\\\n" in program:
        return False
    return not any(word in program for word in ("system", "getline", "close", "fflush", "extension", "ARGV"))


_SED_FLAGS = names(
    """
    -n -E -r -s -u -z -nE -nr -En -rn --quiet --silent --regexp-extended --null-data --separate --unbuffered
    --posix
    """
)


def sed(args: list[Word], places: WorkingDirectories) -> Text | None:
    """Literal scripts of commands that only print."""
    scripts: list[Word] = []
    operands: list[Word] = []
    index = 0
    while index < len(args):
        word = args[index]
        index += 1
        if not word.maybe_option():
            operands.append(word)
        elif word.exact and word.text in ("-e", "-ne", "--expression") and index < len(args):
            scripts.append(args[index])
            index += 1
        elif word.exact and word.text.startswith("--expression="):
            scripts.append(Word(word.text.split("=", 1)[1]))
        elif not (word.exact and word.text in _SED_FLAGS):
            return Text("policy.why.option", option=word.text) if word.exact else _EXPANSION
    if not scripts:
        scripts, operands = operands[:1], operands[1:]
    if not scripts or not all(word.exact and is_harmless_script(word.text) for word in scripts):
        return Text("policy.why.acts", name="sed")
    return None


_UNARY = frozenset("-" + letter for letter in "abcdefghknprstuwxzGLNOS")
_BINARY = frozenset({"=", "==", "!=", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot", "-ef"})
_NUMERIC = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
_EVALUATING = frozenset({"-v", "-R"})


def single_test(args: list[Word], places: WorkingDirectories) -> Text | None:
    """`[ … ]` and `test`: `-v` evaluates a subscript, so no word may expand to it."""
    if args and args[-1].exact and args[-1].text == "]":
        args = args[:-1]
    if any(word.exact and word.text in _EVALUATING for word in args):
        return _EVALUATES
    if all(word.exact for word in args):
        return None
    if args[0].exact and args[0].text == "!":
        args = args[1:]
    if any(not word.single and word.maybe_option() for word in args):
        return _EXPANSION
    shape_known = (
        len(args) == 1
        or (len(args) == 2 and args[0].exact and args[0].text in _UNARY)
        or (len(args) == 3 and args[1].exact and args[1].text in _BINARY)
    )
    return None if shape_known else _ARGUMENTS


def double_test(args: list[Word], places: WorkingDirectories) -> Text | None:
    """`[[ … ]]`: numeric comparison evaluates its operands as arithmetic."""
    for index, word in enumerate(args):
        if word.exact and word.text in _EVALUATING:
            return _EVALUATES
        if word.exact and word.text in _NUMERIC:
            around = args[max(index - 1, 0) : index] + args[index + 1 : index + 2]
            if not all(operand.exact and operand.text.isdigit() for operand in around):
                return _EVALUATES
    return None


def printf(args: list[Word], places: WorkingDirectories) -> Text | None:
    """The format must be literal; `-v` only into a plain, harmless variable."""
    if len(args) >= 2 and args[0].exact and args[0].text == "-v":
        name = args[1]
        if not name.exact or not is_identifier(name.text) or is_dangerous(name.text):
            return _ARGUMENTS
        args = args[2:]
    dashes = bool(args) and args[0].exact and args[0].text == "--"
    args = args[1:] if dashes else args
    if args and (not args[0].exact or (args[0].text.startswith("-") and not dashes)):
        return _EXPANSION
    formats = args[0].text.split("%")[1:] if args else []  # `%n`, with any flags and width, assigns
    assigns = any(part.lstrip("-+ #0123456789.*'hlLjzt").startswith("n") for part in formats)
    return _ARGUMENTS if assigns else None


def read(args: list[Word], places: WorkingDirectories) -> Text | None:
    """`read` into plain variables only: a subscript in a name is evaluated."""
    for word in args:
        if not word.exact:
            return _EXPANSION
        harmless = word.text in ("-r", "-a", "-d", "-ra", "-rd", "-s", "-p") or len(word.text) <= 1
        if not harmless and (not is_identifier(word.text) or is_dangerous(word.text)):
            return _ARGUMENTS
    return None


def shell_set(args: list[Word], places: WorkingDirectories) -> Text | None:
    """`set -euo pipefail` and the like; no positional parameters or tracing."""
    given = [word.text for word in args if word.exact]
    if len(given) != len(args):
        return _EXPANSION
    flags = [text for text in given if text != "pipefail"]
    plain = all(text[:1] in "-+" and text[1:] and set(text[1:]) <= set("euox") for text in flags)
    complete = "pipefail" not in given or any("o" in text for text in flags)
    return None if plain and complete else _ARGUMENTS


def numbers_only(args: list[Word], places: WorkingDirectories) -> Text | None:
    """`exit`, `break`, `return` …: at most a number."""
    fine = all((word.exact and word.text.isdigit()) or word.shell_text in ("$?", "$!") for word in args)
    return None if len(args) <= 1 and fine else _ARGUMENTS


def change_directory(args: list[Word], places: WorkingDirectories) -> Text | None:
    """`cd` is read-only only if it certainly stays in the workspace."""
    if len(args) == 2 and args[0].exact and args[0].text == "--":
        args = args[1:]
    if len(args) != 1 or not args[0].exact or args[0].text in ("-", "") or args[0].text.startswith("-"):
        return Text("policy.why.leaves")
    target = args[0].text
    stays = places.inside(target) and places.inside(os.path.normpath(target))
    return None if stays else Text("policy.why.leaves")


def declare(args: list[Word], places: WorkingDirectories) -> Text | None:
    """`export x=1`, `local y`: plain names, and no attribute that evaluates values."""
    for word in args:
        if not word.exact or not (word.text in ("-x", "-r", "-g", "-rx", "-xr") or is_identifier(word.text)):
            return _ARGUMENTS
        if is_identifier(word.text) and not may_be_exported(word.text):
            return Text("policy.why.changes_variable", name=word.text)
    return None


_XXD_VALUED = names("-l -len -s -seek -skip -c -cols -g -groupsize -n -name")
_XXD_PLAIN = names("-p -ps -plain -postscript -u -i -include -b -bits -e -E -EBCDIC -d -a -autoskip -C")


def xxd(args: list[Word], places: WorkingDirectories) -> Text | None:
    """Options, then one file: a second operand, even `-p`, is written."""
    index = 0
    while index < len(args) and args[index].exact and args[index].maybe_option():
        text = args[index].text
        if text in _XXD_VALUED and index + 1 < len(args) and args[index + 1].exact:
            index += 1
        elif text not in _XXD_PLAIN and not (text[:2] in _XXD_VALUED and text[2:].isdigit()):
            return Text("policy.why.option", option=text)
        index += 1
    if any(not word.single or word.maybe_option() for word in args[index:]):
        return _EXPANSION
    return _ARGUMENTS if len(args) - index > 1 else None


def ps(args: list[Word], places: WorkingDirectories) -> Text | None:
    """BSD-style letters with an `e`, and a column, show the environment of processes."""
    for before, word in zip([Word(""), *args], args, strict=False):
        value = before.text.startswith("-") and before.text[-1] in "CGOUgkopqstu"
        bare = word.text.isalpha() and "e" in word.text and not value
        bare = bare or (word.text[:1] == "-" and word.text[1:].isalpha() and "E" in word.text)  # macOS
        if not word.exact or bare or "environ" in word.text:
            return Text("policy.why.private")
    return None


_NUMERIC_LISTING = Flags(short="D")  # lsof writes a device cache


def numeric(args: list[Word], places: WorkingDirectories) -> Text | None:
    """`lsof`, `netstat`: without `-n` they resolve host names by DNS."""
    given = [word.text for word in args if word.exact]
    plain = any(text == "--numeric" or re.match(r"(?s)-(?!-).*n", text) for text in given)
    if not plain or any("@" in word.text for word in args):  # `lsof -i @host`
        return Text("policy.why.looks_up")
    return check_flags(args, _NUMERIC_LISTING)


_DATE = Flags(short="sf", long=("--set", "--file"))


def date(args: list[Word], places: WorkingDirectories) -> Text | None:
    """Prints; an operand that is no format sets the clock."""
    index = 0
    while index < len(args):
        word = args[index]
        if word.exact and word.text in ("-d", "--date", "-r", "--reference"):
            if index + 1 < len(args) and not args[index + 1].single:
                return _EXPANSION
            index += 2
            continue
        if not word.exact or not word.text.startswith(("-", "+")):
            return _ARGUMENTS
        index += 1
    options = [word for word in args if word.text.startswith("-") and not word.text.startswith("-I")]
    return check_flags(options, _DATE)


def tar(args: list[Word], places: WorkingDirectories) -> Text | None:
    """Listing only, of local archives only (`host:file` starts a remote shell)."""
    if not args or not all(word.exact for word in args):
        return _ARGUMENTS
    mode = args[0].text.removeprefix("-")
    plain = "t" in mode and set(mode) <= set("tvfzjJ")
    unsafe = any(word.text.startswith("-") or ":" in word.text for word in args[1:])
    return None if plain and not unsafe else _ARGUMENTS


def unzip(args: list[Word], places: WorkingDirectories) -> Text | None:
    """Listing only."""
    if len(args) == 2 and args[0].exact and args[0].text in ("-l", "-v", "-Z") and not args[1].maybe_option():
        return None
    return _ARGUMENTS
