"""A word that is called certain is what bash hands over: generated words, in a directory full of names."""

from __future__ import annotations

import itertools
import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from coder.policy.shell.tree import read_line
from coder.policy.shell.words import NotUnderstood, Word

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
    ),
    *("\\a", "\\[", "\\-", "\\{", "\\,", "\\*", "\\$", "\\'", '\\"', "\\\\", "\\ ", "\\\n", " ", "\t"),
    *("$'a'", "$'\\x2d'", "$'\\055'", "$'\\ta'", "$$", "$#", "$?", "$1", "$a", "${a}", '"$a"', "$((1))"),
)
SCRIPT = """
p() { for one; do printf '%s\\1' "$one"; done; }
while IFS= read -r -d '' line <&3; do eval "$line" 2>/dev/null; printf '\\2'; done
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
        except (NotUnderstood, ValueError):
            continue
        if len(parsed.commands) == 1 and not parsed.substitutes:
            simple = parsed.commands[0]
            if not simple.trouble and not simple.redirects and not simple.assigns:
                found.append((line, simple.words[1:]))
    return found


def handed_over(lines: list[str], directory: Path) -> list[list[str]]:
    """The arguments that bash makes of each line."""
    given = directory.parent / "lines"
    given.write_bytes(b"".join(line.encode() + b"\0" for line in lines))
    environment = {"PATH": os.defpath, "LC_ALL": "C.UTF-8", "HOME": "/home"}
    with given.open("rb") as file:
        done = subprocess.run(
            [str(BASH), "-c", f"exec 3<&0 </dev/null\n{SCRIPT}"],
            cwd=directory,
            env=environment,
            stdin=file,
            capture_output=True,
            check=True,
        )
    return [text.split("\1")[:-1] for text in done.stdout.decode().split("\2")[:-1]]


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
