"""What is certain of a line is what bash makes of it: generated words in a directory full of names, and
generated lines of several commands.
"""

from __future__ import annotations

import itertools
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from coder.policy.shell.tree import read_line
from coder.policy.shell.words import ShellParseError, Word

BASH = shutil.which("bash")
NAMES = (
    *"-oa]1",
    "{a",
    "a,o",
    "a=o",
    "!a",
    "#a",
    "%a",
    "a b",
    "[a]",
    "[",
    "a..o",
    "{a,o}",
    "é",
    "$a",
    "+a",
    "@a",
)
PIECES = (
    *"[]{},-=:%@+?*#!^~/_éao10$",
    *(
        "..",
        "--",
        "[a]",
        "[-]",
        "[!a]",
        "[[:alpha:]]",
        "a[1]",
        "]a[",
        "[[",
        "]]",
        "==",
        "=~",
        "!=",
        "-o",
        "a=",
    ),
    *("{a,o}", "{1..3}", "{-,o}", "{,a}", "-{a,o}", "+(a)", "@(a|o)"),
    *(
        "'a'",
        "'-'",
        "'['",
        "'*'",
        "''",
        '"a"',
        '"-o"',
        '"["',
        '""',
        '"{a,o}"',
        '"a$"',
        '"$ a"',
        '"a$$"',
        '"\\a"',
        '" "',
        '"\n "',
    ),
    *("\\a", "\\[", "\\-", "\\{", "\\,", "\\*", "\\$", "\\'", '\\"', "\\\\", "\\ ", "\\\n", " ", "\t"),
    *("$'a'", "$'\\x2d'", "$'\\055'", "$'\\ta'", "$$", "$#", "$?", "$1", "$a", "${a}", '"$a"', "$((1))"),
)
SCRIPT = """
p() { for one; do printf '%s\\1' "$one"; done; }
while IFS= read -r -d '' line <&3; do eval "$line" 2>/dev/null; printf '\\2'; done
"""


# Lines of several commands: words, and what stands between them. Nothing here runs at the same time.
PARTS = (
    *(
        "p",
        "p a",
        "p 'b;c'",
        'p "d e"',
        "p \\;",
        "a",
        "o",
        "1",
        "-x",
        "'q'",
        '"r"',
        "''",
        "\\ ",
        "\\'",
        '\\"',
    ),
    *("\\\\", "$'z\\''", "x=1", "[", "]", "{", "}", "!", "=", "#", "#c", "é", "\\\n", "$", "$1", "%", "*x=1"),
)
BETWEEN = (
    *(
        ";",
        "&&",
        "||",
        "|",
        "\n",
        "(",
        ")",
        "{ ",
        "; }",
        ";;",
        " #c",
        "if :; then",
        "; fi",
        "else",
        "; done",
        "; do",
    ),
    *(
        "while false; do",
        "for x in",
        "case a in",
        "a)",
        "*)",
        ";; esac",
        "<<E",
        "<<'E'",
        "<<-E",
        "\nE\n",
        "\n\tE\n",
    ),
    *(
        "<<<",
        "<f",
        "2>&1",
        ">w",
        "2>w",
        "&>w",
        ">>w",
        ">|w",
        ">&2",
        "<&0",
        ">&-",
        "[[",
        "]]",
        "[ ",
        " ]",
        "==",
        "<",
    ),
    *("\\;", "\\&", "\\#", "'", '"', "$'", "${x:-", "{a,b}", "'\n'", "\t", "  ", "p b\nE\n", "p k", "\n#c\n"),
)
LOGGED = """
p() { log p "$@"; }
command_not_found_handle() { log "$@"; }
log() { printf '%s\\1' "${@//$'\\n'/$'\\4'}" $'\\3' >&9; }  # a newline would flush: both sides of a pipe log
while IFS= read -r -d '' line <&3; do
  (eval "$line" 3<&-) </dev/null >/dev/null 2>&1
  printf '\\2' >&9
done
"""


def generated(seed: int, count: int) -> list[tuple[str, list[Word]]]:
    """Calls of the function `p` that are understood, with their words."""
    choose = random.Random(seed)
    found: list[tuple[str, list[Word]]] = []
    while len(found) < count:
        words = (
            "".join(choose.choice(PIECES) for _ in range(choose.randint(1, 5)))
            for _ in range(choose.randint(1, 3))
        )
        line = f"p {' '.join(words)}"
        try:
            parsed = read_line(line)
        except (ShellParseError, ValueError):
            continue
        if len(parsed.commands) == 1 and not parsed.substitutes:
            simple = parsed.commands[0]
            if not simple.trouble and not simple.redirects and not simple.assigns:
                found.append((line, simple.words[1:]))
    return found


def lines_of_commands(seed: int, count: int) -> list[tuple[str, list[list[Word]]]]:
    """Lines that are understood and of which every word is certain, with their commands."""
    choose = random.Random(seed)
    found: list[tuple[str, list[list[Word]]]] = []
    while len(found) < count:
        parts = (choose.choice(choose.choice((PARTS, BETWEEN))) for _ in range(choose.randint(2, 9)))
        line = "".join(part + choose.choice(("", " ", " ", " ")) for part in parts)
        try:
            parsed = read_line(line)
        except (ShellParseError, ValueError):
            continue
        words = [simple.words for simple in parsed.commands]
        certain = all(word.exact for one in words for word in one)
        troubled = any(simple.trouble for simple in parsed.commands)
        if certain and not troubled and not parsed.functions and not parsed.substitutes:
            found.append((line, words))
    return found


def handed_over(lines: list[str], directory: Path, script: str = SCRIPT) -> list[list[str]]:
    """The arguments that bash makes of each line; with `LOGGED`, of each command that it runs."""
    given = directory.parent / "lines"
    given.write_bytes(b"".join(line.encode() + b"\0" for line in lines))
    environment = {"PATH": "/nonexistent", "LC_ALL": "C.UTF-8", "HOME": "/home"}
    with given.open("rb") as file:
        done = subprocess.run(
            [str(BASH), "-c", f"exec 3<&0 9>&1 </dev/null\n{script}"],
            cwd=directory,
            env=environment,
            stdin=file,
            capture_output=True,
            check=True,
        )
    told = done.stdout.decode().replace("\4", "\n")
    return [text.split("\1")[:-1] for text in told.split("\2")[:-1]]


@pytest.mark.skipif(BASH is None, reason="no bash on this machine")
@pytest.mark.parametrize(
    ("seed", "count"),
    [(1, 3000), *(pytest.param(seed, 30_000, marks=pytest.mark.thorough) for seed in (2, 3))],
)
def test_a_certain_word_is_what_bash_hands_over(seed: int, count: int, tmp_path: Path) -> None:
    directory = tmp_path / "names"
    directory.mkdir()
    for name in (*NAMES, *("".join(two) for two in itertools.product("-oa]1", repeat=2))):
        (directory / name).touch()
    lines = generated(seed, count)
    for (line, words), given in zip(lines, handed_over([line for line, _ in lines], directory), strict=True):
        if any("~" in word.text for word in words):  # a home directory, and asked about as such
            continue
        if all(word.exact for word in words):
            assert given == [word.text for word in words], line
        elif all(word.single for word in words):
            assert [text[: len(word.text)] for word, text in zip(words, given, strict=True)] == [
                word.text for word in words
            ], line
        elif len(words) == 1 and not words[0].splits:
            assert all(text.startswith(words[0].text) for text in given), line


@pytest.mark.skipif(BASH is None, reason="no bash on this machine")
@pytest.mark.parametrize(
    ("seed", "count"),
    [(1, 800), *(pytest.param(seed, 10_000, marks=pytest.mark.thorough) for seed in (2, 3))],
)
def test_bash_runs_no_command_that_was_not_read(seed: int, count: int, tmp_path: Path) -> None:
    directory = tmp_path / "empty"
    directory.mkdir()
    lines = lines_of_commands(seed, count)
    ran = handed_over([line for line, _ in lines], directory, LOGGED)
    for (line, commands), logged in zip(lines, ran, strict=True):
        read = [_plain([word.text for word in words]) for words in commands]
        assert all(command in read or not command for command in map(_plain, _split(logged))), line


def _split(logged: list[str]) -> list[list[str]]:
    """The commands of a line's log: arguments, each list ended by a mark."""
    ends = [at for at, text in enumerate(logged) if text == "\3"]
    return [logged[start:end] for start, end in zip([0, *(end + 1 for end in ends)], ends, strict=False)]


def _plain(command: list[str]) -> list[str]:
    """Without `!`, a keyword or a word that no program is called by."""
    return list(itertools.dropwhile(lambda word: word == "!", command))
