"""Rules for the programs and builtins whose arguments are a language of their own.

Each rule gives the reason why a call is not read-only, or nothing. They accept a small, well-understood part
of each language and refuse the rest.
"""

from __future__ import annotations

from coder.policy.flags import Flags, check_flags
from coder.policy.names import names
from coder.policy.places import Places
from coder.policy.sed_script import is_harmless_script
from coder.policy.variables import is_dangerous, is_identifier
from coder.policy.words import Word

_EXPANSION = "an expansion may become an option that writes"


# -- awk, sed ---------------------------------------------------------------------------------------------

_AWK_VALUE_OPTIONS = ("-F", "-v")


def awk(args: list[Word], places: Places) -> str:
    """One literal program that neither calls out nor writes."""
    index = 0
    while index < len(args) and args[index].exact and args[index].text[:2] in _AWK_VALUE_OPTIONS:
        index += 1 if len(args[index].text) > 2 else 2
    if index < len(args) and args[index].exact and args[index].text == "--":
        index += 1
    if index >= len(args) or not args[index].exact or args[index].text.startswith("-"):
        return "an awk program that is not in plain sight"
    if not _harmless_awk(args[index].text):
        return "the awk program may write or run something"
    if any(word.splits for word in args[:index]) or any(word.maybe_option() for word in args[index + 1 :]):
        return _EXPANSION
    return ""


def _harmless_awk(program: str) -> bool:
    """No pipe, no output redirection, no call out: neither spelled nor by an indirect call."""
    plain = program.replace(">=", "").replace("||", "")
    if any(char in plain for char in ">|@") or "\\\n" in program:
        return False
    return not any(word in program for word in ("system", "getline", "close", "fflush", "extension"))


_SED_FLAGS = names(
    """
    -n -E -r -s -u -z -nE -nr -En -rn --quiet --silent --regexp-extended --null-data --separate --unbuffered
    --posix
    """
)


def sed(args: list[Word], places: Places) -> str:
    """Scripts in plain sight, made only of commands that print or change what is printed."""
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
            return f"the option {word.text} may write" if word.exact else _EXPANSION
    if not scripts:
        scripts, operands = operands[:1], operands[1:]
    if not scripts or not all(word.exact and is_harmless_script(word.text) for word in scripts):
        return "the sed script may write or run something"
    return ""


# -- tests ------------------------------------------------------------------------------------------------

_UNARY = frozenset("-" + letter for letter in "abcdefghknprstuwxzGLNOS")
_BINARY = frozenset({"=", "==", "!=", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot", "-ef"})
_NUMERIC = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
_EVALUATING = frozenset({"-v", "-R"})


def single_test(args: list[Word], places: Places) -> str:
    """`[ … ]` and `test`: `-v` evaluates a subscript, so no word may turn out to be it."""
    if args and args[-1].exact and args[-1].text == "]":
        args = args[:-1]
    if any(word.exact and word.text in _EVALUATING for word in args):
        return "a test that evaluates its operand"
    if all(word.exact for word in args):
        return ""
    if args[0].exact and args[0].text == "!":
        args = args[1:]
    if any(word.splits for word in args):
        return "an unquoted expansion in a test"
    shape_known = (
        len(args) == 1
        or (len(args) == 2 and args[0].exact and args[0].text in _UNARY)
        or (len(args) == 3 and args[1].exact and args[1].text in _BINARY)
    )
    return "" if shape_known else "a test whose operators are not known"


def double_test(args: list[Word], places: Places) -> str:
    """`[[ … ]]`: numeric comparison evaluates its operands as arithmetic."""
    for index, word in enumerate(args):
        if word.exact and word.text in _EVALUATING:
            return "a test that evaluates its operand"
        if word.exact and word.text in _NUMERIC:
            around = args[max(index - 1, 0) : index] + args[index + 1 : index + 2]
            if not all(operand.exact and operand.text.isdigit() for operand in around):
                return "a numeric comparison evaluates its operands"
    return ""


# -- builtins ---------------------------------------------------------------------------------------------


def printf(args: list[Word], places: Places) -> str:
    """The format must be in plain sight; `-v` only into a plain, harmless variable."""
    if len(args) >= 2 and args[0].exact and args[0].text == "-v":
        name = args[1]
        if not name.exact or not is_identifier(name.text) or is_dangerous(name.text):
            return "printf -v into something that is not a plain variable"
        args = args[2:]
    dashes = bool(args) and args[0].exact and args[0].text == "--"
    args = args[1:] if dashes else args
    if args and (not args[0].exact or (args[0].text.startswith("-") and not dashes)):
        return "a printf format that is not in plain sight"
    return "printf %n assigns a variable" if args and _assigns(args[0].text) else ""


def _assigns(form: str) -> bool:
    """Whether a printf format has a `%n`, with whatever flags and widths between."""
    return any(part.lstrip("-+ #0123456789.*'hlLjzt").startswith("n") for part in form.split("%")[1:])


def read(args: list[Word], places: Places) -> str:
    """`read` into plain variables only: a subscript in a name is evaluated."""
    for word in args:
        if not word.exact:
            return "a variable name that is not in plain sight"
        harmless = word.text in ("-r", "-a", "-d", "-ra", "-rd", "-s", "-p") or len(word.text) <= 1
        if not harmless and (not is_identifier(word.text) or is_dangerous(word.text)):
            return "read into something that is not a plain variable"
    return ""


def shell_set(args: list[Word], places: Places) -> str:
    """`set -euo pipefail` and its like; positional parameters and tracing are left alone."""
    given = [word.text for word in args if word.exact]
    if len(given) != len(args):
        return "an expansion in set"
    flags = [text for text in given if text != "pipefail"]
    plain = all(text[:1] in "-+" and text[1:] and set(text[1:]) <= set("euo") for text in flags)
    return (
        ""
        if plain and ("pipefail" not in given or any("o" in text for text in flags))
        else "changes the shell"
    )


def numbers_only(args: list[Word], places: Places) -> str:
    """`exit`, `break`, `return` …: at most a number."""
    fine = all((word.exact and word.text.isdigit()) or word.shell_text == "$?" for word in args)
    return "" if len(args) <= 1 and fine else "an argument that is not a number"


def change_folder(args: list[Word], places: Places) -> str:
    """`cd` counts as looking only where it certainly stays in the workspace."""
    if len(args) == 2 and args[0].exact and args[0].text == "--":
        args = args[1:]
    if len(args) != 1 or not args[0].exact or args[0].text in ("-", "") or args[0].text.startswith("-"):
        return "goes to a folder that is not known"
    return "" if places.inside(args[0].text) else "leaves the workspace"


def declare(args: list[Word], places: Places) -> str:
    """`export x=1`, `local y`: plain names, and no attribute that makes values be evaluated."""
    for word in args:
        if not word.exact or not (word.text in ("-x", "-r", "-g", "-rx", "-xr") or is_identifier(word.text)):
            return "a declaration that is not plain"
        if is_identifier(word.text) and is_dangerous(word.text):
            return f"changes {word.text}"
    return ""


# -- small programs ---------------------------------------------------------------------------------------

_DATE = Flags(short="sf", long=("--set", "--file"))


def date(args: list[Word], places: Places) -> str:
    """Prints; a word that is neither format nor option sets the clock."""
    index = 0
    while index < len(args):
        word = args[index]
        if word.exact and word.text in ("-d", "--date", "-r", "--reference"):
            index += 2
            continue
        if not word.exact or not word.text.startswith(("-", "+")):
            return "date with an operand sets the clock"
        index += 1
    options = [word for word in args if word.text.startswith("-") and not word.text.startswith("-I")]
    return check_flags(options, _DATE)


def tar(args: list[Word], places: Places) -> str:
    """Listing only, of local archives only (`host:file` starts a remote shell)."""
    if not args or not all(word.exact for word in args):
        return "not a plain listing"
    mode = args[0].text.removeprefix("-")
    plain = "t" in mode and set(mode) <= set("tvfzjJ")
    return "" if plain and not any(_odd_operand(word) for word in args[1:]) else "not a plain listing"


def unzip(args: list[Word], places: Places) -> str:
    """Listing only."""
    if len(args) == 2 and args[0].exact and args[0].text in ("-l", "-v", "-Z") and not args[1].maybe_option():
        return ""
    return "not a plain listing"


def _odd_operand(word: Word) -> bool:
    return word.text.startswith("-") or ":" in word.text
